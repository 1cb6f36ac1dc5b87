"""Parquet files from elsewhere, read in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

    A file of a few kilobytes may claim to hold terabytes, and a column of repeated texts really does once each has
    been written out. So what it claims is looked at before it is read, texts are read as indices into a list of the
    different ones, and their lengths are added up before any is written out.

    Raises:
        BadInput: it is no Parquet file, has other columns, or holds more than `MOST_ROWS` or `MOST_DECODED_BYTES`.
    """
    try:
        metadata = pq.read_metadata(pa.BufferReader(data))
        _check_claims(metadata, None)
        paths = {metadata.schema.column(n).path for n in range(metadata.num_columns)}
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=sorted(paths & set(texts)))
        _check_columns(file.schema_arrow, texts, numbers)
        held = 0
        for batch in file.iter_batches(use_threads=False):
            held += sum(_text_bytes(column) for column in batch.columns)
            if held > MOST_DECODED_BYTES:
                raise _too_large()
            batch.validate(full=True)
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError, OverflowError) as error:
        raise _unreadable(error) from None


def parquet_names(data: bytes) -> tuple[str, ...]:
    """The names of a Parquet file's columns.

    Raises:
        BadInput: it is no Parquet file.
    """
    try:
        return tuple(pq.read_schema(pa.BufferReader(data)).names)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(error) from None


def parquet_texts(data: bytes, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, of them the columns of these names, which hold texts; others are not decoded.

    Raises:
        BadInput: as `parquet_rows`, of these columns alone.
    """
    try:
        _check_claims(pq.read_metadata(pa.BufferReader(data)), names)
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(names))
        _check_columns(pa.schema([field for field in file.schema_arrow if field.name in names]), names, ())
        held = 0
        for batch in file.iter_batches(columns=list(names), use_threads=False):
            held += sum(_text_bytes(column) for column in batch.columns)
            if held > MOST_DECODED_BYTES:
                raise _too_large()
            batch.validate(full=True)
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError, OverflowError) as error:
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> BadInput:
    cause = " ".join(str(error).split()).rstrip(".")
    return BadInput(f"not a Parquet file that can be read: {cause}", "write it anew")


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
            is_right = pa.types.is_integer(kind) or pa.types.is_floating(kind)
            wanted = "whole numbers (int64)"
        else:
            known = ", ".join([*texts, *numbers])
            raise BadInput(f"there is no use for the column {shown}", f"leave it out; known are {known}")
        if not is_right and not pa.types.is_null(kind):
            raise BadInput(f"the column {shown} is of type {str(kind)[:_SHOWN]}", f"write it as {wanted}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _check_claims(metadata: pq.FileMetaData, names: Sequence[str] | None) -> None:
    """Refuse what claims to be too large, counting the columns of these names; None = all."""
    if metadata.num_rows > MOST_ROWS:
        raise BadInput(f"has {metadata.num_rows:,} rows, and at most {MOST_ROWS:,} are read", "split it")
    sizes = (
        metadata.row_group(group).column(column).total_uncompressed_size
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
        if names is None or metadata.schema.column(column).path in names
    )
    if sum(sizes) > MOST_DECODED_BYTES:
        raise _too_large()


def _too_large() -> BadInput:
    return BadInput(f"holds more than {MOST_DECODED_BYTES // MEBIBYTE} MiB once it is decompressed", "split it")
