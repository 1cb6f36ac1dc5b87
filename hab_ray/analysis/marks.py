"""The marks behind every mean: subject x dimension x judge, arranged by test and sample.

Everything is arranged by what the sweep asks, not by what came back, so a row that is missing is seen to be
missing, and the order in which rows arrive changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal, NamedTuple, TypeVar

from hab_ray.calls import Finish
from hab_ray.errors import DamagedFile
from hab_ray.rows import Response, State, Verdict
from hab_ray.rubric import SCORE_START

PANEL = "panel"
OVERALL = "overall"

Truncated = Literal["judge", "exclude"]


@dataclass(frozen=True)
class ScoreSettings:
    """What a sweep asks, as far as scores depend on it. `tests` are the ids of each dimension's tests.

    `panel` are the sweep's judges: an answer needs a score from every one of them to enter the panel's mean. Verdicts
    of anybody else are ignored. Each judge was to read an answer `replicates` times. `truncated` says whether answers
    that were cut at the output limit are scored. `calls` names the generation call that each test comes from.
    """

    subjects: tuple[str, ...]
    panel: tuple[str, ...]
    tests: Mapping[str, tuple[str, ...]]
    samples: int = 1
    replicates: int = 1
    truncated: Truncated = "judge"
    calls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def calls_of(self, dimension: str) -> tuple[str, ...]:
        """The generation call of each test of a dimension; a test that was not generated counts as one."""
        return self.calls.get(dimension, self.tests[dimension])


class RowId(NamedTuple):
    """Which answer is meant: what a subject said to a test, the `sample`-th time it was asked."""

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


ResponseRow = Response | Answered
VerdictRow = Verdict | Judged


def id_of(row: ResponseRow | VerdictRow) -> RowId:
    """The answer that a response is, or that a verdict is about."""
    return RowId(row.subject, row.dimension, row.test_id, row.sample)


def rows_of(settings: ScoreSettings, subject: str, dimension: str) -> Iterator[RowId]:
    """Every answer that a subject owes in a dimension."""
    for test_id in settings.tests[dimension]:
        for sample in range(settings.samples):
            yield RowId(subject, dimension, test_id, sample)


K = TypeVar("K")
V = TypeVar("V")


def _unique(pairs: Iterable[tuple[K, V]]) -> dict[K, V]:
    """The pairs as a dict; of two rows with one identity, which one counts would depend on their order."""
    found: dict[K, V] = {}
    for key, value in pairs:
        if key in found:
            raise DamagedFile(f"{key} stands twice in the run's responses or verdicts; delete both and run again")
        found[key] = value
    return found


def is_truncated(response: ResponseRow) -> bool:
    """Whether the answer was cut at the output limit."""
    return response.finish == Finish.TRUNCATED


@dataclass(frozen=True)
class RowIndex:
    """Responses by the answer that they are, and verdicts by judge, the answer that they are about, and replicate."""

    responses: Mapping[RowId, ResponseRow]
    verdicts: Mapping[tuple[str, RowId, int], VerdictRow]

    @classmethod
    def of(cls, responses: Iterable[ResponseRow], verdicts: Iterable[VerdictRow]) -> RowIndex:
        """The rows of a run or of a part of it, in any order.

        Raises:
            DamagedFile: two of them are the same answer or verdict.
        """
        return cls(
            _unique((id_of(r), r) for r in responses),
            _unique(((v.judge, id_of(v), v.replicate), v) for v in verdicts),
        )

    def scorable(self, settings: ScoreSettings) -> dict[RowId, ResponseRow]:
        """The responses that a verdict can bring into a mean."""
        answered = {row: r for row, r in self.responses.items() if r.state is State.OK}
        if settings.truncated == "judge":
            return answered
        return {row: r for row, r in answered.items() if not is_truncated(r)}


TestMarks = tuple[float | None, ...]


@dataclass(frozen=True)
class ItemScores:
    """One subject in one dimension as one judge (or the panel) sees it.

    `by_test` holds, for each test, a mark of 0..1 for each sample, None where the answer is in no mean; `truncated`
    counts the marks of answers that were cut; `calls` names each test's generation call.
    """

    subject: str
    dimension: str
    judge: str
    by_test: tuple[TestMarks, ...]
    truncated: int
    calls: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many answers the subject owes here."""
        return sum(map(len, self.by_test))

    @property
    def scored(self) -> int:
        """How many of them are in the mean."""
        return sum(mark is not None for test in self.by_test for mark in test)

    @property
    def missing(self) -> int:
        """How many of them are in no mean."""
        return self.rows - self.scored

    def test_means(self) -> list[float | None]:
        """The mean mark of each test, None where it has none: its samples are no independent observations."""
        means = {test: _mean_of_given(test) for test in set(self.by_test)}
        return [means[test] for test in self.by_test]

    def known(self) -> tuple[list[float], list[Hashable]]:
        """The means that there are, and the generation call of each."""
        calls = self.calls or range(len(self.by_test))
        found = [(mean, call) for mean, call in zip(self.test_means(), calls, strict=True) if mean is not None]
        return [mean for mean, _ in found], [call for _, call in found]

    def filled(self, mark: float) -> list[float]:
        """The mean mark of each test if every missing row had this mark."""
        means = {test: fmean(mark if m is None else m for m in test) for test in set(self.by_test)}
        return [means[test] for test in self.by_test]


