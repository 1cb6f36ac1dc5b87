"""Draws the answers that people rate: a sample stratified by dimension and subject, fixed by the seed and the ids.

Subjects take turns, so that their numbers in a dimension differ by at most one while all have answers left. Each turn
takes an answer to a test that was drawn least often so far: more distinct tests give narrower confidence intervals.
"""

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
    """Numbers of answers (per dimension, or per subject in each dimension) and of raters, and the seed.

    Raises:
        ConfigError: not exactly one of `per_dimension` and `per_subject` is given, or a number is below 1.
    """

    per_dimension: int | None
    per_subject: int | None
    raters: int
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.per_dimension is None) == (self.per_subject is None):
            raise ConfigError("hab annotate sheet: give either --per-dimension N or --per-subject N")
        if min(number for number in (self.per_dimension, self.per_subject, self.raters) if number is not None) < 1:
            raise ConfigError("hab annotate sheet: --per-dimension, --per-subject and --raters must be 1 or more")


class _Drawn(NamedTuple):
    dimension: str
    subject: str
    test_id: str
    sample: int
    response_sha256: str


def draw_sheet(run: Run, plan: SheetPlan) -> list[SheetItem]:
    """Draw the items of a sheet, ordered by dimension and then by a hash that hides subjects. All raters rate all.

    Raises:
        ConfigError: the run has no answer yet.
    """
    drawn = [answer for dimension in run.dimensions for answer in _draw(run, dimension, plan)]
    if not drawn:
        raise ConfigError(f"{run.location}: no subject has answered anything yet; draw a sheet when some have")
    sheet = _digest(plan.seed, *("\n".join(map(str, answer)) for answer in drawn))[:8]
    raters = tuple(f"R{number}" for number in range(1, plan.raters + 1))
    shuffled = sorted(drawn, key=lambda answer: (answer.dimension, _digest(plan.seed, sheet, *answer)))
    return [
        SheetItem(
            sheet=sheet,
            item=f"{sheet}-{number:03d}",
            raters=raters,
            seed=plan.seed,
            **answer._asdict(),
        )
        for number, answer in enumerate(shuffled, 1)
    ]


def order_for(rater: str, items: Sequence[SheetItem]) -> list[SheetItem]:
    """Return the items in a rater's order: by dimension, each rater starting with another one, shuffled within each."""
    dimensions = list(dict.fromkeys(item.dimension for item in items))
    first = items[0].raters.index(rater) % len(dimensions)
    position = {dimension: number for number, dimension in enumerate(dimensions[first:] + dimensions[:first])}
    return sorted(items, key=lambda item: (position[item.dimension], _digest(item.seed, rater, item.item)))


def _draw(run: Run, dimension: str, plan: SheetPlan) -> Iterator[_Drawn]:
    pools = {subject: _answers(run, subject, dimension, plan.seed) for subject in run.subjects}
    turns = sorted(pools, key=lambda subject: _digest(plan.seed, dimension, subject))
    left = plan.per_dimension or (plan.per_subject or 0) * len(turns)
    uses: Counter[str] = Counter()
    for _ in range(plan.per_subject or left):
        for subject in turns:
            if left and pools[subject]:
                chosen = min(pools[subject], key=lambda answer: uses[answer.test_id])
                pools[subject].remove(chosen)
                uses[chosen.test_id] += 1
                left -= 1
                yield chosen


def _answers(run: Run, subject: str, dimension: str, seed: int) -> list[_Drawn]:
    table = run.responses(subject, dimension, columns=["test_id", "sample", "state", "text"])
    answers = [
        _Drawn(dimension, subject, test_id, sample, response_digest(text))
        for test_id, sample, state, text in rows_in(table)
        if state == State.OK
    ]
    return sorted(answers, key=lambda answer: _digest(seed, *answer))


def _digest(*parts: object) -> str:
    return sha256("\n\n".join(map(str, parts)).encode()).hexdigest()
