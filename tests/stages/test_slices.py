"""Rows that are read from the store slice by slice."""

from collections.abc import Sequence

import pytest

from hab_ray.rows import Embedded, State
from hab_ray.stages import settling
from hab_ray.stages.settling import RowSlices


class Reader:
    """Makes rows of numbers, and remembers how many it was asked for at a time."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, tasks: Sequence[int]) -> list[Embedded]:
        self.asked.append(len(tasks))
        return [Embedded(f"c{task}", "d", State.OK, b"", "", "k") for task in tasks]


def test_rows_are_read_in_slices_each_time_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "SLICE_ROWS", 4)
    reader = Reader()
    rows = RowSlices(list(range(10)), reader)
    assert (len(rows), reader.asked) == (10, [])
    assert [row.candidate_id for row in rows] == [f"c{n}" for n in range(10)]
    assert reader.asked == [4, 4, 2]
    assert next(iter(rows)).candidate_id == "c0" and reader.asked[3:] == [4]


def test_rows_are_had_by_number_and_slice() -> None:
    rows = RowSlices(list(range(5)), Reader())
    assert rows[3].candidate_id == "c3" and [row.candidate_id for row in rows[1:3]] == ["c1", "c2"]
    assert list(RowSlices([], Reader())) == []
