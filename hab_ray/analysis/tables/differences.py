"""Paired differences between all pairs of subjects, in each dimension and overall."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from math import nan
from statistics import median

from hab_ray.analysis.evidence.components import effective_calls
from hab_ray.analysis.intervals import ends, lies_within
from hab_ray.analysis.marks import OVERALL, PANEL, ScoreSettings
from hab_ray.analysis.pairs import Ahead, ahead, holm, of_known, over_dimensions
from hab_ray.analysis.power import LEVEL, Design
from hab_ray.analysis.preregistration import margin_of
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The difference of two subjects' means by the panel, over the `tests` that both have.

    `low` and `high` are an uncorrected 95 % interval. `p` is that of the sign-flip test by generation call, whose null
    hypothesis is that the two labels are exchangeable (more than equal means); `holm` is corrected for all pairs of the
    dimension, or for all overall pairs. `differs` says whether it is at most .05, `equal` whether the interval lies
    within +-`margin`. `sd` is the standard deviation of the calls' differences: the standard error of `difference`
    times the root of `calls`; null for a single call and over several dimensions.
    """

    subject: str
    other: str
    dimension: str
    tests: int
    calls: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    holm: float | None
    differs: bool
    equal: bool
    margin: float
    sd: float | None


@dataclass(frozen=True)
class DifferenceParts:
    """The pairs by dimension, overall first, and their designs, which say what can be detected.

    The better subject of a pair comes first, and the pairs are sorted by their difference, the largest first.
    """

    by_dimension: Mapping[str, tuple[PairedDifference, ...]]
    designs: Mapping[str, Design]
    margin: float


def _shown(summary: Summary, rows: Sequence[PairedDifference]) -> DifferenceParts | None:
    if not rows:
        return None
    by_dimension = {name: _largest_first(found) for name, found in groupby(rows, lambda row: row.dimension)}
    return DifferenceParts(by_dimension, designs_of(rows, summary.settings), margin_of(summary.run.record))


def _largest_first(rows: Iterable[PairedDifference]) -> tuple[PairedDifference, ...]:
    turned = [_turned(row) if (row.difference or 0) < 0 else row for row in rows]
    return tuple(sorted(turned, key=lambda row: -1.0 if row.difference is None else row.difference, reverse=True))


def _turned(row: PairedDifference) -> PairedDifference:
    """Return the difference of the other subject from this one."""
    difference, low, high = (None if end is None else -end for end in (row.difference, row.high, row.low))
    return replace(row, subject=row.other, other=row.subject, difference=difference, low=low, high=high)


def designs_of(rows: Sequence[PairedDifference], settings: ScoreSettings) -> Mapping[str, Design]:
    """Return the design of each dimension with known pairs, after that of overall means if every dimension has one."""
    known = {
        name: [row for row in rows if row.dimension == name and row.difference is not None] for name in settings.tests
    }
    designs = {name: _design_of(own, settings.calls_of(name)) for name, own in known.items() if own}
    if not len(designs) == len(settings.tests) > 1:
        return designs
    return {OVERALL: Design.together(list(designs.values())), **designs}


def _design_of(rows: Sequence[PairedDifference], calls: Sequence[Hashable]) -> Design:
    """Return the design of a dimension's known pairs, for which Holm corrects; `calls` holds each test's call.

    It has their median calls and SD, ignoring an SD of 0 if most pairs have it, nan if none is known; the most calls if
    with the median no pair, but with these one, can differ significantly. They are as uneven as all `calls` are.
    """
    subjects = len({name for row in rows for name in (row.subject, row.other)})
    deviations = [row.sd for row in rows if row.sd is not None] or [nan]
    sd = median(deviations) or median([each for each in deviations if each] or [0.0])
    design = Design(subjects, int(median(row.calls for row in rows)), sd)
    if not design.can_show_any:
        design = replace(design, calls=max(row.calls for row in rows))
    return replace(design, effective=design.calls * effective_calls(calls) / len(set(calls)))


@analysis(PairedDifference, order=24, heading="Pairwise differences", layout=_shown)
def differences(summary: Summary) -> Sequence[PairedDifference]:
    """Return all pairs of subjects: overall, then by dimension."""
    cells, subjects, dimensions = summary.cells, summary.settings.subjects, tuple(summary.settings.tests)
    margin = margin_of(summary.run.record)
    found = {
        (one, other): [ahead(cells[one, each, PANEL], cells[other, each, PANEL]) for each in dimensions]
        for one, other in combinations(subjects, 2)
    }
    rows = _corrected([difference_of(*pair, OVERALL, parts, margin) for pair, parts in found.items()])
    for at, dimension in enumerate(dimensions):
        rows += _corrected([difference_of(*pair, dimension, [parts[at]], margin) for pair, parts in found.items()])
    return rows


def difference_of(
    one: str, other: str, dimension: str, parts: Sequence[Ahead | None], margin: float
) -> PairedDifference:
    """Return the difference of two subjects over the unweighted mean of parts, one per dimension; uncorrected."""
    (tests, mean, p), known = over_dimensions(parts), [part for part in parts if part is not None]
    difference, low, high = ends(mean)
    return PairedDifference(
        subject=one,
        other=other,
        dimension=dimension,
        tests=tests,
        calls=sum(part.calls for part in known),
        difference=difference,
        low=low,
        high=high,
        p=p,
        holm=None,
        differs=False,
        equal=lies_within(low, high, margin),
        margin=margin,
        sd=known[0].sd if mean and len(parts) == 1 and known[0].calls > 1 else None,
    )


def _corrected(rows: list[PairedDifference]) -> list[PairedDifference]:
    """Apply Holm's correction to the rows of one family."""
    corrected = zip(rows, of_known(holm, [row.p for row in rows]), strict=True)
    return [replace(row, holm=p, differs=p is not None and p <= LEVEL) for row, p in corrected]
