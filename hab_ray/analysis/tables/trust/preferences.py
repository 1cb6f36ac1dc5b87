"""What judges are partial to: their own answers, their vendor's, length, refusals, and tests of their own making."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.evidence.kinship import Maker, makers
from hab_ray.analysis.evidence.slopes import slope
from hab_ray.analysis.intervals import FEW_CALLS, Interval, combined, excludes_zero, interval
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary

ITSELF, VENDOR, LENGTH, REFUSALS, GENERATOR = "itself", "vendor", "length", "refusals", "generator"
_Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Preference:
    """How much more a judge gives to answers of one `kind` than `others` do, on the scale of scores, 0..1.

    itself, vendor: to its own answers, or to other models of its vendor, beyond what it gives to the answers of
    subjects that are no judge's kin, against judges of other vendors on the same tests. refusals: to answers that
    refuse, beyond what it gives to the same subject's other answers. length: to an answer twice as long of the same
    subject. generator: to tests that its own model made.

    `mean` is the judge's own mean of the answers in question, `answers` how many they are; for length all answers.
    The 95 % interval is by generation call, of one value alone; with few `calls` it is not `reliable`. Where `value` is
    null, `why` says what it would take to know.
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
    def is_told(self) -> bool:
        """Whether the interval excludes 0."""
        return excludes_zero(self.low, self.high)


@dataclass(frozen=True)
class ShownPreferences:
    """Overall values by kind, those of single dimensions, and what cannot be known."""

    overall: Mapping[str, tuple[Preference, ...]]
    dimensions: tuple[Preference, ...]
    unknown: tuple[Preference, ...]


def _shown(_: Summary, rows: Sequence[Preference]) -> ShownPreferences | None:
    if not rows:
        return None
    known = [row for row in rows if row.value is not None]
    kinds = dict.fromkeys(row.kind for row in known)
    overall = {kind: tuple(r for r in known if r.kind == kind and r.dimension == OVERALL) for kind in kinds}
    dimensions = tuple(row for row in known if row.dimension != OVERALL)
    return ShownPreferences(overall, dimensions, tuple(row for row in rows if row.why))


@analysis(Preference, order=31, link="Preferences", heading="What the judges are partial to", layout=_shown)
def preferences(summary: Summary) -> Sequence[Preference]:
    """Every judge's preferences, overall and by dimension; of a panel of one only that they cannot be known."""
    marks = _Marks.of(summary)
    return [*_kin(summary, marks), *_slopes(summary, marks), *_generator(summary)]


@dataclass(frozen=True)
class _Marks:
    """Marks as tests x samples by judge, subject and dimension, nan where there is none."""

    by_cell: Mapping[tuple[str, str, str], _Array]

    @classmethod
    def of(cls, summary: Summary) -> _Marks:
        samples = summary.settings.samples
        return cls(
            {
                (m.judge, m.subject, m.dimension): np.array(m.by_test, dtype=np.float64).reshape(-1, samples)
                for m in summary.marks[summary.settings.truncated]
                if m.judge != PANEL
            }
        )

    def ahead(self, judge: str, others: Sequence[str], subject: str, dimension: str) -> _Array:
        """How far a judge's marks are above the others' mean, nan where one of them has none."""
        rest: _Array = np.mean([self.by_cell[other, subject, dimension] for other in others], axis=0)
        found: _Array = self.by_cell[judge, subject, dimension] - rest
        return found


def _kin(summary: Summary, marks: _Marks) -> Iterator[Preference]:
    subjects, judges = makers(summary.run.record)
    for judge in summary.settings.panel:
        me = judges[judge]
        own = [name for name in summary.settings.subjects if me.is_itself(subjects.get(name))]
        kin = [name for name in summary.settings.subjects if me.is_kin(subjects.get(name)) and name not in own]
        others = [other for other in summary.settings.panel if not me.is_kin(judges[other])]
        concerned = [me, *(judges[other] for other in others)]
        rest = [name for name in summary.settings.subjects if not _is_kin_of_any(concerned, subjects.get(name))]
        for kind, names in ((ITSELF, own), (VENDOR, kin)):
            if names:
                yield from _of_kind(summary, marks, (kind, judge, others), names, rest)


def _is_kin_of_any(makers: Sequence[Maker], other: Maker | None) -> bool:
    return any(maker.is_kin(other) for maker in makers)


