"""Draws the README's picture from a finished run: the leaderboard with intervals, and how often each issue was found.

hab rehearse benchmarks/picture.yaml --run runs/picture
python -m benchmarks.picture runs/picture docs/picture.svg
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from hab_ray.report.figures.data import Bar, bars
from hab_ray.results import open_run
from hab_ray.rubric import load_rubrics

WIDTH, LEFT, ROW, TOP = 900, 110, 26, 46
INK, FAINT, HOT = "#222222", "#888888", (178, 24, 43)
PLOT = 560

Shares = Mapping[tuple[str, str, str], float]
"""The share of a subject's verdicts in a dimension that name an issue, by subject, dimension and letter."""


def shares(run_folder: str) -> dict[tuple[str, str, str], float]:
    """How often each issue of the rubrics was found, also those that never were."""
    run = open_run(run_folder)
    read, named = Counter[tuple[str, str]](), Counter[tuple[str, str, str]]()
    for row in run.verdicts(columns=("subject", "dimension", "issues")).to_pylist():
        if row["issues"] is not None:
            read[row["subject"], row["dimension"]] += 1
            named.update((row["subject"], row["dimension"], letter) for letter in set(row["issues"]))
    rubrics = load_rubrics()
    letters = ((s, d, issue.letter) for s, d in read for issue in rubrics[d].judging.issues)
    return {cell: named[cell] / read[cell[:2]] for cell in letters}


def picture(board: Sequence[Bar], found: Shares) -> str:
    """Both as one SVG, readable on a light and a dark page."""
    height = 2 * TOP + 2 * ROW * len(board) + 80
    parts = [*_board(board), *_map([each.subject for each in board], found, TOP + ROW * len(board) + 60)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
            f'font-size="13" fill="{INK}"><rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _board(board: Sequence[Bar]) -> Iterator[str]:
    first, last = min(each.low for each in board), max(each.high for each in board)
    scale = PLOT / ((last - first) or 1)
    yield _text(LEFT, 20, "Overall score, 0 to 1, with 95 % intervals", weight="bold")
    for row, each in enumerate(board):
        y = TOP + ROW * row
        low, mid, high = (LEFT + (value - first) * scale for value in (each.low, each.mean, each.high))
        yield _text(LEFT - 10, y + 4, each.subject, anchor="end")
        yield f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="{FAINT}" stroke-width="3"/>'
        yield f'<circle cx="{mid:.1f}" cy="{y}" r="6" fill="#2166ac"/>'
        yield _text(LEFT + PLOT + 20, y + 4, f"{each.mean:.2f}  ({each.low:.2f} to {each.high:.2f})")
    end = TOP + ROW * len(board)
    yield _text(LEFT, end + 8, f"{first:.2f}", fill=FAINT)
    yield _text(LEFT + PLOT, end + 8, f"{last:.2f}", anchor="end", fill=FAINT)


def _map(subjects: Sequence[str], found: Shares, top: int) -> Iterator[str]:
    columns = sorted({(dimension, letter) for _, dimension, letter in found})
    dimensions = list(dict.fromkeys(dimension for dimension, _ in columns))
    gap = 10
    cell = (WIDTH - LEFT - 10 - gap * (len(dimensions) - 1)) / max(1, len(columns))
    yield _text(LEFT, top - 20, "Share of answers with each issue (A, B, ... in the rubric)", weight="bold")
    for number, (dimension, letter) in enumerate(columns):
        x = LEFT + number * cell + gap * dimensions.index(dimension)
        if letter == min(each for d, each in columns if d == dimension):
            yield _text(x, top, " ".join(dimension.split("_")[:2]), size=10, fill=FAINT)
        yield _text(x + cell / 2, top + 14, letter, anchor="middle", size=10, fill=FAINT)
        for row, subject in enumerate(subjects):
            share = found.get((subject, dimension, letter), 0.0)
            y = top + 20 + ROW * row
            told = escape(f"{subject}, {dimension}, issue {letter}: {share:.0%}")
            yield (
                f'<rect x="{x:.1f}" y="{y}" width="{cell - 1:.1f}" height="{ROW - 2}" fill="{_colour(share)}">'
                f"<title>{told}</title></rect>"
            )
    for row, subject in enumerate(subjects):
        yield _text(LEFT - 10, top + 20 + ROW * row + 16, subject, anchor="end")


def _colour(share: float) -> str:
    return "#" + "".join(f"{round(245 + (each - 245) * min(1.0, share)):02x}" for each in HOT)


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, fill: str = INK, weight: str = ""
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}"{bold}'
    return f"<text {where}>{escape(text)}</text>"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    given.out.write_text(picture(bars(open_run(given.run)), shares(given.run)), encoding="utf-8")
