"""The plan as `hab plan` shows it."""

import io
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hab_ray.cli.views import detectable
from hab_ray.cli.views.plan_view import print_long_plan, print_plan
from hab_ray.config.sweep import load_sweep
from hab_ray.planning import make_plan
from hab_ray.planning.preflight import prepare
from hab_ray.resources import bundled
from tests.instant import MADE, Run, work_of

DOLLARS = re.compile(r"\$[0-9,.]+")


def shown(run: Run, width: int, print_it: Callable[[Run, Console], None]) -> str:
    console = Console(file=io.StringIO(), width=width, record=True)
    print_it(run, console)
    return console.export_text()


def short(run: Run, console: Console) -> None:
    print_plan(run.work, run.plan(), [], console)


def long(run: Run, console: Console) -> None:
    print_long_plan(run.work, run.plan(), [], console)


def made(tmp_path: Path, **keys: Any) -> Run:
    subjects = [{"model": "house/a", "name": "a-model-whose-name-takes-up-half-of-a-narrow-terminal"}, "house/deep"]
    return Run(work_of(tmp_path, **MADE, subjects=subjects, **keys))


def test_no_figure_is_cut_at_80_columns(tmp_path: Path) -> None:
    wide, narrow = (shown(made(tmp_path), width, long) for width in (300, 80))
    tables = [text.partition("\nstage ")[2].partition("\n~")[0] for text in (wide, narrow)]
    assert "…" not in narrow and max(map(len, tables[1].splitlines())) <= 80
    assert sorted(DOLLARS.findall(tables[0])) == sorted(DOLLARS.findall(tables[1])) != []
    assert tables[0].count("batch $") == tables[1].count("batch $") == 1
    assert "\nstage " not in tables[0] and tables[1].count("\nstage ") == 1
    assert "--long" not in wide and "online" in tables[0]
    lines = shown(made(tmp_path), 80, short).splitlines()
    assert max(len(line) for line in lines if "  " in line) <= 80 and not any("…" in line for line in lines)


def test_the_plan_of_the_most_common_size_is_on_one_screen_money_first(tmp_path: Path) -> None:
    changes = {"run": str(tmp_path / "run"), "store": str(tmp_path / "store"), "budget_usd": 30}
    work, problems = prepare(load_sweep(Path(str(bundled("jobs"))) / "compare.yaml", changes), datetime.now(UTC))
    console = Console(file=io.StringIO(), width=80, record=True)
    plan = make_plan(work)
    print_plan(work, plan, problems, console)
    lines = console.export_text().splitlines()
    assert len(lines) <= 24
    assert re.match(
        r"compare: usually \$\d+\.\d\d, at most \$\d+\.\d\d \(longest replies, each asked for once\); "
        r"all online \$\d+\.\d\d$",
        lines[0],
    )
    assert re.match(r"time: usually (\d+) rounds of batches.*, about \1 hours, at most \d+ days; all online", lines[2])
    most = lines[0].partition("at most ")[2].partition(" (")[0]
    assert lines[3].startswith(f"the budget of $30.00 is enough for the usual cost; below {most} some calls may wait")
    by_stage = plan.grouped(lambda line: (line.stage, line.name))
    assert [tuple(line.split()[:2]) for line in lines[5 : 5 + len(by_stage)]] == list(by_stage)


def test_time_is_told_by_the_way_that_calls_will_go(tmp_path: Path) -> None:
    by_batch, online = (made(tmp_path / mode, mode=mode) for mode in ("batch", "online"))
    told = shown(online, 300, short)
    assert " online  $" not in told and " batch  $" not in told and "(all online; " in told
    assert re.search(r"time: about \d+ (s|min) online\n", told) and "rounds" not in told
    mixed = made(tmp_path / "mixed", mode="batch", judges=[{"model": "house/j", "mode": "online"}])
    told = shown(mixed, 300, short)
    assert " online  $" in told and " batch  " in told
    assert re.search(r"time: usually \d+ rounds of batches.*; \d+ (s|min) for what goes online; all online about", told)
    assert 0 < mixed.plan().online_seconds < mixed.plan().seconds
    assert by_batch.plan().online_seconds == 0 and "for what goes online" not in shown(by_batch, 300, short)


def test_the_time_of_a_local_model_is_said_to_be_a_guess_until_it_is_measured(tmp_path: Path) -> None:
    (tmp_path / "own.gguf").write_bytes(b"GGUF")
    run = Run(work_of(tmp_path, subjects=["house/a"], judges=[name := f"local/{tmp_path}/own.gguf"]))
    guess = f" online, which is a guess: {name} runs on this machine, and may take several times as long"
    assert guess in shown(run, 999, short)
    console = Console(file=io.StringIO(), width=999, record=True)
    print_plan(run.work, make_plan(run.work, {("judge", name): 7.0}), [], console)
    assert "a guess" not in console.export_text()


def test_a_dimension_without_given_tests_has_none_to_select(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made(tmp_path)
    assert any("show" in line for line in detectable.detectable_effects(run.work))
    monkeypatch.setattr(detectable, "given_tests", lambda work: dict.fromkeys(work.rubrics, ()))
    assert not any("pair" in line for line in detectable.detectable_effects(run.work))
