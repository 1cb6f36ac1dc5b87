"""Biases of judges: towards their own answers, their vendor's, length, refusals, and tests they generated."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from hab_ray.analysis.evidence.kinship import makers
from hab_ray.analysis.intervals import (
    FEW_CALLS,
    TAIL,
    Array,
    Interval,
    combined,
    ends,
    excludes_zero,
    interval,
    mean_of_known,
)
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary

_ROUNDING = 1e-9
_Integers = NDArray[np.int64]


def slope(values: Array, on: Array, groups: _Integers, clusters: _Integers) -> Interval | None:
    """Return the least-squares slope of `values` on `on` with group fixed effects; None if `on` varies in no group.

    The interval is Student's t with the bias-reduced sandwich variance by cluster (CR2), in which a cluster's leverage
    is its share of the spread of `on`. The degrees of freedom are one less than the clusters of equal leverage that
    would be as uneven (Carter, Schnepel and Steigerwald 2017): a few clusters may hold nearly all of the spread. With
    fewer than two of these the interval has no ends.
    """
    x, y = _centred(on, groups), _centred(values, groups)
    spread = float(x @ x)
    if spread <= 1e-12 * max(1.0, float(on @ on)):
        return None
    estimate = float(x @ y) / spread
    numbers, count = np.unique(clusters, return_inverse=True)[1], len(values)
    sums, leverages = np.bincount(numbers, weights=x * (y - estimate * x)), np.bincount(numbers, weights=x * x) / spread
    effective, free = 1 / float(leverages @ leverages), count - len(np.unique(groups))
    if effective < 2 - _ROUNDING or free < 2:
        return Interval(estimate, None, None, count)
    variance = count / free * float((sums * sums / (1 - leverages)).sum()) / spread**2
    reach = float(stdtrit(effective - 1, 1 - TAIL)) * sqrt(variance)
    return Interval(estimate, estimate - reach, estimate + reach, count)


def varies(on: Array, groups: _Integers) -> NDArray[np.bool_]:
    """Return which values belong to a group in which `on` varies; the others do not count in a slope."""
    numbers = np.unique(groups, return_inverse=True)[1]
    return np.bincount(numbers, weights=np.abs(_centred(on, groups)))[numbers] > _ROUNDING


def _centred(values: Array, groups: _Integers) -> Array:
    numbers = np.unique(groups, return_inverse=True)[1]
    means = np.bincount(numbers, weights=values) / np.bincount(numbers)
    return values - means[numbers]


ITSELF, VENDOR, LENGTH, REFUSALS, GENERATOR = "itself", "vendor", "length", "refusals", "generator"


@dataclass(frozen=True, slots=True)
class Preference:
    """How much higher a judge marks answers of one `kind` than `others` do, on the scale of 0..1.

    itself, vendor: its own answers, or those of its vendor's other models, relative to its lead on subjects that are no
    judge's kin, against judges of other vendors on the same tests. refusals: answers that refuse, relative to the same
    subject's other answers. length: an answer twice as long by the same subject. generator: tests its model generated.

    `mean` is the judge's own mean of the `answers` concerned; for length, of all answers. The 95 % interval is by
    generation call and uncorrected; with few `calls` it is neither `reliable` nor significant. For refusals, `calls`
    are those with a refusal, or those with another answer if they are fewer. Overall, `itself` and `vendor` are means
    of the dimensions in which they can be measured. If `value` is null, `why` says what is needed to measure it.
    """

    kind: str
    judge: str
    others: str
    dimension: str
    answers: int
    calls: int
    mean: float | None
    value: float | None
    low: float | None
    high: float | None
    reliable: bool
    why: str

    @property
    def is_significant(self) -> bool:
        """Whether the interval, which is uncorrected, excludes 0 and is reliable."""
        return self.reliable and excludes_zero(self.low, self.high)


@analysis(Preference, order=31, heading="Judge bias")
def preferences(summary: Summary) -> Sequence[Preference]:
    """Return every judge's preferences, overall and by dimension; those of a panel of one are unknown."""
    return [*_kin(summary), *_slopes(summary), *_generator(summary)]


def _ahead(summary: Summary, judge: str, others: Sequence[str], subject: str, dimension: str) -> Array:
    """Return tests x samples: a judge's marks less the others' mean; nan if one of them has none."""
    rest: Array = np.mean([summary.cells[subject, dimension, other].by_test for other in others], axis=0)
    return summary.cells[subject, dimension, judge].by_test - rest


def _kin(summary: Summary) -> Iterator[Preference]:
    subjects, judges = makers(summary.run.record)
    for judge in summary.settings.panel:
        me = judges[judge]
        own = [name for name in summary.settings.subjects if me.is_itself(subjects.get(name))]
        kin = [name for name in summary.settings.subjects if me.is_kin(subjects.get(name)) and name not in own]
        others = [other for other in summary.settings.panel if not me.is_kin(judges[other])]
        near = [me, *(judges[other] for other in others)]
        rest = [name for name in summary.settings.subjects if not any(one.is_kin(subjects.get(name)) for one in near)]
        for kind, names in ((ITSELF, own), (VENDOR, kin)):
            if names:
                yield from _of_kind(summary, (kind, judge, others), names, rest)


