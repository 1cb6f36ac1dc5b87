"""The leaderboard on a terminal."""

from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from hab_ray.analysis.board import board
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.report.leaderboard import leaderboard, score_text
from hab_ray.rows import Score
from hab_ray.rubric import load_rubrics


def score(
    subject: str, dimension: str, mean: float | None, low: float | None = None, high: float | None = None
) -> Score:
    return Score(subject, dimension, PANEL, mean, low, high, 9, 0, 0)


def both(subject: str, mean: float | None) -> list[Score]:
    return [score(subject, "correct_misinformation", 0.5, 0.4, 0.6), score(subject, OVERALL, mean)]


def printed(scores: list[Score], width: int = 100) -> str:
    console = Console(file=StringIO(), width=width, color_system=None)
    console.print(leaderboard(scores), crop=False)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("mean", "low", "high", "text"),
    [
        (0.62, 0.55, 0.69, "0.62 .55-.69"),
        (0.98, 0.90, 1.00, "0.98 .90-1.0"),
        (0.5, 0.0, 1.0, "0.50 .00-1.0"),
        (1.0, 0.0, 1.0, "1.00 .00-1.0"),
        (0.7, 0.7, 0.7, "0.70 .70-.70"),
        (0.9991, 0.9953, 1.0, "0.9991 .995-1.0"),
        (0.0004, 0.0, 0.0042, "0.0004 .00-.004"),
        (0.9991, None, None, "0.9991"),
        (0.7, None, None, "0.70"),
        (None, None, None, "-"),
    ],
)
def test_a_score_is_short(mean: float | None, low: float | None, high: float | None, text: str) -> None:
    assert score_text(score("s", "d", mean, low, high)) == text


def test_subjects_stand_by_overall_mean_and_those_without_one_last() -> None:
    scores = [*both("none-b", None), *both("low", 0.1), *both("none-a", None), *both("high", 0.8), *both("also", 0.8)]
    assert [line.subject for line in board(scores, PANEL).lines] == ["also", "high", "low", "none-a", "none-b"]


def test_only_the_panel_is_shown() -> None:
    own = Score("s", OVERALL, "judge", 0.11, None, None, 9, 0, 0)
    other = Score("s", "correct_misinformation", "judge", 0.22, None, None, 9, 0, 0)
    text = printed([own, other, *both("s", 0.33)])
    assert "0.33" in text and "0.11" not in text and "0.22" not in text


def test_titles_are_short_and_names_are_no_markup() -> None:
    text = printed(both("[red]s[/red]\x1b[31m", 0.5))
    assert "[red]s[/red][U+001B][31m" in text
    assert "\x1b" not in text
    assert "misinformation" in text


LONG = "meta-llama/llama-4-maverick-instruct-17b"
DIMENSIONS = load_rubrics()


def whole_board(*subjects: str) -> list[Score]:
    return [score(s, d, 0.5, 0.4, 0.6) for s in subjects for d in (*DIMENSIONS, OVERALL)]


def test_eighty_columns_break_no_line_and_keep_names() -> None:
    names = ["claude-sonnet-4-5-20250929", "gpt-4.1"]
    lines = printed(whole_board(*names), width=80).splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines)
    for name in names:
        (row,) = [line for line in lines if name in line]
        assert row.count("0.50") == 7 and row.count(".40-.60") == 1
    assert "interval" in lines[-1] and "values" in lines[2] and "." not in "".join(lines[:4])


def test_a_name_that_is_still_too_long_is_cut_in_its_own_line() -> None:
    lines = printed(whole_board(LONG), width=80).splitlines()
    (row,) = [line for line in lines if "0.50" in line]
    assert LONG[:20] in row and "…" in row and row.count("0.50") == 7


@pytest.mark.parametrize("width", [20, 39, 50])
def test_a_very_narrow_terminal_still_shows_names_and_every_mean(width: int) -> None:
    """The terminal wraps such lines."""
    lines = printed(whole_board("gpt-4.1-mini", "gpt-4.1-nano", LONG), width=width).splitlines()
    for name in ("gpt-4.1-mini ", "gpt-4.1-nano ", f"{LONG[:11]}…"):
        (row,) = [line for line in lines if name in line]
        assert row.count("0.50") == 7


def test_a_name_in_wide_characters_is_cut_before_lines_wrap() -> None:
    lines = printed(whole_board("\u6a21\u578b" * 8), width=70).splitlines()
    assert max(map(cell_len, lines)) <= 70 and any("\u6a21" in line and "…" in line for line in lines)


def test_a_wide_terminal_shows_every_interval_and_whole_names() -> None:
    lines = printed(whole_board(LONG), width=160).splitlines()
    (row,) = [line for line in lines if LONG in line]
    assert row.count("0.50 .40-.60") == 7 and not any("interval" in line for line in lines)
