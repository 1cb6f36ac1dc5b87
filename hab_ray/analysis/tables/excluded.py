"""Rows excluded from means: counts by state, the rows themselves, and reasons."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from hab_ray.analysis.registry import section
from hab_ray.analysis.row_status import MissingReason, StatusCount
from hab_ray.analysis.summary import Summary
from hab_ray.rows import State
from hab_ray.stages.views import responses_file, verdicts_file
from hab_ray.storage.run import FAILED, RunFolder


@dataclass(frozen=True)
class OverviewLine:
    """One line of the overview: the responses, or a judge's verdicts, by state."""

    title: str
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Listed:
    """Rows of one subject and dimension; `more` rows are only in `file`, relative to the run folder."""

    counted: StatusCount
    more: int
    file: str


@dataclass(frozen=True)
class Group:
    """All rows of one kind in one state."""

    title: str
    state: State | MissingReason
    count: int
    listed: tuple[Listed, ...]


@dataclass(frozen=True)
class Excluded:
    """The content of the section; `states` are the overview's columns, `failures` the file that lists failed rows."""

    states: tuple[State | MissingReason, ...]
    overview: tuple[OverviewLine, ...]
    groups: tuple[Group, ...]
    failures: str | None


@section(order=60, heading="Excluded answers and verdicts")
def excluded(summary: Summary) -> Excluded:
    """Return an overview of all rows, and groups of the rows that are not ok."""
    listed: dict[tuple[str | None, State | MissingReason], list[Listed]] = defaultdict(list)
    for found in summary.statuses:
        listed[found.judge, found.state].append(_listed(found))
    counts = {key: sum(part.counted.count for part in group) for key, group in listed.items()}
    states = tuple(s for s in (*State, *MissingReason) if any(state == s for _, state in counts))
    kinds = tuple(dict.fromkeys(judge for judge, _ in counts))
    return Excluded(
        states=states,
        overview=tuple(OverviewLine(_title(kind), tuple(counts.get((kind, s), 0) for s in states)) for kind in kinds),
        groups=tuple(
            Group(_title(kind), state, counts[kind, state], tuple(listed[kind, state]))
            for kind in kinds
            for state in states
            if state is not State.OK and (kind, state) in counts
        ),
        failures=FAILED if RunFolder(summary.run.location).has(FAILED) else None,
    )


def _title(judge: str | None) -> str:
    return "Responses" if judge is None else f"Verdicts of {judge}"


def _listed(found: StatusCount) -> Listed:
    if found.judge is None:
        file = responses_file(found.subject, found.dimension)
    else:
        file = verdicts_file(found.judge, found.subject, found.dimension)
    return Listed(found, found.count - len(found.first), file)
