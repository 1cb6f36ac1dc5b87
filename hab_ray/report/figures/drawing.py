"""Draws figures with matplotlib, which only this module imports at its top.

Colours are distinguishable for colour-blind readers and in grey: cividis, and purple against orange.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator

from hab_ray.analysis.agreement import LOW_ALPHA
from hab_ray.analysis.board import rank_text
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.rates import IssueRate
from hab_ray.analysis.tables.differences import PairedDifference
from hab_ray.analysis.tables.leaderboard import Rank, axis
from hab_ray.analysis.tables.trust.agreement import Agreed
from hab_ray.analysis.tables.trust.people import PeopleAgreed
from hab_ray.errors import ConfigError
from hab_ray.report.visible import signed
from hab_ray.results import Run
from hab_ray.rows import R, from_table
from hab_ray.visible import one_line

JUDGES, PEOPLE, BOTH = "judges", "people", "judges and people"
INK, FAINT = "#1b2a49", "#b8bcc4"
_SERIES = {JUDGES: (INK, "o"), PEOPLE: ("#b35806", "s"), BOTH: ("#8073ac", "D")}
_WIDTH, _LINE, _NAME = 6.5, 0.27, 40
_MAX_WRITTEN = 12
_GAP = 0.06  # inches
_WIDE = 0.42  # an axis of scores from which ticks are tenths
_PALE = 0.25  # the least difference in full colour, so that small ones look small


@dataclass(frozen=True, slots=True)
class Bar:
    """A subject's overall mean by the panel (0..1), with its 95 % interval, if known, and its possible ranks."""

    subject: str
    mean: float
    low: float | None
    high: float | None
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Heat:
    """The share (0..1) of a subject's answers in a dimension for which the panel names an issue, with its text."""

    subject: str
    dimension: str
    issue: str
    rate: float
    text: str


@dataclass(frozen=True, slots=True)
class Point:
    """Krippendorff's alpha of scores in a dimension, or overall, with its 95 % interval, if known, and between whom."""

    dimension: str
    alpha: float
    low: float | None
    high: float | None
    reliable: bool
    between: str = JUDGES


@dataclass(frozen=True, slots=True)
class Pair:
    """The difference of two subjects' overall means, and whether it is significant after Holm's correction."""

    subject: str
    other: str
    difference: float
    differs: bool


def bars(run: Run) -> list[Bar]:
    """Return a bar for each subject with an overall mean."""
    return [
        Bar(row.subject, row.mean, row.low, row.high, row.first, row.last)
        for row in _rows(Rank, run, "leaderboard")
        if row.mean is not None and row.first is not None and row.last is not None
    ]


def heats(run: Run) -> list[Heat]:
    """Return each known rate of a subject, dimension and issue, in the order of the leaderboard."""
    place, rubrics = _places(run), run.rubrics
    texts = {(name, issue.letter): issue.text for name, each in rubrics.items() for issue in each.judging.issues}
    found = [row for row in _rows(IssueRate, run, "issues") if row.judge == PANEL and row.rate is not None]
    found.sort(key=lambda row: (place[row.subject], run.dimensions.index(row.dimension), row.issue))
    return [
        Heat(row.subject, row.dimension, row.issue, row.rate or 0.0, texts[row.dimension, row.issue]) for row in found
    ]


def points(run: Run) -> list[Point]:
    """Return the alphas of several judges, of people, and of the panel (or only judge) and people's mean, if known."""
    judges = [row for row in _rows(Agreed, run, "agreement") if row.issue is None and row.statistic == "alpha"]
    shown = {None: PEOPLE, PANEL if len(run.panel) > 1 else run.panel[0]: BOTH}
    people = [row for row in _rows(PeopleAgreed, run, "people") if row.issue is None and row.rater is None]
    found = [
        Point(row.dimension, row.value, row.low, row.high, row.reliable) for row in judges if row.value is not None
    ]
    return found + [
        Point(row.dimension, row.agreement, row.low, row.high, row.reliable, shown[row.judge])
        for row in people
        if row.judge in shown and row.agreement is not None
    ]


def pairs(run: Run) -> list[Pair]:
    """Return every pair of subjects with a known overall difference, the higher ranked first."""
    place = _places(run)
    found = []
    for row in _rows(PairedDifference, run, "differences"):
        if row.dimension == OVERALL and row.difference is not None:
            if place[row.subject] < place[row.other]:
                found.append(Pair(row.subject, row.other, row.difference, row.differs))
            else:
                found.append(Pair(row.other, row.subject, -row.difference, row.differs))
    return sorted(found, key=lambda pair: (place[pair.subject], place[pair.other]))


def _places(run: Run) -> dict[str, int]:
    return {row.subject: at for at, row in enumerate(_rows(Rank, run, "leaderboard"))}


