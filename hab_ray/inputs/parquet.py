"""Parquet files from elsewhere, read in bounded memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hab_ray.inputs.files import MEBIBYTE, BadInput

MOST_ROWS = 1_000_000
MOST_DECODED_BYTES = 512 * MEBIBYTE
_SHOWN = 40


def parquet_rows(data: bytes, texts: Sequence[str], numbers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file whose columns are some of `texts` and `numbers`.

    Raises:
        BadInput: as `parquet_columns`, or it has other columns.
    """
    known = [*texts, *numbers]
    for name in parquet_names(data):
        if name not in known:
            shown = repr(name[:_SHOWN])
            raise BadInput(f"there is no use for the column {shown}", f"leave it out; known are {', '.join(known)}")
    yield from parquet_columns(data, texts, numbers)


def parquet_columns(data: bytes, texts: Sequence[str], numbers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The columns `texts` and `numbers` of a Parquet file, as far as it has them, row by row.

    A file of a few kilobytes may claim to hold terabytes, and a column of repeated texts really does once each has
    been written out. So what it claims is looked at before it is read, texts are read as indices into a list of the
    different ones, and their lengths are added up before any is written out.

    Raises:
        BadInput: it is no Parquet file, a column is of another type, or it holds more than `MOST_ROWS` or
            `MOST_DECODED_BYTES` in these columns.
    """
    with _readable():
        metadata = pq.read_metadata(pa.BufferReader(data))
        read = {metadata.schema.column(n).path for n in range(metadata.num_columns)} & {*texts, *numbers}
        _check_claims(metadata, read)
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=sorted(read & set(texts)))
        _check_columns(file.schema_arrow, texts, numbers)
        held = 0
        for batch in file.iter_batches(columns=sorted(read), use_threads=False):
            held += sum(_text_bytes(column) for column in batch.columns)
            if held > MOST_DECODED_BYTES:
                raise _too_large()
            batch.validate(full=True)
            yield from batch.to_pylist()


def parquet_names(data: bytes) -> tuple[str, ...]:
    """The names of a Parquet file's columns.

    Raises:
        BadInput: it is no Parquet file.
    """
    with _readable():
        return tuple(pq.read_schema(pa.BufferReader(data)).names)


def number_columns(data: bytes) -> frozenset[str]:
    """The names of a Parquet file's columns of numbers.

    Raises:
        BadInput: it is no Parquet file.
    """
    with _readable():
        schema = pq.read_schema(pa.BufferReader(data))
        return frozenset(field.name for field in schema if _is_number(field.type))


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError, OverflowError) as error:
        cause = " ".join(str(error).split()).rstrip(".")
        raise BadInput(f"not a Parquet file that can be read: {cause}", "write it anew") from None


def _text_bytes(column: pa.Array) -> int:
    if not isinstance(column, pa.DictionaryArray):
        return 0
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return pc.sum(lengths).as_py() or 0


def _check_columns(schema: pa.Schema, texts: Sequence[str], numbers: Sequence[str]) -> None:
    names = list(schema.names)
    for name, kind in zip(names, schema.types, strict=True):
        shown = repr(name[:_SHOWN])
        if names.count(name) > 1:
            raise BadInput(f"the column {shown} stands twice", "keep one of them")
        if name in texts:
            is_right = pa.types.is_dictionary(kind) and _is_text(kind.value_type)
            wanted = "text (string)"
        elif name in numbers:
            is_right = _is_number(kind)
            wanted = "whole numbers (int64)"
        else:
            continue
        if not is_right and not pa.types.is_null(kind):
            raise BadInput(f"the column {shown} is of type {str(kind)[:_SHOWN]}", f"write it as {wanted}")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _check_claims(metadata: pq.FileMetaData, read: Collection[str]) -> None:
    if metadata.num_rows > MOST_ROWS:
        raise BadInput(f"has {metadata.num_rows:,} rows, and at most {MOST_ROWS:,} are read", "split it")
    sizes = (
        metadata.row_group(group).column(column).total_uncompressed_size
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
        if metadata.schema.column(column).path in read
    )
    if sum(sizes) > MOST_DECODED_BYTES:
        raise _too_large()


def _too_large() -> BadInput:
    return BadInput(f"holds more than {MOST_DECODED_BYTES // MEBIBYTE} MiB once it is decompressed", "split it")
