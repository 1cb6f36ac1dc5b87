"""From stored outcomes to rows: what a shard has, and which of its calls are still open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from hab_ray.calls import Call, Outcome
from hab_ray.rows import R, Row
from hab_ray.stages.base import Again, Asking

SLICE_ROWS = 8_192


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


class RowSlices(Sequence[R]):
    """The rows of tasks that all have one, in the order of the tasks. `read` makes those of a slice of the tasks.

    Iterating holds one slice at a time and reads all of them, each time anew.
    """

    def __init__(self, tasks: Sequence[Any], read: Callable[[Sequence[Any]], Sequence[R]]) -> None:
        self._tasks, self._read = tasks, read

    def __len__(self) -> int:
        return len(self._tasks)

    @overload
    def __getitem__(self, at: int) -> R: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[R]: ...

    def __getitem__(self, at: int | slice) -> R | Sequence[R]:
        return self._read(self._tasks[at]) if isinstance(at, slice) else self._read([self._tasks[at]])[0]

    def __iter__(self) -> Iterator[R]:
        for start in range(0, len(self), SLICE_ROWS):
            yield from self[start : start + SLICE_ROWS]
