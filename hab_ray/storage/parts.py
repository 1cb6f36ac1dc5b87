"""Compacted parts: Parquet files read by columns or by row groups, so that what is not asked for is not fetched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hab_ray.storage.folder import Folder
from hab_ray.storage.ranges import RangeFile
from hab_ray.storage.records import whole_file

GROUP_BYTES = 1 << 20


def part_of(table: pa.Table) -> bytes:
    """A table as a part, in row groups of about `GROUP_BYTES`. Without statistics its end is a third as long."""
    sink = pa.BufferOutputStream()
    rows = max(1, table.num_rows * GROUP_BYTES // max(1, table.nbytes))
    pq.write_table(table, sink, compression="zstd", row_group_size=rows, write_statistics=False)
    return bytes(sink.getvalue().to_pybytes())


def part_columns(folder: Folder, name: str, columns: Sequence[str]) -> pa.Table:
    """Some columns of a part, of those that it has.

    Raises:
        DamagedFile: it cannot be read.
    """
    with whole_file(name):
        table = _open(folder, name).read(columns=list(columns))
        table.validate(full=True)
        return table


def part_metadata(folder: Folder, name: str) -> pq.FileMetaData:
    """What stands at the end of a part: how many rows it has, and where its row groups are.

    Raises:
        DamagedFile: it cannot be read.
    """
    with whole_file(name):
        return _open(folder, name).metadata


def part_groups(folder: Folder, name: str, metadata: pq.FileMetaData, numbers: Sequence[int]) -> list[pa.Table]:
    """Some row groups of a part, in the order given.

    Raises:
        DamagedFile: it cannot be read.
    """
    with whole_file(name):
        table = _open(folder, name, metadata).read_row_groups(list(numbers))
        table.validate(full=True)
    return _cut(table, (metadata.row_group(number).num_rows for number in numbers))


def _cut(table: pa.Table, lengths: Iterable[int]) -> list[pa.Table]:
    pieces, start = [], 0
    for length in lengths:
        pieces.append(table.slice(start, length))
        start += length
    return pieces


def _open(folder: Folder, name: str, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    return pq.ParquetFile(RangeFile(folder, name), metadata=metadata, pre_buffer=True)