def _of_kind(
    summary: Summary, who: tuple[str, str, Sequence[str]], names: Sequence[str], rest: Sequence[str]
) -> Iterator[Preference]:
    kind, judge, others = who
    if not others or not rest:
        lacking = "no judge of another vendor" if not others else "no subject unrelated to these judges"
        yield _unknown(kind, judge, others, f"the run has {lacking} to compare {judge} with")
        return
    parts, marks, rows = [], [], []
    for dimension in summary.settings.tests:
        leads = {name: _ahead(summary, judge, others, name, dimension) for name in names}
        own = _by_test(list(leads.values()))
        base = _by_test([_ahead(summary, judge, others, name, dimension) for name in rest])
        both = np.flatnonzero(~np.isnan(own - base))
        calls = [summary.settings.calls_of(dimension)[at] for at in both]
        part = interval((own - base)[both].tolist(), calls, -2.0, 2.0) if len(both) else None
        marks.append(_compared(summary, judge, dimension, leads, both))
        parts.append(part)
        rows.append(_row((kind, judge, ", ".join(others), dimension), part, marks[-1], len(set(calls))))
    overall = combined([part for part in parts if part is not None])
    calls_of_all = sum(row.calls for row in rows)
    yield _row((kind, judge, ", ".join(others), OVERALL), overall, np.concatenate(marks), calls_of_all)
    yield from rows


def _compared(
    summary: Summary, judge: str, dimension: str, leads: Mapping[str, Array], tests: NDArray[np.int64]
) -> Array:
    """Return a judge's marks of the answers to these tests on which its lead, by subject, is known."""
    return np.concatenate(
        [summary.cells[name, dimension, judge].by_test[tests][~np.isnan(lead[tests])] for name, lead in leads.items()]
    )


def _by_test(cells: Sequence[Array]) -> Array:
    return mean_of_known(np.concatenate(cells, axis=1), axis=1)


def _slopes(summary: Summary) -> Iterator[Preference]:
    panel = summary.settings.panel
    if len(panel) < 2:
        return
    for judge, other in combinations(panel, 2):
        yield from _of_slope(summary, LENGTH, judge, [other])
    for judge in panel:
        yield from _of_slope(summary, REFUSALS, judge, [other for other in panel if other != judge])


def _of_slope(summary: Summary, kind: str, judge: str, others: Sequence[str]) -> Iterator[Preference]:
    dimensions = tuple(summary.settings.tests)
    for what, over in ((OVERALL, dimensions), *((name, (name,)) for name in dimensions)):
        ahead, on, own, groups, clusters = _observed(summary, kind, judge, others, over)
        found = slope(ahead, on, groups, clusters) if len(ahead) else None
        if found is not None:
            counts = varies(on, groups)
            sides = [counts & (on > 0), counts & (on == 0)] if kind == REFUSALS else [counts]
            calls = min(len(np.unique(clusters[side])) for side in sides)
            yield _row((kind, judge, ", ".join(others), what), found, own[sides[0]], calls)


def _observed(
    summary: Summary, kind: str, judge: str, others: Sequence[str], dimensions: Sequence[str]
) -> tuple[Array, Array, Array, NDArray[np.int64], NDArray[np.int64]]:
    """Return arrays over the answers marked by all these judges: lead, regressor, the judge's mark, subject, call."""
    parts: list[list[Array]] = []
    places: dict[tuple[str, str], int] = {}
    for group, (dimension, subject) in enumerate((d, s) for d in dimensions for s in summary.settings.subjects):
        texts = summary.answers[subject, dimension]
        ahead = _ahead(summary, judge, others, subject, dimension)
        calls = [places.setdefault((dimension, call), len(places)) for call in summary.settings.calls_of(dimension)]
        known = ~np.isnan(ahead) & (texts.characters > 0)
        on = np.log2(np.maximum(texts.characters, 1.0)) if kind == LENGTH else texts.refuses.astype(np.float64)
        spread = np.repeat(np.array(calls, dtype=np.float64)[:, None], ahead.shape[1], axis=1)
        marks, groups = summary.cells[subject, dimension, judge].by_test, np.full(ahead.shape, float(group))
        parts.append([each[known] for each in (ahead, on, marks, groups, spread)])
    ahead_, on_, own, groups, clusters = (np.concatenate(column) for column in zip(*parts, strict=True))
    return ahead_, on_, own, groups.astype(np.int64), clusters.astype(np.int64)


def _generator(summary: Summary) -> Iterator[Preference]:
    sweep = summary.run.record.sweep
    if len(summary.settings.panel) < 2:
        return
    if sweep.gives_tests or sweep.generate is None:
        why = "the tests were given, and their generator is not recorded"
    else:
        why = f"all tests come from {sweep.generate.model}; measuring it takes tests from two generators"
    yield _unknown(GENERATOR, PANEL, (), why)


def _row(what: tuple[str, str, str, str], found: Interval | None, own: Array, calls: int) -> Preference:
    mean = float(own.mean()) if len(own) else None
    unknown = "there is no test on which these judges scored such an answer and an unrelated subject's"
    return Preference(*what, len(own), calls, mean, *ends(found), calls >= FEW_CALLS, "" if found else unknown)


def _unknown(kind: str, judge: str, others: Sequence[str], why: str) -> Preference:
    return Preference(kind, judge, ", ".join(others), OVERALL, 0, 0, None, None, None, None, False, why)
