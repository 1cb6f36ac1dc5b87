"""What has to be known of the judges is said above the leaderboard, on the terminal as on the page."""

import html
import re
from dataclasses import replace

import pytest

from hab_ray.analysis.signs.finding import MAX_HEADLINE_WORDS, MAX_SHOWN_FIRST
from hab_ray.cli.views.board import DETAILS, show_board
from hab_ray.cli.views.terminal import Terminal
from hab_ray.rows import State, Verdict
from hab_ray.work import Work
from tests.small_runs import MakeRun, Shape, page_of, summary_of, verdict_files


def shown(work: Work, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The terminal's text and the page's."""
    show_board(summary_of(work), Terminal(width=200))
    return capsys.readouterr().out, page_of(work)


def test_judges_that_draw_lots_are_said_to(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    terminal, page = shown(make_run(Shape(judges=("strict", "mild"), tests=30)), capsys)
    said = "The judges agree little or no better than chance"
    for text, board in ((terminal, "overall"), (page, 'id="leaderboard"')):
        assert said in text and text.index(said) < text.index(board)


def test_what_judges_lost_is_counted_by_judge(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    work = make_run(Shape(judges=("strict", "mild"), tests=30))
    before, _ = shown(work, capsys)
    for file in verdict_files(work, "mild"):
        rows = work.run.read(Verdict, file)
        lost = [replace(row, state=State.UNREADABLE, score=None, issues=None, reason="none") for row in rows[:3]]
        work.run.write(Verdict, file, [*lost, *rows[3:]])
    terminal, page = shown(work, capsys)
    assert "mild 12 of 120" in terminal and "mild 12" not in before and "unreadable" not in before
    said = "More than 5 % of mild's verdicts are unreadable"
    assert said in terminal and "12 of 120" in page


def test_a_narrow_terminal_shows_the_board_or_the_names(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    summary = summary_of(make_run(Shape(subjects=("first-subject", "other-subject"))))
    for width, row, count in ((40, r"\d-[.1]", 2), (20, r"(first|other)-subj.* \d\.\d\d \d\.\d\d", 2)):
        show_board(summary, Terminal(width=width))
        rows = [line for line in capsys.readouterr().out.splitlines() if re.search(row, line)]
        assert len(rows) == count and (width < 40 or max(map(len, rows)) <= width)


def test_a_finding_takes_one_short_line_above_the_board(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    terminal, page = shown(make_run(Shape(judges=("strict", "mild"), tests=3)), capsys)
    above = terminal[: terminal.index(DETAILS)].splitlines()
    assert 0 < len(above) <= MAX_SHOWN_FIRST and all(len(line.split()) <= MAX_HEADLINE_WORDS for line in above)
    assert all(line.split(". ")[0].rstrip(".") in html.unescape(page) for line in above)
    assert "Before you use these scores" in page
