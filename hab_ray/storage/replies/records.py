"""Replies and failures as Arrow tables: the formats of the store's files."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from hab_ray.calls import Failure, Finish, Outcome, Reply, Usage, clean_text
from hab_ray.catalog.models import folder_name
from hab_ray.catalog.prices import Mode
from hab_ray.errors import NO_DESCRIPTOR, DamagedFile, FailureKind

T = TypeVar("T")

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_USAGE = ("input", "cached", "cache_written", "output", "reasoning")
_EPOCH, _MODE = "epoch", "mode"
_ADDED = (_EPOCH, _MODE)
KEY_COLUMNS = ("key", "cost_nanousd", _EPOCH, _MODE)


def _required(data_type: pa.DataType, *names: str) -> list[pa.Field]:
    return [pa.field(name, data_type, nullable=False) for name in names]


_PAID_BY = [*_required(pa.int64(), _EPOCH), pa.field(_MODE, pa.string())]
REPLY_SCHEMA = pa.schema(
    [
        *_required(pa.string(), "key", "finish", "text"),
        *_required(pa.binary(), "vector"),
        *_required(pa.int64(), *_USAGE, "cost_nanousd"),
        *_required(pa.string(), "model_reported", "served_by", "body_sha256"),
        *_required(pa.timestamp("us", tz="UTC"), "at"),
        pa.field("latency_s", pa.float64()),
        *_PAID_BY,
    ]
)
FAILURE_SCHEMA = pa.schema(
    [
        *_required(pa.string(), "key", "kind"),
        *_required(pa.int64(), "attempts"),
        *_required(pa.string(), "message"),
        *_required(pa.int64(), "cost_nanousd"),
        *_PAID_BY,
    ]
)
_REPLY_OWN = [name for name in REPLY_SCHEMA.names if name not in (*_USAGE, *_ADDED)]
_FAILURE_OWN = [name for name in FAILURE_SCHEMA.names if name not in _ADDED]
_EPOCH_OF_FILE = re.compile(r"/(?:wal|part)-(\d+)")


class RecordKind(StrEnum):
    """The three kinds of record a store keeps."""

    REPLIES = "replies"
    EMBEDDINGS = "embeddings"
    FAILURES = "failures"


def table_of(kind: RecordKind, outcomes: Sequence[Any], epoch: int, mode: Mode) -> pa.Table:
    """Return replies or failures as a table; `epoch` paid for them, and `mode` says how their calls were sent."""
    added = {_EPOCH: [epoch] * len(outcomes), _MODE: [str(mode)] * len(outcomes)}
    if kind is RecordKind.FAILURES:
        return pa.table(_columns(outcomes, _FAILURE_OWN) | added, schema=FAILURE_SCHEMA)
    usage = _columns([reply.usage for reply in outcomes], _USAGE)
    return pa.table(_columns(outcomes, _REPLY_OWN) | usage | added, schema=REPLY_SCHEMA)


def _columns(records: Sequence[Any], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [_storable(getattr(record, name)) for record in records] for name in names}


def _storable(value: Any) -> Any:
    """Replace lone surrogates, which vendors' JSON may contain and Arrow's UTF-8 cannot."""
    return clean_text(value) if isinstance(value, str) else value


def outcomes_of(kind: RecordKind, table: pa.Table) -> Sequence[Outcome]:
    """Return the replies or failures in a table of `table_of`; files from before format 1 have no mode."""
    records = table.drop_columns([name for name in _ADDED if name in table.column_names]).to_pylist()
    if kind is RecordKind.FAILURES:
        return [Failure(**{**record, "kind": FailureKind(record["kind"])}) for record in records]
    return [_reply(record) for record in records]


def _reply(record: dict[str, Any]) -> Reply:
    usage = Usage(**{name: record.pop(name) for name in _USAGE})
    at: datetime = record.pop("at")
    finish = Finish(record.pop("finish"))
    return Reply(**record, usage=usage, finish=finish, at=at.astimezone(UTC))


def in_one(tables: Iterable[pa.Table]) -> pa.Table:
    """Concatenate tables of one kind, filling columns that older tables lack with nulls."""
    return pa.concat_tables(tables, promote_options="default")


def to_arrow(table: pa.Table) -> bytes:
    """Encode a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def to_parquet(table: pa.Table, **options: Any) -> bytes:
    """Encode a table as a Parquet file, in memory so that no half-written file can be published.

    `options` are those of `pyarrow.parquet.write_table`.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", **options)
    return bytes(sink.getvalue().to_pybytes())


@contextmanager
def whole_file(name: str, problem: str = "cannot be read") -> Iterator[None]:
    """Turn errors that show a damaged file into a DamagedFile that states this problem and the remedy.

    Records that this user may not read are not damaged, and must not be deleted; a view like that is derived again.
    """
    try:
        yield
    except (FileNotFoundError, MemoryError):  # Arrow's error about memory is an ArrowException too
        raise
    except (pa.ArrowException, LookupError, ValueError, OSError) as error:
        is_closed = isinstance(error, PermissionError) and name.partition("/")[0] in tuple(RecordKind)
        if is_closed or getattr(error, "errno", None) in NO_DESCRIPTOR:
            raise
        raise DamagedFile(_damaged(name, f"{problem} ({error})")) from error


def _damaged(name: str, cause: str) -> str:
    remedy = "delete it and run the same command"
    if name.partition("/")[0] not in tuple(RecordKind):  # a view, which is derived again from the store
        return f"{name}: {cause}; {remedy}"
    return (
        f"the store's {name}: {cause}. Copy it again from where the store came from, or from a backup; only if there "
        f"is no other copy, {remedy}: its replies are then paid for again"
    )


def read_listed(read: Callable[[], T]) -> T:
    """Call `read`, which lists files and reads them; call it again if a compaction removes one in between.

    Raises:
        DamagedFile: a file is listed again and still missing, such as a link to nowhere.
    """
    missing = None
    while True:
        try:
            return read()
        except FileNotFoundError as error:
            if str(error) == missing:
                raise DamagedFile(f"{missing}: it is listed but cannot be read; delete it") from error
            missing = str(error)


def read_table(name: str, data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """Decode a file in the format that its name ends with; of `columns`, read those that it has.

    Parquet is decoded in the calling thread, here and wherever else it is read from Python's memory: a thread of
    Arrow's that releases that memory while the interpreter exits aborts the process (apache/arrow#49942, #50482). Raise
    DamagedFile if the bytes are not in that format.
    """
    with whole_file(name):
        if name.endswith(".parquet"):
            file = pq.ParquetFile(pa.BufferReader(data))
            table = file.read(columns=columns, use_threads=False)
            if table.num_columns and table.num_rows != file.metadata.num_rows:
                raise ValueError(f"{table.num_rows} of {file.metadata.num_rows} rows can be read")
        else:
            table = _read_stream(data, columns)
        table.validate(full=True)
    return table


def _read_stream(data: bytes, columns: Sequence[str] | None) -> pa.Table:
    if not data.endswith(_END_OF_STREAM):  # Arrow accepts a stream cut off between two record batches
        raise ValueError("the end is missing")
    table = pa.ipc.open_stream(data).read_all()
    return table.select([name for name in columns if name in table.column_names]) if columns else table


def kind_of(outcome: Outcome) -> RecordKind:
    """Return the kind of record that an outcome is stored as."""
    if isinstance(outcome, Failure):
        return RecordKind.FAILURES
    return RecordKind.EMBEDDINGS if outcome.vector else RecordKind.REPLIES


def prefix_of(kind: RecordKind, model: str) -> str:
    """Return the folder of a model's records."""
    return f"{kind}/{folder_name(model)}"


def is_part(name: str) -> bool:
    """Return whether a file is a compacted part rather than a writer's file."""
    return name.endswith(".parquet")


def epoch_of(name: str) -> int | None:
    """Return the epoch that wrote a file; None if its name has none."""
    found = _EPOCH_OF_FILE.search(name)
    return int(found.group(1)) if found else None