def _mean_of_given(marks: TestMarks) -> float | None:
    given = [mark for mark in marks if mark is not None]
    return fmean(given) if given else None


def marks_of(rows: RowIndex, settings: ScoreSettings) -> list[ItemScores]:
    """All marks of a sweep: subjects, then judges with the panel last, then dimensions, in the sweep's order.

    A judge's mark of an answer is the mean of its readable replicates, if there is at least one. The panel's mark is
    the mean of its judges' marks, and only where every one of them gave one: else a lenient judge who failed on the
    hard rows would shift the mean of those rows alone.
    """
    answered = rows.scorable(settings)
    given = _means_of_replicates(rows.verdicts, settings.replicates)
    truncated = {row for row, response in answered.items() if is_truncated(response)}
    found = []
    for subject in settings.subjects:
        owed = {dimension: list(rows_of(settings, subject, dimension)) for dimension in settings.tests}
        for judge, seats in _seats(settings.panel):
            for dimension, ids in owed.items():
                marks = [_mark(given, seats, row) if row in answered else None for row in ids]
                cut = sum(m is not None and row in truncated for row, m in zip(ids, marks, strict=True))
                found.append(
                    ItemScores(
                        subject, dimension, judge, _by_test(marks, settings.samples), cut, settings.calls_of(dimension)
                    )
                )
    return found


def _means_of_replicates(
    verdicts: Mapping[tuple[str, RowId, int], VerdictRow], replicates: int
) -> dict[tuple[str, RowId], float]:
    scores: dict[tuple[str, RowId], list[float]] = defaultdict(list)
    for (judge, row, replicate), verdict in verdicts.items():
        if replicate < replicates and verdict.state is State.OK and verdict.score is not None:
            scores[judge, row].append(verdict.score)
    return {who: fmean(found) / SCORE_START for who, found in scores.items()}


def _seats(panel: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Each judge alone, then all of them together."""
    return [*((judge, (judge,)) for judge in panel), (PANEL, tuple(panel))]


def _mark(given: Mapping[tuple[str, RowId], float], seats: Sequence[str], row: RowId) -> float | None:
    if len(seats) == 1:
        return given.get((seats[0], row))
    marks = [given[judge, row] for judge in seats if (judge, row) in given]
    return fmean(marks) if len(marks) == len(seats) else None


def _by_test(marks: Sequence[float | None], samples: int) -> tuple[TestMarks, ...]:
    """The marks of each test; equal ones are held once, as there are few and a sweep has millions of tests."""
    held: dict[TestMarks, TestMarks] = {}
    by_test = (tuple(marks[i : i + samples]) for i in range(0, len(marks), samples))
    return tuple(held.setdefault(test, test) for test in by_test)
