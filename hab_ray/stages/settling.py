"""From stored outcomes to rows: what a shard has, and which of its calls are still open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hab_ray.calls import Call, Outcome
from hab_ray.rows import Row
from hab_ray.stages.base import Again, Asking


@dataclass(frozen=True)
class Settled:
    """A shard as far as the store has it: its rows, the calls still open, by row id, and the tasks of those calls."""

    rows: list[Any]
    open: list[tuple[str, Call]]
    waiting: Sequence[Any] = ()


def settle(
    stage: Asking[Any, Any], tasks: Sequence[Any], read: Callable[[Sequence[str]], Mapping[str, Outcome]]
) -> Settled:
    """Take every task as far as the stored outcomes carry it, through re-asks where a stage wants one."""
    rows: dict[int, Row] = {}
    still_open: list[tuple[str, Call]] = []
    waiting: list[Any] = []
    pending = list(enumerate(tasks))
    while pending:
        asked = list(stage.requests([task for _, task in pending]))
        outcomes = read([call.key for _, call in asked])
        again: list[tuple[int, Any]] = []
        for (position, task), (row_id, call) in zip(pending, asked, strict=True):
            if call.key not in outcomes:
                still_open.append((row_id, call))
                waiting.append(task)
                continue
            row = stage.parse(task, outcomes[call.key])
            if isinstance(row, Again):
                again.append((position, row.task))
            else:
                rows[position] = row
        pending = again
    return Settled([rows[position] for position in sorted(rows)], still_open, waiting)
