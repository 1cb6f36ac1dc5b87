"""Sidecars: small files with the keys and costs of compacted parts.

    replies/<model>/part-<epoch>.<n>.<digest>.parquet         a part
    sidecars/replies/<model>/part-<epoch>.<n>.<digest>.arrow   its sidecar: key, cost, epoch and mode of each row

Indexes and sums read sidecars and never open parts. A sidecar is written before its part, so a part without one is
from an older version, and the next holder of the lease creates it. Both names contain a digest of the part's bytes,
so that no sidecar is matched with another part. A sidecar without its part is never read.

Writers' files (`wal-...`) have no sidecars: they are small and short-lived, and sidecars would double their number.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hab_ray.catalog.prices import Mode
from hab_ray.errors import DamagedFile
from hab_ray.storage.folder import Folder
from hab_ray.storage.replies.keyindex import KEY_BYTES, Keys
from hab_ray.storage.replies.parts import part_columns, part_of
from hab_ray.storage.replies.records import KEY_COLUMNS, RecordKind, is_part, read_table, to_arrow, whole_file

SIDECARS = "sidecars"
_DIGEST_DIGITS = 16

_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary(KEY_BYTES), nullable=False),
        pa.field("cost_nanousd", pa.int64(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("batch", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Entries:
    """The records of a file in row order: keys, costs in nano-dollars, paying epochs, and whether sent by batch."""

    keys: Keys
    costs: NDArray[np.int64]
    epochs: NDArray[np.int64]
    by_batch: NDArray[np.bool_]

    def at(self, chosen: NDArray[np.bool_]) -> Entries:
        return Entries(self.keys.at(chosen), self.costs[chosen], self.epochs[chosen], self.by_batch[chosen])


def entries_in(folder: Folder, name: str) -> Entries:
    """Return the entries of a file of the store, from its sidecar if it has one.

    Raises:
        DamagedFile: the file cannot be read.
        FileNotFoundError: a compaction removed the file.
    """
    if is_part(name):
        sidecar = sidecar_name(name)
        with suppress(FileNotFoundError, DamagedFile):
            return _entries(read_table(sidecar, folder.get(sidecar)))
    return _entries(_read(folder, name))


def _read(folder: Folder, name: str) -> pa.Table:
    with whole_file(name):
        if is_part(name):
            return _sidecar(part_columns(folder, name, KEY_COLUMNS))
        return _sidecar(read_table(name, folder.get(name), KEY_COLUMNS))


def _entries(table: pa.Table) -> Entries:
    raw = b"".join(_bytes_of(chunk) for chunk in table.column("key").chunks)
    return Entries(
        keys=Keys.of_bytes(raw),
        costs=table.column("cost_nanousd").to_numpy(),
        epochs=table.column("epoch").to_numpy(),
        by_batch=table.column("batch").to_numpy(),
    )


def _bytes_of(keys: pa.FixedSizeBinaryArray) -> bytes:
    start = keys.offset * KEY_BYTES
    return bytes(keys.buffers()[1].to_pybytes())[start : start + len(keys) * KEY_BYTES] if len(keys) else b""


def _sidecar(table: pa.Table) -> pa.Table:
    """Derive a sidecar's table from `KEY_COLUMNS` of the records; files from before format 1 have no mode."""
    modes = table.column("mode").to_pylist() if "mode" in table.column_names else [None] * table.num_rows
    keys = [bytes.fromhex(key) for key in table.column("key").to_pylist()]
    columns = [
        pa.array(keys, pa.binary(KEY_BYTES)),
        table.column("cost_nanousd"),
        table.column("epoch"),
        pa.array([mode == Mode.BATCH for mode in modes], pa.bool_()),
    ]
    return pa.table(columns, schema=_SCHEMA)


def sidecar_name(part: str) -> str:
    """Return the name of a part's sidecar."""
    return f"{SIDECARS}/{part.removesuffix('.parquet')}.arrow"


def put_part(folder: Folder, stem: str, table: pa.Table) -> None:
    """Write a new part, after its sidecar. `stem` is the part's name without digest and ending."""
    part = part_of(table)
    name = f"{stem}.{sha256(part).hexdigest()[:_DIGEST_DIGITS]}.parquet"
    folder.put(sidecar_name(name), to_arrow(_sidecar(table)))
    folder.put_new(name, part)


def complete_sidecars(folder: Folder) -> None:
    """Create missing sidecars and remove those without a part. Requires the lease.

    Raises:
        DamagedFile: a part without a sidecar cannot be read.
    """
    parts = {sidecar_name(name): name for kind in RecordKind for name in folder.list(kind) if is_part(name)}
    present = set(folder.list(SIDECARS))
    for name in sorted(present - parts.keys()):
        folder.delete(name)
    for name in sorted(parts.keys() - present):
        folder.put(name, to_arrow(_read(folder, parts[name])))
