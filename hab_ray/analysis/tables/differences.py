"""Who is better than whom: paired differences of all pairs, in each dimension and overall."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from statistics import median

from hab_ray.analysis.intervals import lies_within
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.pairs import Ahead, ahead, holm, mean_of, of_known, p_of
from hab_ray.analysis.power import LEVEL, Design
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.standing import margin_of
from hab_ray.analysis.summary import Summary


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """How far a subject's mean is above another's over the `tests` that both have, by the panel.

    `low` and `high` are a 95 % interval of the difference alone. `p` is of the sign-flip test by generation call, whose
    null is that the two labels are exchangeable (more than equal means); `holm` the same corrected for all pairs of the
    dimension, or for all overall pairs. `differs` says whether that is at most .05, `equal` whether the interval lies
    within +-`margin`. `sd` is of a call's difference.
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
    """The pairs by dimension, overall first, and what the design can show."""

    by_dimension: Mapping[str, tuple[PairedDifference, ...]]
    told: tuple[str, ...]
    margin: float


def _shown(summary: Summary, rows: Sequence[PairedDifference]) -> DifferenceParts | None:
    if not rows:
        return None
    by_dimension = {name: tuple(found) for name, found in groupby(rows, lambda row: row.dimension)}
    return DifferenceParts(by_dimension, tuple(_told(summary, by_dimension)), margin_of(summary.run.record))


def _told(summary: Summary, by_dimension: Mapping[str, Sequence[PairedDifference]]) -> Iterator[str]:
    for dimension, rows in by_dimension.items():
        known = [row for row in rows if row.sd is not None]
        if known and dimension != OVERALL:
            calls, sd = int(median(row.calls for row in known)), median(row.sd or 0.0 for row in known)
            of = "tests" if calls == int(median(row.tests for row in known)) else "generation calls"
            yield Design(len(summary.settings.subjects), calls, sd).told(dimension.replace("_", " "), of)


@analysis(PairedDifference, order=24, link="Differences", heading="Who is better than whom", layout=_shown)
def differences(summary: Summary) -> Sequence[PairedDifference]:
    """All pairs of subjects: overall, then by dimension."""
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
    """The difference of two, of one dimension's part or of the plain mean of all; not corrected for others."""
    mean, known = mean_of(parts), [part for part in parts if part is not None]
    low, high = (mean.low, mean.high) if mean else (None, None)
    return PairedDifference(
        subject=one,
        other=other,
        dimension=dimension,
        tests=sum(part.difference.tests for part in known),
        calls=sum(part.calls for part in known),
        difference=mean.mean if mean else None,
        low=low,
        high=high,
        p=p_of(known) if mean else None,
        holm=None,
        differs=False,
        equal=lies_within(low, high, margin),
        margin=margin,
        sd=known[0].sd if mean and len(parts) == 1 else None,
    )


def _corrected(rows: list[PairedDifference]) -> list[PairedDifference]:
    """The rows of one family with Holm's correction."""
    corrected = zip(rows, of_known(holm, [row.p for row in rows]), strict=True)
    return [replace(row, holm=p, differs=p is not None and p <= LEVEL) for row, p in corrected]
