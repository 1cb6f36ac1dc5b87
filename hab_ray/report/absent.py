"""The rows in no mean: how many in each state, which, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from hab_ray.analysis.fates import Lack, Tally
from hab_ray.rows import State
from hab_ray.stages.judge import verdicts_file
from hab_ray.stages.respond import responses_file


@dataclass(frozen=True)
class StateCounts:
    """One line of the overview: the responses, or a judge's verdicts, by state."""

    title: str
    asked: int
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """Rows of one subject and dimension; `more` of them are only in `file`, below the run folder."""

    tally: Tally
    more: int
    file: str


@dataclass(frozen=True)
class Group:
    """All rows of one kind in one state."""

    title: str
    state: State | Lack
    count: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Absent:
    """What the section on excluded rows shows. `states` are the overview's columns."""

    states: tuple[State | Lack, ...]
    overview: tuple[StateCounts, ...]
    groups: tuple[Group, ...]


def absent(tallies: Sequence[Tally]) -> Absent:
    """The overview of all rows, and the rows that are not in state ok in groups."""
    parts: dict[tuple[str | None, State | Lack], list[Part]] = defaultdict(list)
    for found in tallies:
        parts[found.judge, found.state].append(_part(found))
    counts = {key: sum(part.tally.count for part in group) for key, group in parts.items()}
    states = tuple(s for s in (*State, *Lack) if any(state == s for _, state in counts))
    kinds = tuple(dict.fromkeys(judge for judge, _ in counts))
    return Absent(
        states=states,
        overview=tuple(_counted(_title(kind), [counts.get((kind, s), 0) for s in states]) for kind in kinds),
        groups=tuple(
            Group(_title(kind), state, counts[kind, state], tuple(parts[kind, state]))
            for kind in kinds
            for state in states
            if state is not State.OK and (kind, state) in counts
        ),
    )


def _title(judge: str | None) -> str:
    return "Responses" if judge is None else f"Verdicts of {judge}"


def _counted(title: str, counts: Sequence[int]) -> StateCounts:
    return StateCounts(title, sum(counts), tuple(counts))


def _part(found: Tally) -> Part:
    if found.judge is None:
        file = responses_file(found.subject, found.dimension)
    else:
        file = verdicts_file(found.judge, found.subject, found.dimension)
    return Part(found, found.count - len(found.first), file)
