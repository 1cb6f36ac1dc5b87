"""What `hab run` prints while it runs where there is no terminal."""

import io
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from hab_ray.cli import ending
from hab_ray.cli.commands.running.run import sent_and_paid
from hab_ray.cli.views.terminal import output
from hab_ray.cli.views.view import COUNTDOWN_EVERY_S, LINE_EVERY_S, MAX_COLUMNS, View
from hab_ray.errors import ConfigError, Exit
from hab_ray.progress import BatchProgress, Draining, Progress, RunEnd, StageProgress
from hab_ray.stopping import Stop

STAGE = StageProgress("respond", "m", 100, 0, 0, 1)
BATCH = BatchProgress("b", None, "m", 5, 0, "", "open")
AT_START = Progress("", 0.0, (STAGE,), 1, 0, 0, ())


def printed(*moments: Progress) -> list[str]:
    console = Console(file=io.StringIO(), width=400, record=True)
    view = View(console)
    for moment in moments:
        view.update(moment)
    return console.export_text().splitlines()


def test_a_line_every_15_seconds_has_rows_dollars_time_left_and_what_is_waited_for() -> None:
    """At 30 rows in 15 s the other 70 take 35 s more."""
    later = replace(STAGE, done=20, answered=20, in_flight=3)
    moments = [replace(AT_START, elapsed_s=s / 4, stages=(later,) if s >= 40 else (STAGE,)) for s in range(60)]
    moments.append(
        replace(AT_START, elapsed_s=15.0, stages=(replace(later, done=30, answered=30),), cost_nanousd=400_000_000)
    )
    first, second = printed(*moments)
    assert first == "     0 s  0/100 rows  $0.00  waits for 1 answer  respond m 0/100"
    assert second == "    15 s  30/100 rows  $0.4000  about 35 s left  waits for 3 answers  respond m 30/100"


def test_rows_that_were_in_the_store_are_no_speed() -> None:
    """A resumed run has 70 of 100 rows at once, as they are settled, and then one in 3 s."""
    settled = replace(STAGE, in_flight=0, done=70)
    moments = [replace(AT_START, elapsed_s=s, stages=(settled,)) for s in (0.0, 1.0)]
    moments.append(replace(AT_START, elapsed_s=31.0, stages=(replace(settled, done=80, answered=10, in_flight=1),)))
    assert "80/100 rows  $0.00  about 60 s left" in printed(*moments)[-1]


@pytest.mark.parametrize(
    ("judged", "answered", "told"),
    [
        (replace(STAGE, stage="judge", total=0), 30, "30/100 rows known so far  $0.00  about 35 s left for these  "),
        (replace(STAGE, stage="judge", total=20), 30, "30/120 rows known so far  $0.00  about 35 s left for these  "),
        (replace(STAGE, stage="judge"), 100, "100/200 rows  $0.00  waits "),
    ],
)
def test_totals_that_later_stages_add_to_are_known_so_far(judged: StageProgress, answered: int, told: str) -> None:
    later = replace(STAGE, done=answered, answered=answered)
    stages = [replace(AT_START, elapsed_s=s, stages=(one, judged)) for s, one in ((0.0, STAGE), (15.0, later))]
    assert told in printed(*stages)[-1]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"stages": (replace(STAGE, in_flight=0),), "batches": (BATCH,)}, "waits for 1 batch "),
        ({"batches": (BATCH, BATCH)}, "waits for 1 answer and 2 batches "),
        ({"outages": {"lab": "refused, 1 try"}, "batches": (BATCH,)}, "waits for lab: refused, 1 try "),
        ({"stages": (replace(STAGE, failed=2),)}, "2 failed"),
    ],
)
def test_it_names_what_is_waited_for(changes: dict[str, object], told: str) -> None:
    (line,) = printed(replace(AT_START, **changes))  # type: ignore[arg-type]
    assert told in line


def test_nothing_is_said_of_a_run_without_a_row() -> None:
    assert printed(replace(AT_START, stages=(replace(STAGE, total=0),))) == []


def test_no_line_is_longer_than_160_characters_or_breaks() -> None:
    stages = tuple(StageProgress("respond", f"model\n{n}" * 5, 10**6, n, n, n) for n in range(40))
    lines = printed(*(replace(AT_START, elapsed_s=15.0 * n, stages=stages) for n in range(3)))
    assert len(lines) == 3 and max(map(len, lines)) == MAX_COLUMNS
    assert all(line.endswith(" ...") for line in lines)


