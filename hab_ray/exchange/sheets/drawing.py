"""Which answers people rate: a sample stratified by dimension and subject that depends on the seed and the ids alone.

Subjects take turns, so that in each dimension their numbers differ by one at most, as far as they have answers. Each
takes an answer to a test that was drawn least often so far: the more tests there are, the narrower is any interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from hab_ray.errors import ConfigError
from hab_ray.given.ratings import response_digest
from hab_ray.given.sheets import SheetItem
from hab_ray.results import Run, rows_in
from hab_ray.rows import State


@dataclass(frozen=True)
class SheetPlan:
    """How many answers of each dimension, or of each subject in each dimension, how many raters, and the seed.

    Raises:
        ConfigError: both are given, or a number is none above 0.
    """

    per_dimension: int | None
    per_subject: int | None
    raters: int
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.per_dimension is None) == (self.per_subject is None):
            raise ConfigError("hab annotate sheet: give one of --per-dimension N and --per-subject N")
        if min(number for number in (self.per_dimension, self.per_subject, self.raters) if number is not None) < 1:
            raise ConfigError("hab annotate sheet: --per-dimension, --per-subject and --raters are 1 or more")


class _Drawn(NamedTuple):
    dimension: str
    subject: str
    test_id: str
    sample: int
    response_sha256: str


def draw_sheet(run: Run, wanted: SheetPlan) -> list[SheetItem]:
    """The items of a sheet, by dimension, in an order that tells nothing of their subjects. All raters rate all.

    Raises:
        ConfigError: the run has no answer yet.
    """
    drawn = [answer for dimension in run.dimensions for answer in _drawn(run, dimension, wanted)]
    if not drawn:
        raise ConfigError(f"{run.location}: no subject has answered anything yet; draw a sheet when some have")
    sheet = _digest(wanted.seed, *("\n".join(map(str, answer)) for answer in drawn))[:8]
    raters = tuple(f"R{number}" for number in range(1, wanted.raters + 1))
    mixed = sorted(drawn, key=lambda answer: (answer.dimension, _digest(wanted.seed, sheet, *answer)))
    return [
        SheetItem(
            sheet=sheet,
            item=f"{sheet}-{number:03d}",
            dimension=answer.dimension,
            test_id=answer.test_id,
            subject=answer.subject,
            sample=answer.sample,
            response_sha256=answer.response_sha256,
            raters=raters,
            seed=wanted.seed,
        )
        for number, answer in enumerate(mixed, 1)
    ]


def order_for(rater: str, items: Sequence[SheetItem]) -> list[SheetItem]:
    """The items in a rater's own order: dimension by dimension, each rater beginning with another, mixed within."""
    dimensions = list(dict.fromkeys(item.dimension for item in items))
    first = items[0].raters.index(rater) % len(dimensions)
    turn = {dimension: place for place, dimension in enumerate(dimensions[first:] + dimensions[:first])}
    return sorted(items, key=lambda item: (turn[item.dimension], _digest(item.seed, rater, item.item)))


def _drawn(run: Run, dimension: str, wanted: SheetPlan) -> Iterator[_Drawn]:
    pools = {subject: _answers(run, subject, dimension, wanted.seed) for subject in run.subjects}
    turns = sorted(pools, key=lambda subject: _digest(wanted.seed, dimension, subject))
    left = wanted.per_dimension or (wanted.per_subject or 0) * len(turns)
    uses: Counter[str] = Counter()
    for _ in range(wanted.per_subject or left):
        for subject in turns:
            if left and pools[subject]:
                chosen = min(pools[subject], key=lambda answer: uses[answer.test_id])
                pools[subject].remove(chosen)
                uses[chosen.test_id] += 1
                left -= 1
                yield chosen


def _answers(run: Run, subject: str, dimension: str, seed: int) -> list[_Drawn]:
    """A subject's answers in a dimension, in the order in which they are taken."""
    table = run.responses(subject, dimension, columns=["test_id", "sample", "state", "text"])
    found = [
        _Drawn(dimension, subject, test_id, sample, response_digest(text))
        for test_id, sample, state, text in rows_in(table)
        if state == State.OK
    ]
    return sorted(found, key=lambda answer: _digest(seed, *answer))


def _digest(*parts: object) -> str:
    return sha256("\n\n".join(map(str, parts)).encode()).hexdigest()
