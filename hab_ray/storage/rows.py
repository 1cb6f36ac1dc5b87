"""Reads rows of the store's files by their numbers, and keeps what was read last.

The shards of a model lie mixed in its files, and each is read alone. What one shard's read brings is kept for the
next, up to `KEPT_BYTES`: a file or row group is then fetched once and not once per shard. Where the rows of a pass
take more than that, each read begins with what is kept, so that at least this much of it is not fetched again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from hab_ray.storage.folder import Folder
from hab_ray.storage.parts import part_groups, part_metadata
from hab_ray.storage.records import in_one, read_table
from hab_ray.storage.shelves import is_part

KEPT_BYTES = 1 << 26


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
        if is_part(name):
            return part_groups(self._folder, name, self._metadata[name], numbers)
        return [read_table(name, self._folder.get(name))]

    def _keep(self, name: str, pieces: Mapping[int, pa.Table]) -> None:
        self._kept.setdefault(name, {}).update(pieces)
        self._kept.move_to_end(name)
        self._bytes += sum(piece.nbytes for piece in pieces.values())
        while self._bytes > KEPT_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= sum(piece.nbytes for piece in dropped.values())
