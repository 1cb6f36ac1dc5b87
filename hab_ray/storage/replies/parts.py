"""Compacted parts: Parquet files read by columns or by row groups, so that what is not asked for is not fetched.

The shards of a model lie mixed in its files, and each is read alone. What one shard's read brings is kept for the
next, up to `KEPT_BYTES`: a file or row group is then fetched once and not once per shard. Where the rows of a pass
take more than that, each read begins with what is kept, so that at least this much of it is not fetched again. One that
cannot be read is a `DamagedFile`.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from hab_ray.storage.folder import Folder
from hab_ray.storage.replies.records import in_one, is_part, read_table, whole_file

GROUP_BYTES = 1 << 20
KEPT_BYTES = 1 << 26


class RangeFile(io.RawIOBase):
    """A file of a folder, open for reading.

    Raises:
        FileNotFoundError: nothing is there.
    """

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        self._size, self._at = folder.size(name), 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        length = left if size is None or size < 0 else min(size, left)
        data = self._folder.get_range(self._name, self._at, length) if length else b""
        self._at += len(data)
        return data


def part_of(table: pa.Table) -> bytes:
    """A table as a part, in row groups of about `GROUP_BYTES`. Without statistics its end is a third as long."""
    sink = pa.BufferOutputStream()
    rows = max(1, table.num_rows * GROUP_BYTES // max(1, table.nbytes))
    pq.write_table(table, sink, compression="zstd", row_group_size=rows, write_statistics=False)
    return bytes(sink.getvalue().to_pybytes())


def part_columns(folder: Folder, name: str, columns: Sequence[str]) -> pa.Table:
    """Some columns of a part, of those that it has."""
    with whole_file(name):
        table = _open(folder, name).read(columns=list(columns), use_threads=False)
        table.validate(full=True)
        return table


def part_metadata(folder: Folder, name: str) -> pq.FileMetaData:
    """What stands at the end of a part: how many rows it has, and where its row groups are."""
    with whole_file(name):
        return _open(folder, name).metadata


def _open(folder: Folder, name: str, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    return pq.ParquetFile(RangeFile(folder, name), metadata=metadata, pre_buffer=True)


class RowReader:
    """Rows of the files of one folder. A piece is a row group of a part, or the whole of another file."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._kept: OrderedDict[str, dict[int, pa.Table]] = OrderedDict()
        self._bytes = 0
        self._metadata: dict[str, pq.FileMetaData] = {}

    def kept_first(self, names: Iterable[str]) -> list[str]:
        """The names in the order in which to read them."""
        return sorted(names, key=lambda name: name not in self._kept)

    def read(self, name: str, rows: Sequence[int]) -> pa.Table:
        """These rows of a file.

        Raises:
            DamagedFile: it cannot be read.
            FileNotFoundError: it was removed by a compaction.
        """
        if not is_part(name):
            return self._pieces(name, [0])[0].take(list(rows))
        ends = self._ends(name)
        by_group: dict[int, list[int]] = defaultdict(list)
        for row in rows:
            group = bisect_right(ends, row)
            by_group[group].append(row - (ends[group - 1] if group else 0))
        pieces = self._pieces(name, sorted(by_group))
        return in_one(piece.take(by_group[group]) for group, piece in zip(sorted(by_group), pieces, strict=True))

    def _ends(self, part: str) -> list[int]:
        if part not in self._metadata:
            self._metadata[part] = part_metadata(self._folder, part)
        metadata = self._metadata[part]
        return list(accumulate(metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)))

    def _pieces(self, name: str, numbers: Sequence[int]) -> list[pa.Table]:
        kept = self._kept.get(name, {})
        missing = [number for number in numbers if number not in kept]
        fetched = dict(zip(missing, self._fetch(name, missing), strict=True)) if missing else {}
        self._keep(name, fetched)
        return [fetched[number] if number in fetched else kept[number] for number in numbers]

    def _fetch(self, name: str, numbers: Sequence[int]) -> list[pa.Table]:
        if not is_part(name):
            return [read_table(name, self._folder.get(name))]
        metadata = self._metadata[name]
        with whole_file(name):
            table = _open(self._folder, name, metadata).read_row_groups(list(numbers), use_threads=False)
            table.validate(full=True)
        lengths = [metadata.row_group(number).num_rows for number in numbers]
        return [table.slice(end - length, length) for end, length in zip(accumulate(lengths), lengths, strict=True)]

    def _keep(self, name: str, pieces: Mapping[int, pa.Table]) -> None:
        self._kept.setdefault(name, {}).update(pieces)
        self._kept.move_to_end(name)
        self._bytes += sum(piece.nbytes for piece in pieces.values())
        while self._bytes > KEPT_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= sum(piece.nbytes for piece in dropped.values())
