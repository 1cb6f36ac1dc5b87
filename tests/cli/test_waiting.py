"""What is said of a run whose next calls wait for money."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from hab_ray.catalog.prices import NANO
from hab_ray.cli import ending
from hab_ray.cli.commands.running.status import Status, print_status
from hab_ray.cli.views.view import View
from hab_ray.cli.views.waiting import waiting_for_money
from hab_ray.errors import Exit
from hab_ray.location import Location
from hab_ray.progress import BatchProgress, BudgetStatus, Draining, LastEnd, Progress, StageProgress

MONEY = BudgetStatus(spent=5 * NANO, reserved=1490 * NANO, budget=1500 * NANO, waits_for=round(12.4 * NANO))


def batch(model: str) -> BatchProgress:
    return BatchProgress("acme/000001", "b-1", model, 10, NANO, "", "open")


def waiting(*models: str, money: BudgetStatus | None = MONEY) -> Progress:
    stages = (StageProgress("judge", "a", 9, 1, 0, 8),)
    return Progress("now", 6.0, stages, 0, 0, 0, (), money=money, batches=tuple(map(batch, models)))


@pytest.mark.parametrize(
    ("models", "what"),
    [
        (["openai/gpt-x"] * 3, "3 batches of openai/gpt-x must end"),
        ([*"aaaabbbccde"], "4 batches of a, 3 batches of b, 2 batches of c and 2 batches of other models must end"),
        ([], "calls in flight must be answered"),
        (["evil\n\x1b[31m"], "1 batch of evil [U+001B][31m must end"),
    ],
)
def test_it_says_how_much_and_what_must_end(models: list[str], what: str) -> None:
    told = f"waits for $12.40: {what} first ($1,490.00 reserved and $5.00 spent of $1,500.00)"
    assert waiting_for_money(waiting(*models)) == told


@pytest.mark.parametrize(
    "progress",
    [
        waiting(money=None),
        waiting(money=replace(MONEY, waits_for=0)),
        waiting(money=replace(MONEY, reserved=310 * NANO)),
        replace(waiting("a"), end=LastEnd.by(Exit.PENDING)),
        replace(waiting("a"), draining=Draining(1.0, 1, 1)),
    ],
)
def test_nothing_is_said_where_nothing_waits(progress: Progress) -> None:
    assert waiting_for_money(progress) is None


def printed(console: Console) -> str:
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


CHOOSING = replace(waiting(money=None), choosing=6, stages=(StageProgress("select", "a", 9, 9, 0, 0),))


COMPUTING = replace(CHOOSING, choosing=0, computing=("'count words' of the package acme-hab 0.3",))


@pytest.mark.parametrize(
    ("progress", "what"),
    [
        (waiting("gpt-x"), "waits for $12.40: 1 batch of gpt-x"),
        (CHOOSING, "waits for the choice of the tests of 6 dimensions"),
        (COMPUTING, "waits for the stage 'count words' of the package acme-hab 0.3"),
    ],
    ids=["money", "tests", "package"],
)
def test_run_table_and_status_say_so(tmp_path: Path, progress: Progress, what: str) -> None:
    lines, live = Console(file=io.StringIO(), width=200), Console(file=io.StringIO(), width=200, force_terminal=True)
    view, table = View(lines), View(live)
    for elapsed_s in (20.0, 26.0):
        view.update(replace(progress, elapsed_s=elapsed_s))
    with table.shown():
        table.update(progress)
    with ending.console.capture() as captured:
        print_status(Status(Location.of(tmp_path), Location.of(tmp_path), progress, None))
    assert printed(lines).count(what) == 1 and what in printed(live) and what in captured.get()