def test_an_endpoint_that_is_away_is_told_at_once_and_again_with_each_line() -> None:
    lines = printed(
        *(
            replace(AT_START, elapsed_s=seconds, outages=outages)
            for seconds, outages in (
                (1.0, {}),
                (1.2, {"lab": "refused, 1 try, giving up in 10 min"}),
                (1.4, {"lab": "refused, 2 tries, giving up in 10 min"}),
                (1.2 + LINE_EVERY_S, {"lab": "refused, 9 tries, giving up in 9 min"}),
                (1.2 + 2 * LINE_EVERY_S, {}),
            )
        )
    )
    told = [line.partition("lab: ")[2].partition("  ")[0] for line in lines]
    assert told == ["", "refused, 1 try, giving up in 10 min", "refused, 9 tries, giving up in 9 min", ""]


def test_a_note_is_printed_at_once_and_only_once() -> None:
    notes = "batch a/1 [x]: no results yet", "batch a/2: cancelled"
    lines = printed(*(replace(AT_START, elapsed_s=s, notes=notes[:n]) for s, n in ((1.0, 0), (1.2, 1), (1.4, 2))))
    assert lines[1:] == [f"note: {note}" for note in notes]


def test_a_stop_is_counted_down_from_its_first_moment() -> None:
    at = [1.0, 1.2, 1.4, 1.2 + COUNTDOWN_EVERY_S]
    lines = printed(*(replace(AT_START, elapsed_s=s, draining=Draining(20 - s, 1, 0) if s > 1 else None) for s in at))
    assert [("1 open call" in line) for line in lines] == [False, True, True]


def test_a_run_that_ends_by_itself_is_not_said_to_be_stopped_by_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    ending = replace(AT_START, draining=Draining(20, 1, 0))
    (line,) = printed(ending)
    assert line.startswith("the run ends by itself: nothing new is sent") and "Ctrl-C twice" in line
    stopped = Stop()
    stopped.request()
    monkeypatch.setattr("hab_ray.cli.views.view.stop", stopped)
    (line,) = printed(ending)
    assert line.startswith("stopping: ") and line.endswith("Ctrl-C again exits at once")


@pytest.mark.parametrize(
    ("calls", "nanousd", "lost", "told"),
    [
        (0, 0, 0, "0 calls sent, $0.00 paid"),
        (1, 10**8, 0, "1 call sent, $0.1000 paid"),
        (2000, 0, 2 * 10**8, "2,000 calls sent, $0.00 paid, at most $0.2000 more for calls without an answer"),
        (0, 4 * 10**8, 0, "$0.4000 paid for collected batch results; no new calls were sent"),
    ],
)
def test_the_last_line_says_what_was_sent_and_paid(calls: int, nanousd: int, lost: int, told: str) -> None:
    assert sent_and_paid(RunEnd(Exit.COMPLETE, (), {}, (), calls, nanousd, lost)) == told


def test_a_program_reads_no_colours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.setenv(name, "1")
    console = output()
    console.print_json('{"status": 0}')
    with View(console).shown():
        console.print("a line", style="yellow")
    assert capsys.readouterr().out == '{\n  "status": 0\n}\na line\n'


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    console = Console(file=io.StringIO(), width=100, force_terminal=True, record=True)
    view = View(console)
    with view.shown():
        view.update(replace(AT_START, stages=(STAGE,), notes=("wait",), elapsed_s=60.0))
        assert "note: wait" in console.export_text(clear=False)


def test_nobody_is_asked_without_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "console", Console(file=io.StringIO(), force_terminal=True))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ConfigError, match="repeat the command with --yes"):
        ending.ask_to_spend("this")


@pytest.mark.parametrize("width", [60, 100])
def test_the_live_view_shows_names_and_rows_whole_also_on_a_narrow_terminal(width: int) -> None:
    names = ("gateway/gpt-6.1-terra", "gateway/gpt-6.1-terra-mini")
    stages = tuple(replace(STAGE, model=name, done=1109, total=12345, in_flight=12) for name in names)
    console = Console(file=io.StringIO(), width=width, force_terminal=True, record=True)
    view = View(console)
    with view.shown():
        view.update(replace(AT_START, stages=stages))
    header, *rows = [line for line in console.export_text().splitlines() if line[9:].strip()][:-1]
    assert sum("1109/12345" in row for row in rows) == 2
    assert "".join(row[header.index("model") :].split(" ")[0] for row in rows) == "".join(names)
