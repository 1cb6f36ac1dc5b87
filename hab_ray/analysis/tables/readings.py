"""How replies to imported wording were read, and what the other way of reading them finds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hab_ray.analysis.registry import section
from hab_ray.analysis.summary import Summary
from hab_ray.results import Run
from hab_ray.rows import State
from hab_ray.rubric import Reading

_COLUMNS = ("judge", "dimension", "state", "score", "reading", "other_score")


@dataclass(frozen=True)
class Read:
    """A judge's replies in a dimension; `reading` made the scores.

    `equal` and `differ` count those that both readings score; `only_strict` and `only_published` those that one does.
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
        """Replies that no reading scores."""
        return self.replies - self.equal - self.differ - self.only_strict - self.only_published


@section(order=12, link="Readings", heading="How replies to imported wording were read")
def readings(summary: Summary) -> Sequence[Read]:
    """A line for each judge and dimension, in the sweep's order; none where the project's own wording asked."""
    if not any(rubric.literal_judging for rubric in summary.rubrics.values()):
        return ()
    return compare(_verdicts(summary.run))


def _verdicts(run: Run) -> Iterable[pa.Table]:
    judges = (*run.panel, *(judge.name for judge in run.record.sweep.varied_judges))
    for judge in judges:
        for dimension in run.dimensions:
            for subject in run.subjects:
                yield run.verdicts(judge, subject, dimension, columns=_COLUMNS)


def compare(verdicts: Iterable[pa.Table]) -> list[Read]:
    """The lines of verdicts with the columns `_COLUMNS`; whatever was no reply of a judge is left out."""
    pairs: dict[tuple[str, str, Reading], list[tuple[int | None, int | None]]] = defaultdict(list)
    for table in verdicts:
        for row in table.to_pylist():
            if row["reading"] and row["state"] in (State.OK, State.UNREADABLE):
                reading = Reading(row["reading"])
                in_force, other = row["score"], row["other_score"]
                scores = (in_force, other) if reading is Reading.STRICT else (other, in_force)
                pairs[row["judge"], row["dimension"], reading].append(scores)
    return [_line(*group, scores) for group, scores in pairs.items()]


def _line(judge: str, dimension: str, reading: Reading, scores: Sequence[tuple[int | None, int | None]]) -> Read:
    return Read(
        judge=judge,
        dimension=dimension,
        reading=reading,
        replies=len(scores),
        equal=sum(strict is not None and strict == published for strict, published in scores),
        differ=sum(None is not strict != published is not None for strict, published in scores),
        only_strict=sum(strict is not None and published is None for strict, published in scores),
        only_published=sum(strict is None and published is not None for strict, published in scores),
    )
