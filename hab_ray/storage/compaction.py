"""Turns the many small files that writers leave into few large parts.

Sidecar, part, then the removal of what the part was made of: a process that ends between any two of these leaves
each record in at least one file, and one that stands in two counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from hab_ray.storage.folder import Folder
from hab_ray.storage.records import in_one, read_table
from hab_ray.storage.shelves import is_part
from hab_ray.storage.sidecars import put_part

COMPACT_FROM_FILES = 8
PART_BYTES = 1 << 25


def compacted(folder: Folder, prefix: str, epoch: int) -> Iterator[Sequence[str]]:
    """Write the parts of one model's shelf, where there are enough files to be worth it.

    Yields, after each part, the files that it replaces; the caller removes them before it asks for the next.
    """
    files = folder.list(prefix)
    small = [name for name in files if not is_part(name)]
    if len(small) < COMPACT_FROM_FILES:
        return
    count = len(files) - len(small)
    for number, (table, names) in enumerate(_merged(folder, small), count):
        put_part(folder, f"{prefix}/part-{epoch:06d}.{number:06d}", table)
        yield names


def _merged(folder: Folder, names: Iterable[str]) -> Iterator[tuple[pa.Table, list[str]]]:
    """Tables of about `PART_BYTES` each, with the files they were made of."""
    tables: dict[str, pa.Table] = {}
    size = 0
    for name in names:
        tables[name] = read_table(name, folder.get(name))
        size += tables[name].nbytes
        if size >= PART_BYTES:
            yield in_one(tables.values()), list(tables)
            tables, size = {}, 0
    if tables:
        yield in_one(tables.values()), list(tables)