def _of_kind(
    summary: Summary, marks: _Marks, who: tuple[str, str, Sequence[str]], names: Sequence[str], rest: Sequence[str]
) -> Iterator[Preference]:
    kind, judge, others = who
    if not others or not rest:
        lacking = "a judge of another vendor" if not others else "a subject that is kin to none of these judges"
        yield _unknown(kind, judge, others, f"{judge} would have to be compared over {lacking}, and there is none")
        return
    parts, rows = [], []
    for dimension in summary.settings.tests:
        own = _by_test([marks.ahead(judge, others, name, dimension) for name in names])
        base = _by_test([marks.ahead(judge, others, name, dimension) for name in rest])
        both = np.flatnonzero(~np.isnan(own - base))
        calls = [summary.settings.calls_of(dimension)[at] for at in both]
        part = interval((own - base)[both].tolist(), calls, -2.0, 2.0) if len(both) else None
        read = np.stack([marks.by_cell[judge, name, dimension] for name in names])
        parts.append(part)
        rows.append(_row((kind, judge, ", ".join(others), dimension), part, read[~np.isnan(read)], len(set(calls))))
    read_all = [marks.by_cell[judge, name, dimension] for name in names for dimension in summary.settings.tests]
    every = np.concatenate([each[~np.isnan(each)] for each in read_all])
    calls_of_all = sum(row.calls for row in rows)
    overall = combined([part for part in parts if part is not None])
    yield _row((kind, judge, ", ".join(others), OVERALL), overall, every, calls_of_all)
    yield from rows


def _by_test(cells: Sequence[_Array]) -> _Array:
    """The mean of what is known of each test, nan where nothing is."""
    stacked = np.concatenate(cells, axis=1)
    known = ~np.isnan(stacked)
    with np.errstate(invalid="ignore"):
        found: _Array = np.where(known, stacked, 0.0).sum(axis=1) / known.sum(axis=1)
    return found


def _slopes(summary: Summary, marks: _Marks) -> Iterator[Preference]:
    panel = summary.settings.panel
    if len(panel) < 2:
        return
    for judge, other in combinations(panel, 2):
        yield from _of_slope(summary, marks, LENGTH, judge, [other])
    for judge in panel:
        yield from _of_slope(summary, marks, REFUSALS, judge, [other for other in panel if other != judge])


def _of_slope(summary: Summary, marks: _Marks, kind: str, judge: str, others: Sequence[str]) -> Iterator[Preference]:
    dimensions = tuple(summary.settings.tests)
    for what, over in ((OVERALL, dimensions), *((name, (name,)) for name in dimensions)):
        ahead, on, own, groups, clusters = _observed(summary, marks, kind, judge, others, over)
        found = slope(ahead, on, groups, clusters) if len(ahead) else None
        if found is not None:
            concerned = own[on > 0] if kind == REFUSALS else own
            row = _row((kind, judge, ", ".join(others), what), found, concerned, len(np.unique(clusters)))
            yield row


def _observed(
    summary: Summary, marks: _Marks, kind: str, judge: str, others: Sequence[str], dimensions: Sequence[str]
) -> tuple[_Array, _Array, _Array, NDArray[np.int64], NDArray[np.int64]]:
    """Of every answer that all these judges marked: how far ahead, on what, the judge's mark, subject, call."""
    columns: list[list[_Array]] = [[], [], [], [], []]
    places: dict[tuple[str, str], int] = {}
    for group, (dimension, subject) in enumerate((d, s) for d in dimensions for s in summary.settings.subjects):
        texts = summary.answers[subject, dimension]
        ahead = marks.ahead(judge, others, subject, dimension)
        calls = [places.setdefault((dimension, call), len(places)) for call in summary.settings.calls_of(dimension)]
        known = ~np.isnan(ahead) & (texts.characters > 0)
        on = np.log2(np.maximum(texts.characters, 1.0)) if kind == LENGTH else texts.refuses.astype(np.float64)
        spread = np.repeat(np.array(calls, dtype=np.float64)[:, None], ahead.shape[1], axis=1)
        cells = (ahead, on, marks.by_cell[judge, subject, dimension], np.full(ahead.shape, float(group)), spread)
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell[known])
    ahead_, on_, own, groups, clusters = (np.concatenate(column) for column in columns)
    return ahead_, on_, own, groups.astype(np.int64), clusters.astype(np.int64)


def _generator(summary: Summary) -> Iterator[Preference]:
    sweep = summary.run.record.sweep
    if len(summary.settings.panel) < 2:
        return
    if sweep.gives_tests or sweep.generate is None:
        why = "who made the tests is not recorded: they were given"
    else:
        why = f"all tests come from {sweep.generate.model}; it takes tests from two generators to tell"
    yield _unknown(GENERATOR, PANEL, (), why)


def _row(what: tuple[str, str, str, str], found: Interval | None, own: _Array, calls: int) -> Preference:
    ends = (None, None) if found is None else (found.low, found.high)
    return Preference(
        *what,
        answers=len(own),
        calls=calls,
        mean=float(own.mean()) if len(own) else None,
        value=found.mean if found else None,
        low=ends[0],
        high=ends[1],
        reliable=calls >= FEW_CALLS,
        why="" if found else "these judges have no answer in common",
    )


def _unknown(kind: str, judge: str, others: Sequence[str], why: str) -> Preference:
    return Preference(kind, judge, ", ".join(others), OVERALL, 0, 0, None, None, None, None, False, why)
