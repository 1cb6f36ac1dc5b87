"""What has to be known of the judges is said above the leaderboard, on the terminal as on the page."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest

from hab_ray.analysis.signs.finding import MAX_HEADLINE_WORDS, MAX_SHOWN_FIRST
from hab_ray.analysis.summary import summarise
from hab_ray.cli.views.board import DETAILS, show_board
from hab_ray.cli.views.terminal import Terminal
from hab_ray.report import write_report
from hab_ray.results import open_run
from hab_ray.rows import State, Verdict
from hab_ray.stages.views import verdicts_file
from hab_ray.work import Work
from tests.small_runs import Shape, summary_of, write_run


def shown(work: Work, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The terminal's text and the page's."""
    summary = summary_of(work)
    show_board(summary, Terminal(width=200))
    page = write_report(summary, notice=None)
    return capsys.readouterr().out, Path(str(page)).read_text(encoding="utf-8")


def change(work: Work, judge: str, lost: int) -> None:
    """Have a judge's first verdicts in every view be unreadable."""
    for dimension in work.rubrics:
        for subject in work.sweep.subject_names:
            file = verdicts_file(judge, subject, dimension)
            rows: list[Verdict] = work.run.read(Verdict, file)
            bad = [replace(row, state=State.UNREADABLE, score=None, issues=None, reason="none") for row in rows[:lost]]
            work.run.write(Verdict, file, [*bad, *rows[lost:]])


def test_judges_that_draw_lots_are_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal, page = shown(write_run(tmp_path / "run", Shape(judges=("strict", "mild"), tests=30)), capsys)
    said = "The judges agree no better than chance"
    for text, board in ((terminal, "overall"), (page, 'id="leaderboard"')):
        assert said in text and text.index(said) < text.index(board)


def test_one_judge_is_said_nothing_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal, page = shown(write_run(tmp_path / "run", Shape(tests=30)), capsys)
    assert "chance" not in terminal and "unreadable verdicts" not in terminal
    assert "agree no better" not in page


def test_what_judges_lost_is_counted_by_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = write_run(tmp_path / "run", Shape(judges=("strict", "mild"), tests=30))
    before, _ = shown(work, capsys)
    change(work, "mild", lost=3)
    terminal, page = shown(work, capsys)
    assert "mild 12 of 120" in terminal and "mild 12" not in before and "unreadable" not in before
    said = "More than 5 % of mild's verdicts are unreadable"
    assert said in terminal and "12 of 120" in page


def test_a_judge_without_a_score_is_named_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = write_run(tmp_path / "run", Shape(judges=("strict", "mild"), tests=30))
    change(work, "mild", lost=30)
    terminal, page = shown(work, capsys)
    assert terminal.startswith("mild has no scored row") and "120 verdicts" in terminal
    assert "mild has no scored row" in page


def test_a_narrow_terminal_shows_the_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_board(summarise(open_run(write_run(tmp_path / "run", Shape()).run_path)), Terminal(width=40))
    rows = [line for line in capsys.readouterr().out.splitlines() if re.search(r"\d-[.1]", line)]
    assert rows and max(map(len, rows)) <= 40


def test_a_finding_takes_one_short_line_above_the_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal, page = shown(write_run(tmp_path / "run", Shape(judges=("strict", "mild"), tests=3)), capsys)
    above = terminal[: terminal.index(DETAILS)].splitlines()
    assert 0 < len(above) <= MAX_SHOWN_FIRST and all(len(line.split()) <= MAX_HEADLINE_WORDS for line in above)
    assert all(line.split(". ")[0].rstrip(".") in html.unescape(page) for line in above)
    assert "Before you use these scores" in page
