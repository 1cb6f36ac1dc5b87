"""Replies and failures as Arrow: the files of the store."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hab_ray.calls import Failure, Finish, Outcome, Reply, Usage, clean_text
from hab_ray.catalog.models import folder_name
from hab_ray.catalog.prices import Mode
from hab_ray.errors import DamagedFile, FailureKind

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_USAGE = ("input", "cached", "cache_written", "output", "reasoning")
_EPOCH, _MODE = "epoch", "mode"
_ADDED = (_EPOCH, _MODE)
KEY_COLUMNS = ("key", "cost_nanousd", _EPOCH, _MODE)

REPLY_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("finish", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("vector", pa.binary(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in _USAGE),
        pa.field("cost_nanousd", pa.int64(), nullable=False),
        pa.field("model_reported", pa.string(), nullable=False),
        pa.field("served_by", pa.string(), nullable=False),
        pa.field("body_sha256", pa.string(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("latency_s", pa.float64()),
        pa.field(_EPOCH, pa.int64(), nullable=False),
        pa.field(_MODE, pa.string()),
    ]
)

_REPLY_OWN = [name for name in REPLY_SCHEMA.names if name not in (*_USAGE, *_ADDED)]

FAILURE_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("attempts", pa.int64(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("cost_nanousd", pa.int64(), nullable=False),
        pa.field(_EPOCH, pa.int64(), nullable=False),
        pa.field(_MODE, pa.string()),
    ]
)

_FAILURE_OWN = [name for name in FAILURE_SCHEMA.names if name not in _ADDED]
_EPOCH_OF_FILE = re.compile(r"/(?:wal|part)-(\d+)")
_PART = ".parquet"


class RecordKind(StrEnum):
    """The three kinds of record a store keeps."""

    REPLIES = "replies"
    EMBEDDINGS = "embeddings"
    FAILURES = "failures"


def table_of(shelf: RecordKind, outcomes: Sequence[Any], epoch: int, mode: Mode) -> pa.Table:
    """Replies or failures as a table; `epoch` is the one that paid for them, `mode` how they were asked."""
    added = {_EPOCH: [epoch] * len(outcomes), _MODE: [str(mode)] * len(outcomes)}
    if shelf is RecordKind.FAILURES:
        return pa.table(_columns(outcomes, _FAILURE_OWN) | added, schema=FAILURE_SCHEMA)
    usage = _columns([reply.usage for reply in outcomes], _USAGE)
    return pa.table(_columns(outcomes, _REPLY_OWN) | usage | added, schema=REPLY_SCHEMA)


def _columns(records: Sequence[Any], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [_storable(getattr(record, name)) for record in records] for name in names}


def _storable(value: Any) -> Any:
    """Arrow's texts are UTF-8, which has no lone surrogates; vendors' JSON may escape them all the same."""
    return clean_text(value) if isinstance(value, str) else value


def outcomes_of(shelf: RecordKind, table: pa.Table) -> Sequence[Outcome]:
    """The replies or failures of a table that `table_of` made; files from before format 1 have no mode."""
    records = table.drop_columns([name for name in _ADDED if name in table.column_names]).to_pylist()
    if shelf is RecordKind.FAILURES:
        return [Failure(**{**record, "kind": FailureKind(record["kind"])}) for record in records]
    return [_reply(record) for record in records]


def _reply(record: dict[str, Any]) -> Reply:
    usage = Usage(**{name: record.pop(name) for name in _USAGE})
    at: datetime = record.pop("at")
    finish = Finish(record.pop("finish"))
    return Reply(**record, usage=usage, finish=finish, at=at.astimezone(UTC))


def in_one(tables: Iterable[pa.Table]) -> pa.Table:
    """Tables of one kind as one; where some lack a column that came later, its values are null."""
    return pa.concat_tables(tables, promote_options="default")


def to_arrow(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def to_parquet(table: pa.Table) -> bytes:
    """A table as a Parquet file, built in memory so that no half-written file can be published."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


@contextmanager
def whole_file(name: str) -> Iterator[None]:
    """While a file of ours is read: what shows that it is damaged becomes a DamagedFile with the remedy."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise DamagedFile(f"{name}: cannot be read ({error}); delete it and run the same command") from error


def read_table(name: str, data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """The table in a file of ours, by the ending of its name; of `columns`, those that it has.

    Parquet is decoded in the calling thread, here and wherever else it is read from Python's memory: a thread of
    Arrow's that releases that memory while the interpreter exits aborts the process (apache/arrow#49942, #50482).

    Raises:
        DamagedFile: the bytes are not what the name says.
    """
    with whole_file(name):
        if name.endswith(".parquet"):
            table = pq.ParquetFile(pa.BufferReader(data)).read(columns=columns, use_threads=False)
        else:
            table = _read_stream(data, columns)
        table.validate(full=True)
    return table


def _read_stream(data: bytes, columns: Sequence[str] | None) -> pa.Table:
    if not data.endswith(_END_OF_STREAM):  # Arrow takes a stream cut between two batches for a whole one
        raise ValueError("the end is missing")
    table = pa.ipc.open_stream(data).read_all()
    return table.select([name for name in columns if name in table.column_names]) if columns else table


def shelf_of(outcome: Outcome) -> RecordKind:
    """Where an outcome is kept."""
    if isinstance(outcome, Failure):
        return RecordKind.FAILURES
    return RecordKind.EMBEDDINGS if outcome.vector else RecordKind.REPLIES


def prefix_of(shelf: RecordKind, model: str) -> str:
    """The folder of a model's records."""
    return f"{shelf}/{folder_name(model)}"


def is_part(name: str) -> bool:
    """Whether a file is a compacted part and not one that a writer left."""
    return name.endswith(_PART)


def epoch_of(name: str) -> int | None:
    """The epoch whose process wrote a file; None for a file that is not ours."""
    found = _EPOCH_OF_FILE.search(name)
    return int(found.group(1)) if found else None
