"""Derive a shard's rows and its open calls from stored outcomes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from hab_ray.calls import Call, Outcome
from hab_ray.resources import broken_package, package_of
from hab_ray.rows import R, Row
from hab_ray.stages.base import Again, CallStage

SLICE_ROWS = 8_192


@dataclass(frozen=True)
class Settled:
    """A shard's rows, its open calls with their row ids, and the tasks of those calls."""

    rows: list[Any]
    open: list[tuple[str, Call]]
    waiting: Sequence[Any] = ()


def requested(stage: CallStage[Any, Any], tasks: Sequence[Any]) -> list[tuple[str, Call]]:
    """Return the row's id and the call of each task.

    Raises:
        ConfigError: the stage of another package yields more or fewer.
    """
    requests = list(stage.requests(tasks))
    if len(requests) != len(tasks):
        raise broken_package(
            package_of(type(stage).__module__),
            f"{type(stage).__name__}.requests has to yield one call per task, {len(tasks)} and not {len(requests)}",
        )
    return requests


def settle(
    stage: CallStage[Any, Any], tasks: Sequence[Any], read: Callable[[Sequence[Call]], Mapping[str, Outcome]]
) -> Settled:
    """Make the rows of all tasks whose outcomes are stored, following re-asks, and collect the calls still open.

    `read` returns the stored outcomes of some calls by key. The rows are in the order of the tasks.
    """
    rows: dict[int, Row] = {}
    open_calls: list[tuple[str, Call]] = []
    waiting: list[Any] = []
    pending = list(enumerate(tasks))
    while pending:
        requests = requested(stage, [task for _, task in pending])
        outcomes = read([call for _, call in requests])
        reasked: list[tuple[int, Any]] = []
        for (position, task), (row_id, call) in zip(pending, requests, strict=True):
            if call.key not in outcomes:
                open_calls.append((row_id, call))
                waiting.append(task)
                continue
            row = stage.parse(task, outcomes[call.key])
            if isinstance(row, Again):
                reasked.append((position, row.task))
            else:
                rows[position] = row
        pending = reasked
    return Settled([rows[position] for position in sorted(rows)], open_calls, waiting)


class RowSlices(Sequence[R]):
    """Rows made on demand, one per task; `read` makes the rows of a slice of the tasks.

    Nothing is cached: an iteration holds one slice at a time, and each iteration reads all slices again.
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
