"""How far the same subjects' scores differ between two runs, by dimension and overall.

Tests are the same where their texts are. A dimension of which the runs share tests is compared over these alone, in
pairs: what else the runs asked says nothing about the difference that pairs do not say better. Where they share none,
as after a new seed, the difference is that of two independent means, whose interval is wider (Zou and Donner's MOVER of
the two intervals). Which of the two it was is part of every row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from hab_ray.analysis.intervals import Interval, apart, combined, interval
from hab_ray.analysis.marks import OVERALL, PANEL, ItemScores
from hab_ray.analysis.pairs import Ahead, ahead, holm, of_known, p_of
from hab_ray.analysis.summary import Summary
from hab_ray.errors import ConfigError
from hab_ray.results import Run, rows_in
from hab_ray.rows import State

_MIN_SHARED = 2
_Texts = tuple[str, str, int]
_Key = tuple[object, ...]


class Matching(StrEnum):
    """How two runs' answers are set against each other."""

    PAIRED = "paired"
    UNPAIRED = "unpaired"
    MIXED = "some dimensions paired, some not"
    NONE = "nothing to compare"


@dataclass(frozen=True, slots=True)
class RunDifference:
    """A subject's mean in the second run less that in the first, 0..1, with a 95 % interval.

    `shared` tests are in both runs, `first_alone` and `second_alone` in one of them; counts are of tests that the
    subject has a mark for. Where tests are paired, means are over the shared ones. `p` is of the sign-flip test, `holm`
    the same corrected for all subjects of the dimension; both are null where nothing is paired.
    """

    subject: str
    dimension: str
    matching: Matching
    shared: int
    first_alone: int
    second_alone: int
    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None = None
    holm: float | None = None


@dataclass(frozen=True)
class SameReplies:
    """How many answers and verdicts of shared tests both runs have, and how many of these are the very same reply."""

    answers: int
    same_answers: int
    verdicts: int
    same_verdicts: int

    @property
    def is_copy(self) -> bool:
        """Whether nothing that both runs have differs."""
        return 0 < self.answers == self.same_answers and 0 < self.verdicts == self.same_verdicts


@dataclass(frozen=True)
class SharedTests:
    """A subject in one dimension of both sides; `ahead` of their shared tests, else the interval of each mean.

    `alone` are the tests that each side has beside the shared ones.
    """

    shared: int
    alone: tuple[int, int]
    means: tuple[Interval, Interval] | None
    ahead: Ahead | None


def compare_runs(first: Summary, second: Summary) -> list[RunDifference]:
    """Every subject that both runs have: overall, then by dimension.

    Raises:
        ConfigError: they share no subject or no dimension.
    """
    subjects = [name for name in first.settings.subjects if name in second.settings.subjects]
    dimensions = [name for name in first.settings.tests if name in second.settings.tests]
    if not subjects or not dimensions:
        what, one, other = (
            ("dimension", first.settings.tests, second.settings.tests)
            if subjects
            else ("subject", first.settings.subjects, second.settings.subjects)
        )
        raise ConfigError(
            f"{first.run.location} and {second.run.location} share no {what}: the one has {', '.join(one)}, the other "
            f"{', '.join(other)}; give a subject the same `name:` in both sweeps"
        )
    texts = {dimension: (_texts(first.run, dimension), _texts(second.run, dimension)) for dimension in dimensions}
    parts = {
        subject: [_part(_own(first, subject, d), _own(second, subject, d), *texts[d]) for d in dimensions]
        for subject in subjects
    }
    return compared_rows(parts, dimensions)


def compared_rows(parts: Mapping[str, Sequence[SharedTests]], dimensions: Sequence[str]) -> list[RunDifference]:
    """The rows of subjects, of which `parts` has one for each dimension: overall, then by dimension."""
    overall = [_row(subject, OVERALL, found) for subject, found in parts.items()] if len(dimensions) > 1 else []
    rows = _corrected(overall)
    for at, dimension in enumerate(dimensions):
        rows += _corrected([_row(subject, dimension, [found[at]]) for subject, found in parts.items()])
    return rows


def same_replies(first: Run, second: Run) -> SameReplies:
    """Compare the replies behind the answers and verdicts of all that both runs asked.

    A reply is the same if its key and its text are: runs of one store have one reply for a key.
    """
    counts = [0, 0, 0, 0]
    for dimension in set(first.dimensions) & set(second.dimensions):
        names = _renamed(_texts(first, dimension), _texts(second, dimension))
        for subject in set(first.subjects) & set(second.subjects):
            one, other = (_answers(run, subject, dimension) for run in (first, second))
            for answer, key in one.items():
                if (match := (names.get(str(answer[0])), *answer[1:])) in other:
                    counts[0] += 1
                    counts[1] += key == other[match]
            for judge in set(first.panel) & set(second.panel):
                read, again = (_verdicts(run, judge, subject, dimension) for run in (first, second))
                for verdict, key in read.items():
                    if (match := (names.get(str(verdict[0])), *verdict[1:])) in again:
                        counts[2] += 1
                        counts[3] += key == again[match]
    return SameReplies(*counts)


def _texts(run: Run, dimension: str) -> dict[_Texts, str]:
    """The id of each test by its prompt and context, and how many before it have these."""
    table = run.tests(dimension, columns=["prompt", "context", "id"])
    before: Counter[tuple[str, str]] = Counter()
    found: dict[_Texts, str] = {}
    for prompt, context, id_ in rows_in(table):
        found[prompt, context, before[prompt, context]] = id_
        before[prompt, context] += 1
    return found


