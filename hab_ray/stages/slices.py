"""Rows that are read from the store slice by slice: the vectors of 100,000s of candidates never stand in one list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from hab_ray.rows import R

SLICE_ROWS = 8_192


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
