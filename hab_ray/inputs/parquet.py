"""Reads untrusted Parquet files in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hab_ray.inputs.files import MAX_ROWS, MAX_STREAMED_BYTES, MEBIBYTE, SHOWN, BadInput, Data, distinct_columns, mapped
from hab_ray.inputs.parquet_shape import check_footer, pages, unreadable

MAX_DECODED_BYTES = 512 * MEBIBYTE
MAX_PAGE_BYTES = 64 * MEBIBYTE
_BATCH_BYTES = 32 * MEBIBYTE
_BATCH_ROWS = 8_192


def parquet_rows(data: Data, texts: Sequence[str], numbers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file that may have only the columns `texts` and `numbers`.

    Raises:
        BadInput: as `parquet_columns`, or the file has other columns.
    """
    known = [*texts, *numbers]
    for name in parquet_names(data):
        if name not in known:
            shown = repr(name[:SHOWN])
            raise BadInput(f"unknown column {shown}", f"remove it; known columns are {', '.join(known)}")
    yield from parquet_columns(data, texts, numbers)


def parquet_columns(data: Data, texts: Sequence[str], numbers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the columns `texts` and `numbers` of a Parquet file row by row; columns may be missing.

    A file of a few kilobytes may unpack to terabytes, for example of repeated texts. So the unpacked size of its pages
    is checked before reading, rows are read in batches, and a repeated text is held once. Raise BadInput if it is not a
    Parquet file, a column has another type, or it holds more than `MAX_ROWS` or `MAX_DECODED_BYTES` in these columns.
    """
    schema = _schema(data)
    with _readable():
        metadata = pq.read_metadata(_file(data))
        if metadata.num_rows > MAX_ROWS:
            raise BadInput(f"has {metadata.num_rows:,} rows, and at most {MAX_ROWS:,} are read", "split it")
        wanted = {*texts, *numbers}
        read = [n for n in range(metadata.num_columns) if metadata.schema.column(n).path in wanted]
        names = sorted({metadata.schema.column(n).path for n in read})
        file = pq.ParquetFile(_file(data), read_dictionary=sorted({*names} & {*texts}))
        _check_columns(schema, file.schema_arrow, texts, numbers)
        if not metadata.num_rows:
            return
        held, found, rows = 0, 0, _rows_at_a_time(data, read)
        for batch in file.iter_batches(rows, columns=names, use_threads=False):
            held += sum(_text_bytes(column) for column in batch.columns)
            if held > _most_decoded(data):
                raise _too_large(data)
            columns = [_values(column) for column in batch.columns]
            for cells in zip(*columns, strict=True) if columns else ((),) * batch.num_rows:
                yield dict(zip(batch.schema.names, cells, strict=True))
            found += batch.num_rows
        if found != metadata.num_rows:
            raise unreadable(f"{found:,} of its {metadata.num_rows:,} rows can be read")


def parquet_names(data: Data) -> tuple[str, ...]:
    """Return the names of a Parquet file's columns.

    Raises:
        BadInput: it is not a Parquet file, or as `distinct_columns`.
    """
    return tuple(_schema(data).names)


def number_columns(data: Data) -> frozenset[str]:
    """Return the names of a Parquet file's numeric columns."""
    return frozenset(field.name for field in _schema(data) if _is_number(field.type))


def _schema(data: Data) -> pa.Schema:
    check_footer(mapped(data))
    with _readable():
        schema = pq.read_schema(_file(data))
        distinct_columns(schema.names)
        return schema


def _file(data: Data) -> pa.NativeFile:
    return pa.BufferReader(data) if isinstance(data, bytes) else pa.OSFile(str(data))


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError, OverflowError) as error:
        raise unreadable(" ".join(str(error).split()).rstrip(".")) from None


def _text_bytes(column: pa.Array) -> int:
    if not isinstance(column, pa.DictionaryArray):
        return 0
    import pyarrow.compute as pc  # importing it takes a twentieth of the time of `hab plan`

    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return pc.sum(lengths).as_py() or 0


def _values(column: pa.Array) -> list[Any]:
    """Return the cells of a column; repeated texts share one object."""
    if not isinstance(column, pa.DictionaryArray):
        return list(column.to_pylist())
    used = column.indices.unique().drop_null()
    texts = column.dictionary.take(used)
    texts.validate(full=True)
    known = dict(zip(used.to_pylist(), texts.to_pylist(), strict=True))
    return [known.get(index) for index in column.indices.to_pylist()]


def _check_columns(schema: pa.Schema, texts_read: pa.Schema, texts: Sequence[str], numbers: Sequence[str]) -> None:
    names = list(schema.names)
    for name in sorted({*texts, *numbers}.intersection(names), key=names.index):
        shown = repr(name[:SHOWN])
        if names.count(name) > 1:
            raise BadInput(f"the column {shown} appears twice", "keep one of them")
        kind = texts_read.field(name).type
        is_text = pa.types.is_dictionary(kind) and _is_text(kind.value_type)
        if not (is_text if name in texts else _is_number(kind)) and not pa.types.is_null(kind):
            text = "JSON text (string)" if pa.types.is_nested(kind) else "text (string)"
            wanted = text if name in texts else "whole numbers (int64)"
            raise BadInput(f"the column {shown} is of type {str(kind)[:SHOWN]}", f"write it as {wanted}")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _rows_at_a_time(data: Data, columns: Sequence[int]) -> int:
    """Return the number of rows to unpack at a time.

    Raises:
        BadInput: the columns unpack to more than `MAX_DECODED_BYTES`, or one page to more than `MAX_PAGE_BYTES`.
    """
    unpacked = 0
    widest = dict.fromkeys(columns, 1.0)
    for column, size, rows in pages(mapped(data), columns):
        unpacked += size
        if unpacked > _most_decoded(data):
            raise _too_large(data)
        if size > MAX_PAGE_BYTES:
            raise BadInput(
                f"has a page of {size >> 20:,} MiB, and at most {MAX_PAGE_BYTES >> 20:,} are read", "shorten it"
            )
        widest[column] = max(widest[column], size / rows if rows else 0.0)
    return max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / sum(widest.values(), start=1.0))))


def _most_decoded(data: Data) -> int:
    """Return the limit of unpacked bytes, which is higher for a file that is streamed."""
    return MAX_DECODED_BYTES if isinstance(data, bytes) else MAX_STREAMED_BYTES


def _too_large(data: Data) -> BadInput:
    return BadInput(f"holds more than {_most_decoded(data) // MEBIBYTE} MiB once it is decompressed", "split it")
