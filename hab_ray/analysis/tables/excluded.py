"""Rows excluded from means: counts by state, the rows themselves, and reasons."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hab_ray.analysis.registry import section
from hab_ray.analysis.row_status import MissingReason, StatusCount
from hab_ray.analysis.summary import Summary
from hab_ray.rows import State
from hab_ray.storage.run import FAILED, RunFolder


@dataclass(frozen=True)
class Excluded:
    """The counts of responses and of each judge's verdicts by `states`, and by kind and state the rows that are not ok.

    `failures` is the file that lists failed rows, if there is one.
    """

    states: tuple[State | MissingReason, ...]
    overview: Mapping[str, Sequence[int]]
    groups: Mapping[tuple[str, State | MissingReason], Sequence[StatusCount]]
    failures: str | None


@section(order=60, heading="Excluded answers and verdicts")
def excluded(summary: Summary) -> Excluded:
    """Return an overview of all rows, and groups of the rows that are not ok."""
    found: dict[tuple[str, State | MissingReason], list[StatusCount]] = defaultdict(list)
    for each in summary.statuses:
        found["Responses" if each.judge is None else f"Verdicts of {each.judge}", each.state].append(each)
    kinds = dict.fromkeys(kind for kind, _ in found)
    states = tuple(s for s in (*State, *MissingReason) if any(state == s for _, state in found))
    groups = {(kind, state): found.get((kind, state), []) for kind in kinds for state in states}
    return Excluded(
        states,
        {kind: [sum(each.count for each in groups[kind, state]) for state in states] for kind in kinds},
        {key: parts for key, parts in groups.items() if parts and key[1] is not State.OK},
        FAILED if RunFolder(summary.run.location).has(FAILED) else None,
    )