def _renamed(first: Mapping[_Texts, str], second: Mapping[_Texts, str]) -> dict[str, str]:
    """The second run's ids of shared tests by the first's."""
    return {id_: second[texts] for texts, id_ in first.items() if texts in second}


def _answers(run: Run, subject: str, dimension: str) -> dict[_Key, _Key]:
    rows = rows_in(run.responses(subject, dimension, columns=["test_id", "sample", "reply_key", "text", "state"]))
    return {(test, sample): (key, text) for test, sample, key, text, state in rows if state == State.OK}


def _verdicts(run: Run, judge: str, subject: str, dimension: str) -> dict[_Key, _Key]:
    columns = ["test_id", "sample", "replicate", "reply_key", "assessment", "state"]
    rows = rows_in(run.verdicts(judge, subject, dimension, columns=columns))
    return {(test, sample, n): (key, text) for test, sample, n, key, text, state in rows if state == State.OK}


def _own(summary: Summary, subject: str, dimension: str) -> tuple[ItemScores, tuple[str, ...]]:
    return summary.cells[subject, dimension, PANEL], summary.settings.tests[dimension]


def _part(
    first: tuple[ItemScores, tuple[str, ...]],
    second: tuple[ItemScores, tuple[str, ...]],
    texts: Mapping[_Texts, str],
    others: Mapping[_Texts, str],
) -> SharedTests:
    (one, ids), (other, other_ids) = first, second
    names, places = _renamed(texts, others), {id_: at for at, id_ in enumerate(other_ids)}
    marked = [mean is not None for mean in one.test_means()], [mean is not None for mean in other.test_means()]
    pairs = [(at, places[names[id_]]) for at, id_ in enumerate(ids) if id_ in names]
    both = [(a, b) for a, b in pairs if marked[0][a] and marked[1][b]]
    alone = sum(marked[0]) - len(both), sum(marked[1]) - len(both)
    if len(both) >= _MIN_SHARED:
        mine, theirs = _chosen(one, [a for a, _ in both]), _chosen(other, [b for _, b in both])
        return SharedTests(len(both), alone, _means(mine, theirs), ahead(theirs, replace(mine, calls=theirs.calls)))
    return SharedTests(len(both), alone, _means(one, other) if not pairs else None, None)


def _chosen(scores: ItemScores, places: Sequence[int]) -> ItemScores:
    """The marks of some tests."""
    calls = scores.calls or tuple(map(str, range(len(scores.by_test))))
    return replace(scores, by_test=tuple(scores.by_test[at] for at in places), calls=tuple(calls[at] for at in places))


def _means(one: ItemScores, other: ItemScores) -> tuple[Interval, Interval] | None:
    known = one.known(), other.known()
    if not known[0][0] or not known[1][0]:
        return None
    return interval(*known[0]), interval(*known[1])


def _between(part: SharedTests) -> Interval | None:
    """The difference in a dimension, over shared tests or of two independent means; None where there is none."""
    if part.ahead is not None:
        return part.ahead.difference
    if part.means is None:
        return None
    first, second = part.means
    return apart(second, first)


def _row(subject: str, dimension: str, parts: Sequence[SharedTests]) -> RunDifference:
    found = combined([_between(part) for part in parts])
    pairs = [part.ahead for part in parts if part.ahead is not None]
    means = [part.means for part in parts if part.means is not None]
    whole = len(means) == len(parts)
    return RunDifference(
        subject=subject,
        dimension=dimension,
        matching=_matching(parts, found),
        shared=sum(part.shared for part in parts),
        first_alone=sum(part.alone[0] for part in parts),
        second_alone=sum(part.alone[1] for part in parts),
        first=sum(mean.mean for mean, _ in means) / len(means) if whole else None,
        second=sum(mean.mean for _, mean in means) / len(means) if whole else None,
        difference=found.mean if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
        p=p_of(pairs) if found and len(pairs) == len(parts) else None,
    )


def _matching(parts: Sequence[SharedTests], found: Interval | None) -> Matching:
    paired = {part.ahead is not None for part in parts}
    if found is None:
        return Matching.NONE
    if len(paired) > 1:
        return Matching.MIXED
    return Matching.PAIRED if True in paired else Matching.UNPAIRED


def _corrected(rows: list[RunDifference]) -> list[RunDifference]:
    """The rows of one family with Holm's correction."""
    return [replace(row, holm=p) for row, p in zip(rows, of_known(holm, [row.p for row in rows]), strict=True)]


def told(replies: SameReplies, first: Run, second: Run) -> Iterator[str]:
    """What the runs share, in sentences."""
    if first.record.id is not None and first.record.id == second.record.id:
        yield "both folders are of the same run (one id): one is a copy of the other"
    if replies.is_copy:
        yield (
            f"all {replies.answers:,} answers and {replies.verdicts:,} verdicts that both runs have are the same "
            "replies: this is no second measurement"
        )
    elif replies.answers:
        yield (
            f"of {replies.answers:,} answers to shared tests {replies.same_answers:,} are the same reply in both runs, "
            f"of {replies.verdicts:,} verdicts by shared judges {replies.same_verdicts:,}"
        )
