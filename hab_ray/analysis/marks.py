"""The marks behind every mean: subject x dimension x judge, arranged by test and sample.

The sweep defines the arrangement, not the rows that exist: a missing row shows as missing, and the order in which rows
arrive does not matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import fsum
from statistics import fmean
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from hab_ray.analysis.intervals import Array
from hab_ray.calls import Finish
from hab_ray.errors import DamagedFile
from hab_ray.rows import State
from hab_ray.rubric import SCORE_START

PANEL = "panel"
OVERALL = "overall"

Truncated = Literal["judge", "exclude"]


@dataclass(frozen=True)
class ScoreSettings:
    """The parts of a sweep that scores depend on. `tests` holds the ids of each dimension's tests.

    `panel` holds the sweep's judges: an answer needs a score from each of them to enter the panel's mean. Verdicts of
    other raters are ignored. Each judge reads an answer `replicates` times. `truncated` decides whether answers cut at
    the output limit are scored. `calls` holds the generation call of each test. `given` are the subjects whose answers
    are given: what their file lacks never comes.
    """

    subjects: tuple[str, ...]
    panel: tuple[str, ...]
    tests: Mapping[str, tuple[str, ...]]
    samples: int = 1
    replicates: int = 1
    truncated: Truncated = "judge"
    calls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    given: frozenset[str] = frozenset()

    def calls_of(self, dimension: str) -> tuple[str, ...]:
        """Return the generation call of each test of a dimension; a test that was not generated is its own call."""
        return self.calls.get(dimension, self.tests[dimension])

    def positions(self, dimension: str) -> dict[str, int]:
        """Return the position of each test in a dimension by its id."""
        return {test_id: at for at, test_id in enumerate(self.tests[dimension])}


class RowId(NamedTuple):
    """The identity of an answer: a subject's `sample`-th answer to a test."""

    subject: str
    dimension: str
    test_id: str
    sample: int


class Answered(NamedTuple):
    """A response without its texts."""

    test_id: str
    dimension: str
    subject: str
    sample: int
    state: State
    finish: str
    reason: str
    reply_key: str


class Judged(NamedTuple):
    """A verdict without its texts and issues."""

    test_id: str
    dimension: str
    subject: str
    sample: int
    state: State
    judge: str
    score: float | None
    reason: str
    reply_key: str
    replicate: int = 0


class VerdictMark(NamedTuple):
    """A verdict of any rater with its issues, without its texts."""

    test_id: str
    sample: int
    judge: str
    kind: str
    state: str
    score: float | None
    issues: Sequence[str] | None

    @property
    def mark(self) -> float | None:
        """The score (0..1), or None if the verdict failed."""
        return self.score / SCORE_START if self.state == State.OK and self.score is not None else None


def id_of(row: Answered | Judged) -> RowId:
    """Return the identity of a response, or of the answer that a verdict is on."""
    return RowId(row.subject, row.dimension, row.test_id, row.sample)


def rows_of(settings: ScoreSettings, subject: str, dimension: str) -> Iterator[RowId]:
    """Yield the identity of every answer that the sweep asks of a subject in a dimension."""
    for test_id in settings.tests[dimension]:
        for sample in range(settings.samples):
            yield RowId(subject, dimension, test_id, sample)


K = TypeVar("K")
V = TypeVar("V")


def _unique(pairs: Iterable[tuple[K, V]]) -> dict[K, V]:
    """Return the pairs as a dict; refuse duplicates, since the result would depend on the order of rows."""
    unique: dict[K, V] = {}
    for key, value in pairs:
        if key in unique:
            raise DamagedFile(
                f"{key} occurs twice in the run's responses or verdicts; delete the files that hold it and run again"
            )
        unique[key] = value
    return unique


def is_truncated(response: Answered) -> bool:
    """Whether the answer was cut at the output limit."""
    return response.finish == Finish.TRUNCATED