def _rows(row_type: type[R], run: Run, name: str) -> list[R]:
    try:
        return from_table(row_type, run.analysis(name))
    except KeyError as error:
        cause = f"{run.location}: the table {name} is outdated, it has no column {error}"
        raise ConfigError(f"{cause}; `hab report {run.location}` writes it anew") from None


class Drawing(NamedTuple):
    """A figure: its data, a function that draws them, and a description."""

    data: Callable[[Run], Sequence[Any]]
    draw: Callable[[Sequence[Any]], Figure]
    shows: str


def draw_leaderboard(rows: Sequence[Bar]) -> Figure:
    """Draw means with known intervals, the best on top, on an axis limited to their range and labelled so."""
    figure, axes = _axes(len(rows))
    places = range(len(rows))
    means, lows, highs = np.array([(row.mean, row.low, row.high) for row in rows], dtype=np.float64).T
    reach = [means - lows, highs - means]
    axes.errorbar(means, places, xerr=reach, fmt="o", color=INK, ecolor=INK, elinewidth=1.4, capsize=2.5, markersize=4)
    low, high = axis([end for row in rows for end in (row.mean, row.low, row.high) if end is not None])
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(MultipleLocator(0.05 if high - low < _WIDE else 0.1))
    axes.xaxis.set_major_formatter("{x:.2f}")
    limits = f" (axis from {low:.2f} to {high:.2f} of 0 to 1)" if high - low < 1 else ""
    axes.set_xlabel(f"overall score{limits}, 95 % intervals")
    _name_lines(axes, [row.subject for row in rows])
    for at, row in enumerate(rows):
        ranks = rank_text(row.first, row.last).replace("-", "\N{EN DASH}")
        axes.annotate(ranks, (1.02, at), xycoords=("axes fraction", "data"), va="center", fontsize=8, color=INK)
    axes.annotate("rank", (1.02, 1.0), (0, 3), "axes fraction", textcoords="offset points", fontsize=7, color="grey")
    axes.grid(axis="x", color=FAINT, linewidth=0.4)
    return figure


def draw_issues(rows: Sequence[Heat]) -> Figure:
    """Draw a heat map of subjects x issues, dimensions side by side."""
    subjects = list(dict.fromkeys(row.subject for row in rows))
    by_dimension = {
        name: list(found) for name, found in groupby(sorted(rows, key=lambda row: row.dimension), lambda r: r.dimension)
    }
    letters = {name: sorted({row.issue for row in found}) for name, found in by_dimension.items()}
    figure = Figure(figsize=(_WIDTH, 1.5 + _LINE * len(subjects)))
    ratios = [len(each) for each in letters.values()]
    grid = figure.subplots(1, len(letters), squeeze=False, width_ratios=ratios, gridspec_kw={"wspace": 0.08})[0]
    most = max(1, ceil(10 * max(row.rate for row in rows))) / 10
    _name_lines(grid[0], subjects)
    for axes, (name, found) in zip(grid, by_dimension.items(), strict=True):
        rates = np.full((len(subjects), len(letters[name])), np.nan)
        for row in found:
            rates[subjects.index(row.subject), letters[name].index(row.issue)] = row.rate
        shown = axes.imshow(rates, cmap="cividis", vmin=0.0, vmax=most, aspect="auto", interpolation="nearest")
        axes.set_xticks(range(len(letters[name])), letters[name], fontsize=7)
        axes.set_title(textwrap.fill(name.replace("_", " "), 14), fontsize=7)
        axes.tick_params(length=0)
    for axes in grid[1:]:
        axes.set_yticks([])
    pad = 0.31 / figure.get_figheight()
    bar = figure.colorbar(shown, ax=list(grid), orientation="horizontal", fraction=0.05, pad=pad, aspect=40)
    bar.set_label("share of answers in which the issue was found; issues.csv has the text of each letter", fontsize=7)
    bar.ax.tick_params(labelsize=7)
    return figure


