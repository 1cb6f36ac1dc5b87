"""How replies to imported wording were read, compared with the other way of reading them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from hab_ray.analysis.registry import section
from hab_ray.analysis.summary import Summary
from hab_ray.results import asked_judges, rows_in
from hab_ray.rows import State
from hab_ray.rubric import Reading

_COLUMNS = ("state", "score", "reading", "other_score")


@dataclass(frozen=True)
class Read:
    """A judge's replies in a dimension; `reading` made the scores.

    `equal` and `differ` count those that both readings score, `only_strict` and `only_published` those that one scores.
    """

    judge: str
    dimension: str
    reading: Reading
    replies: int
    equal: int
    differ: int
    only_strict: int
    only_published: int

    @property
    def neither(self) -> int:
        """Number of replies that neither reading scores."""
        return self.replies - self.equal - self.differ - self.only_strict - self.only_published


@section(order=12, heading="Reading of imported wording")
def readings(summary: Summary) -> Sequence[Read]:
    """Return a line per judge and dimension, in the sweep's order; nothing without imported wording."""
    if not any(rubric.literal_judging for rubric in summary.rubrics.values()):
        return ()
    run, pairs = summary.run, defaultdict[tuple[str, str, Reading], list[tuple[int | None, int | None]]](list)
    for judge, dimension, subject in product(asked_judges(run), run.dimensions, run.subjects):
        for state, score, named, other in rows_in(run.verdicts(judge, subject, dimension, columns=_COLUMNS)):
            if named and state in (State.OK, State.UNREADABLE):
                reading = Reading(named)
                pairs[judge, dimension, reading].append((score, other) if reading is Reading.STRICT else (other, score))
    return [
        Read(
            *group,
            replies=len(scores),
            equal=sum(strict is not None and strict == published for strict, published in scores),
            differ=sum(None not in (strict, published) and strict != published for strict, published in scores),
            only_strict=sum(strict is not None and published is None for strict, published in scores),
            only_published=sum(strict is None and published is not None for strict, published in scores),
        )
        for group, scores in pairs.items()
    ]
