"""Compacted parts: Parquet files read by column or row group, so that only the data needed is fetched.

The rows of a model's shards are interleaved in its files, and each shard is read separately. A cache of `KEPT_BYTES`
keeps what one shard's read fetched for the next, so that a file or row group is fetched once, not once per shard. If
the rows of a pass exceed the cache, each read starts with the cached files, so that at least these are not fetched
again. Unreadable files raise `DamagedFile`.
"""

import mmap
from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hab_ray.storage.folder import Folder
from hab_ray.storage.replies.records import in_one, is_part, read_table, to_parquet, whole_file

GROUP_BYTES = 1 << 20
FOOTER_BYTES = 1 << 16
HOLE_BYTES = 1 << 13
KEPT_BYTES = 1 << 26


def part_of(table: pa.Table) -> bytes:
    """Encode a table as a part, in row groups of about `GROUP_BYTES`; no statistics keep the footer short."""
    rows = max(1, table.num_rows * GROUP_BYTES // max(1, table.nbytes))
    return to_parquet(table, row_group_size=rows, write_statistics=False)


def part_columns(folder: Folder, name: str, columns: Sequence[str]) -> pa.Table:
    """Read those of these columns that a part has."""
    with whole_file(name):
        metadata = _footer(folder, name)
        return _read(folder, name, metadata, range(metadata.num_row_groups), columns)


def part_metadata(folder: Folder, name: str) -> pq.FileMetaData:
    """Read the footer of a part: the number of rows, and its row groups."""
    with whole_file(name):
        return _footer(folder, name)


def _footer(folder: Folder, name: str) -> pq.FileMetaData:
    size = folder.size(name)
    tail = folder.get_range(name, max(0, size - FOOTER_BYTES), FOOTER_BYTES)
    length = min(size, int.from_bytes(tail[-8:-4], "little") + 8)
    if length > len(tail):
        tail = folder.get_range(name, size - length, length)
    return pq.read_metadata(pa.BufferReader(tail))


def _refuse_wrong_chunks(metadata: pq.FileMetaData, unfetched: NDArray[np.uint8]) -> None:
    """Let Arrow's reader check the column chunks: if it is `column` that finds one wrong, the process aborts.

    Raises:
        OSError: a chunk's metadata is wrong.
    """
    unread = pq.ParquetFile(pa.BufferReader(unfetched), metadata=metadata, pre_buffer=True)
    try:
        unread.read(use_threads=False)
    except OSError as error:
        if "mismatch" in str(error):  # any other may be due to the zeros in place of pages
            raise


def _sparse(size: int) -> NDArray[np.uint8]:
    """Return zeros of which only written pages of 4 KiB take memory; numpy would ask for pages of 2 MiB."""
    try:
        memory = mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{size} bytes: {error.strerror}") from None
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a kernel without such pages
            memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.uint8)[:size]


def _read(
    folder: Folder, name: str, metadata: pq.FileMetaData, groups: Sequence[int], columns: Sequence[str] | None
) -> pa.Table:
    """Read columns of row groups, or all columns if None.

    Arrow reads from memory that is as long as the file; what is not needed is not fetched and takes no memory. If it
    read through a Python file, its threads could hold that file while the interpreter exits, which aborts the process.
    """
    data = _sparse(folder.size(name))
    _refuse_wrong_chunks(metadata, data)
    for start, end in _ranges(metadata, groups, columns):
        data[start:end] = np.frombuffer(folder.get_range(name, start, end - start), np.uint8)
    part = pq.ParquetFile(pa.BufferReader(data), metadata=metadata)
    table = part.read_row_groups(list(groups), columns=columns, use_threads=False)
    table.validate(full=True)
    if table.num_rows != sum(metadata.row_group(group).num_rows for group in groups):
        raise ValueError("rows are missing")
    return table


def _ranges(metadata: pq.FileMetaData, groups: Sequence[int], columns: Sequence[str] | None) -> list[tuple[int, int]]:
    """Return where the columns of row groups start and end in the file, joined across holes up to `HOLE_BYTES`."""
    spans: list[tuple[int, int]] = []
    for chunk in (metadata.row_group(group).column(n) for group in groups for n in range(metadata.num_columns)):
        if columns is None or chunk.path_in_schema.split(".")[0] in columns:
            start = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
            spans.append((start, start + chunk.total_compressed_size))
    ranges: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if ranges and start - ranges[-1][1] <= HOLE_BYTES:
            ranges[-1] = ranges[-1][0], max(end, ranges[-1][1])
        else:
            ranges.append((start, end))
    return ranges


class RowReader:
    """A reader with a cache of the files of one folder. A piece is a row group of a part, or any other file whole."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._kept: OrderedDict[str, dict[int, pa.Table]] = OrderedDict()
        self._bytes = 0
        self._metadata: dict[str, pq.FileMetaData] = {}

    def kept_first(self, names: Iterable[str]) -> list[str]:
        """Return the names with cached files first, which is the order to read them in."""
        return sorted(names, key=lambda name: name not in self._kept)

    def read(self, name: str, rows: Sequence[int]) -> pa.Table:
        """Read rows of a file by number.

        Raises:
            DamagedFile: the file cannot be read.
            FileNotFoundError: a compaction removed the file.
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
            table = _read(self._folder, name, metadata, numbers, None)
        lengths = [metadata.row_group(number).num_rows for number in numbers]
        return [table.slice(end - length, length) for end, length in zip(accumulate(lengths), lengths, strict=True)]

    def _keep(self, name: str, pieces: Mapping[int, pa.Table]) -> None:
        self._kept.setdefault(name, {}).update(pieces)
        self._kept.move_to_end(name)
        self._bytes += sum(piece.nbytes for piece in pieces.values())
        while self._bytes > KEPT_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= sum(piece.nbytes for piece in dropped.values())