def draw_agreement(rows: Sequence[Point]) -> Figure:
    """Draw alpha by dimension, of judges and of people; hollow points have too few answers, calls or raters."""
    dimensions = list(dict.fromkeys(row.dimension for row in rows))
    series = [each for each in _SERIES if any(row.between == each for row in rows)]
    figure, axes = _axes(len(dimensions) * (1 + len(series)) // 2)
    for row in rows:
        at = dimensions.index(row.dimension) + 0.24 * (series.index(row.between) - (len(series) - 1) / 2)
        colour, marker = _SERIES[row.between]
        if row.low is not None and row.high is not None:
            axes.plot([row.low, row.high], [at, at], color=colour, linewidth=1.4)
        axes.plot(
            row.alpha, at, marker, color=colour, markerfacecolor=colour if row.reliable else "white", markersize=5
        )
    if len(series) > 1:
        shapes = [Line2D([], [], color=_SERIES[each][0], marker=_SERIES[each][1], label=each) for each in series]
        figure.legend(handles=shapes, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=7, frameon=False)
    for place, label, side in ((0.0, "chance", "center"), (LOW_ALPHA, f"← below {LOW_ALPHA}: little", "right")):
        axes.axvline(place, color="grey", linewidth=0.8, linestyle="--")
        top, above = (place, 1.0), (0, 3)
        axes.annotate(label, top, above, ("data", "axes fraction"), textcoords="offset points", ha=side, fontsize=7)
    axes.set_xlim(min(-0.1, *((row.alpha if row.low is None else row.low) - 0.05 for row in rows)), 1.0)
    few = "answers or generation calls" if series == [JUDGES] else "answers, generation calls or raters"
    hollow = "" if all(row.reliable for row in rows) else f"; hollow: too few {few}"
    axes.set_xlabel(f"Krippendorff's alpha of scores, 95 % intervals{hollow}")
    _name_lines(axes, [name.replace("_", " ") for name in dimensions])
    axes.grid(axis="x", color=FAINT, linewidth=0.4)
    return figure


def draw_pairs(rows: Sequence[Pair]) -> Figure:
    """Draw a matrix of all pairs in the order of the leaderboard; a dot marks a significant difference."""
    names = list(dict.fromkeys([*(row.subject for row in rows), *(row.other for row in rows)]))
    side = max(3.2, 0.36 * len(names))
    figure = Figure(figsize=(side + 1.2, side))
    axes = figure.subplots()
    values = np.full((len(names), len(names)), np.nan)
    for row in rows:
        at, below = names.index(row.subject), names.index(row.other)
        values[at, below], values[below, at] = row.difference, -row.difference
    reach = max(_PALE, float(np.nanmax(np.abs(values))))
    shown = axes.imshow(values, cmap="PuOr", vmin=-reach, vmax=reach, interpolation="nearest")
    colours = shown.to_rgba(values)
    is_written = len(names) <= _MAX_WRITTEN
    for row in rows:
        for one, other in ((row.subject, row.other), (row.other, row.subject)):
            place = names.index(other), names.index(one)
            value = float(values[place[1], place[0]])
            ink = _readable_on(colours[place[1], place[0]])
            if row.differs:
                axes.plot(place[0], place[1] + 0.3 * is_written, "o", color=ink, markersize=2.5)
            if is_written:
                label = signed(round(value, 2), 2)  # a cell has room for two decimals
                axes.text(*place, label, ha="center", va="center", fontsize=6.5, color=ink)
    axes.set_xticks(range(len(names)), [_short(name) for name in names], rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), [_short(name) for name in names], fontsize=7)
    axes.tick_params(length=0)
    bar = figure.colorbar(shown, ax=axes, fraction=0.04, pad=0.03)
    found = (
        "a dot marks a significant difference" if any(row.differs for row in rows) else "no difference is significant"
    )
    bar.set_label(f"row minus column, overall score\n{found}", fontsize=7)
    bar.ax.tick_params(labelsize=7)
    return figure


def put_notice(figure: Figure, notice: str) -> None:
    """Write a notice at the bottom of a figure."""
    below = (figure.get_tightbbox().y0 - _GAP) / figure.get_figheight()
    figure.text(0.5, below, notice, ha="center", va="top", fontsize=6, color="#a03000", wrap=True)


DRAWINGS: Mapping[str, Drawing] = {
    "leaderboard": Drawing(bars, draw_leaderboard, "overall means with 95 % intervals, and the ranks they allow"),
    "issues": Drawing(heats, draw_issues, "how often each issue was found in each subject's answers"),
    "agreement": Drawing(points, draw_agreement, "alpha of judges, and of people, by dimension, with 95 % intervals"),
    "pairs": Drawing(pairs, draw_pairs, "overall differences of all pairs; a dot marks a significant difference"),
}


def _readable_on(rgba: Iterable[float]) -> str:
    """Return black or white, whichever has more contrast (WCAG 2) with an sRGB colour."""
    luminance = sum(part * channel**2.2 for part, channel in zip((0.2126, 0.7152, 0.0722), rgba, strict=False))
    return "black" if luminance > 0.18 else "white"


def _axes(lines: int) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH, 0.9 + _LINE * lines))
    axes = figure.subplots()
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure, axes


def _name_lines(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [_short(name) for name in names], fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    axes.xaxis.label.set_fontsize(8)


def _short(name: str) -> str:
    shown = one_line(name)
    return shown if len(shown) <= _NAME else f"{shown[: _NAME - 1]}…"