@dataclass(frozen=True)
class RowIndex:
    """Responses by identity, and verdicts by judge, identity of the answer, and replicate."""

    responses: Mapping[RowId, Answered]
    verdicts: Mapping[tuple[str, RowId, int], Judged]

    @classmethod
    def of(cls, responses: Iterable[Answered], verdicts: Iterable[Judged]) -> RowIndex:
        """Index the rows of a run or of a part of it, in any order.

        Raises:
            DamagedFile: an answer or verdict occurs twice.
        """
        return cls(
            _unique((id_of(r), r) for r in responses),
            _unique(((v.judge, id_of(v), v.replicate), v) for v in verdicts),
        )

    def scorable(self, settings: ScoreSettings) -> dict[RowId, Answered]:
        """Return the responses that enter means once they have verdicts."""
        answered = {row: r for row, r in self.responses.items() if r.state is State.OK}
        if settings.truncated == "judge":
            return answered
        return {row: r for row, r in answered.items() if not is_truncated(r)}


@dataclass(frozen=True, eq=False)
class ItemScores:
    """One judge's (or the panel's) marks of one subject in one dimension.

    `by_test` holds a mark (0..1) by test and sample, nan where the answer is excluded from means; `truncated` counts
    the marks of truncated answers; `calls` holds each test's generation call.
    """

    subject: str
    dimension: str
    judge: str
    by_test: Array
    truncated: int
    calls: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Number of answers that the sweep asks for."""
        return self.by_test.size

    @property
    def scored(self) -> int:
        """Number of answers in the mean."""
        return int(np.count_nonzero(~np.isnan(self.by_test)))

    @property
    def missing(self) -> int:
        """Number of answers excluded from the mean."""
        return self.rows - self.scored

    @property
    def test_calls(self) -> Sequence[Hashable]:
        """The generation call of each test; without `calls` every test is its own."""
        return self.calls or range(len(self.by_test))

    @cached_property
    def test_means(self) -> Array:
        """The mean mark of each test, or nan; samples of a test are not independent observations.

        Sums are exact, so that tests with equal marks have equal means, whatever the order of the samples.
        """
        sums = np.array([fsum(marks) for marks in np.nan_to_num(self.by_test).tolist()])
        with np.errstate(invalid="ignore"):
            means: Array = sums / np.count_nonzero(~np.isnan(self.by_test), axis=1)
        return means

    def known(self) -> tuple[list[float], list[Hashable]]:
        """Return the mean marks of tests that have one, and their generation calls."""
        means, calls = self.test_means, self.test_calls
        at = np.flatnonzero(~np.isnan(means)).tolist()
        return means[at].tolist(), [calls[test] for test in at]


def marks_of(rows: RowIndex, settings: ScoreSettings) -> list[ItemScores]:
    """Return all marks of a sweep, by subject, judge (the panel last) and dimension, in the sweep's order.

    A judge's mark of an answer is the mean of its readable replicates, if there is at least one. The panel's mark is
    the mean of its judges' marks, and only if each of them gave one: otherwise a lenient judge who failed on hard rows
    would shift the mean of those rows alone.
    """
    answered = rows.scorable(settings)
    by_judge = _means_of_replicates(rows.verdicts, settings.replicates)
    truncated = {row for row, response in answered.items() if is_truncated(response)}
    found = []
    for subject in settings.subjects:
        ids = {dimension: list(rows_of(settings, subject, dimension)) for dimension in settings.tests}
        for judge, members in (*((judge, (judge,)) for judge in settings.panel), (PANEL, settings.panel)):
            for dimension, asked in ids.items():
                marks = [_mark(by_judge, members, row) if row in answered else None for row in asked]
                cut = sum(m is not None and row in truncated for row, m in zip(asked, marks, strict=True))
                by_test = np.array(marks, dtype=np.float64).reshape(-1, settings.samples)
                found.append(ItemScores(subject, dimension, judge, by_test, cut, settings.calls_of(dimension)))
    return found


def _means_of_replicates(
    verdicts: Mapping[tuple[str, RowId, int], Judged], replicates: int
) -> dict[tuple[str, RowId], float]:
    scores: dict[tuple[str, RowId], list[float]] = defaultdict(list)
    for (judge, row, replicate), verdict in verdicts.items():
        if replicate < replicates and verdict.state is State.OK and verdict.score is not None:
            scores[judge, row].append(verdict.score)
    return {key: fmean(of_answer) / SCORE_START for key, of_answer in scores.items()}


def _mark(by_judge: Mapping[tuple[str, RowId], float], members: Sequence[str], row: RowId) -> float | None:
    if len(members) == 1:
        return by_judge.get((members[0], row))
    marks = [by_judge[judge, row] for judge in members if (judge, row) in by_judge]
    return fmean(marks) if len(marks) == len(members) else None
