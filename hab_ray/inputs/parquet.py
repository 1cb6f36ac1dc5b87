"""Reads untrusted Parquet files in bounded memory.

A footer may claim anything, and Arrow builds the schema recursively and allocates whatever a page header says. So the
schema's size and depth and the headers of all pages are read first, in Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from mmap import mmap
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hab_ray.inputs.files import (
    MAX_COLUMN,
    MAX_COLUMNS,
    MAX_ROWS,
    MAX_STREAMED_BYTES,
    MEBIBYTE,
    SHOWN,
    BadInput,
    Data,
    distinct_columns,
    mapped,
    too_many_columns,
)

MAX_FOOTER_BYTES = 16 * MEBIBYTE
MAX_PAGES = 100_000
DEEPEST = 50
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_FIXED = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}
_NUMBERS = (4, 5, 6)
_SCHEMA, _NAME, _CHILDREN = 2, 4, 5
_ROW_GROUPS, _COLUMNS, _META_DATA, _CHUNK_SIZE, _FIRST_PAGE, _DICTIONARY_PAGE = 4, 1, 3, 7, 9, 11
_CHUNK_VALUES = 5
_UNCOMPRESSED, _COMPRESSED, _DATA_PAGE, _DATA_PAGE_V2, _VALUES = 2, 3, 5, 8, 1


def check_footer(data: bytes | mmap) -> None:
    """Check that Arrow can read a file's footer safely.

    Raises:
        BadInput: it is not a Parquet file; the footer is too large, or its schema has too many columns or is too deep.
    """
    if len(data) < 12 or data[-4:] != b"PAR1" or _footer_size(data) > len(data) - 8:
        raise unreadable("it has no footer")
    if (size := _footer_size(data)) > MAX_FOOTER_BYTES:
        raise BadInput(f"has a footer of {size:,} bytes, and at most {MAX_FOOTER_BYTES:,} are read", "split it")
    _check_schema(_list_in_footer(data, _SCHEMA, "schema"))


def _footer_size(data: bytes | mmap) -> int:
    return int.from_bytes(data[-8:-4], "little")


def _list_in_footer(data: bytes | mmap, wanted: int, what: str) -> _Thrift:
    """Return a reader of the footer, positioned at the beginning of a list."""
    footer = _Thrift(data, len(data) - 8 - _footer_size(data))
    for field, kind in footer.fields():
        if field == wanted and kind == _LIST:
            return footer
        footer.skip(kind)
    raise unreadable(f"its footer has no {what}")


def _check_schema(footer: _Thrift) -> None:
    open_groups: list[int] = []
    for number in footer.structures():
        if number >= 4 * MAX_COLUMNS:
            raise too_many_columns()
        children = 0
        for field, inner in footer.fields():
            if field == _CHILDREN:
                children = footer.integer()
            elif field == _NAME and inner == _BINARY:
                footer.skip_name()
            else:
                footer.skip(inner)
        while open_groups and open_groups[-1] == 0:
            open_groups.pop()
        if open_groups:
            open_groups[-1] -= 1
        if children > 0:
            open_groups.append(children)
        if len(open_groups) > DEEPEST:
            raise BadInput(f"its columns are nested more than {DEEPEST} deep", "write texts and numbers")


def pages(data: bytes | mmap, columns: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the pages of some columns: column number, unpacked bytes, and rows (0 for a dictionary page).

    Arrow is not used to locate them: it aborts the process if the footer contradicts itself. Raise BadInput if there
    are more than `MAX_PAGES`, or one is not where the footer says.
    """
    count = 0
    for chunks in _row_groups(data):
        for column in columns:
            if column >= len(chunks):
                raise unreadable("a row group lacks a column")
            start, end, values = chunks[column]
            if not 0 <= start <= end <= len(data):
                raise unreadable("a column is not where the footer says")
            while values and start < end:  # Arrow points at the file's first bytes for a column without values
                count += 1
                if count > MAX_PAGES:
                    raise BadInput(f"has more than {MAX_PAGES:,} pages in its columns", "write it in larger pages")
                size, rows, start = _page(data, start)
                yield column, size, rows


def _row_groups(data: bytes | mmap) -> Iterator[Sequence[tuple[int, int, int]]]:
    """Yield, for each row group, where its columns begin and end, and how many values they have."""
    footer = _list_in_footer(data, _ROW_GROUPS, "row groups")
    for _ in footer.structures():
        chunks: list[tuple[int, int, int]] = []
        for field, kind in footer.fields():
            if field == _COLUMNS and kind == _LIST:
                chunks = [_chunk(footer) for _ in footer.structures()]
            else:
                footer.skip(kind)
        yield chunks


def _chunk(footer: _Thrift) -> tuple[int, int, int]:
    found: dict[int, int] = {}
    for field, kind in footer.fields():
        if field != _META_DATA or kind != _STRUCT:
            footer.skip(kind)
            continue
        for inner, inner_kind in footer.fields():
            if inner_kind in _NUMBERS:
                found[inner] = footer.integer()
            else:
                footer.skip(inner_kind)
    if not found.keys() >= {_CHUNK_SIZE, _FIRST_PAGE, _CHUNK_VALUES}:
        raise unreadable("its footer does not say where a column is")
    start, dictionary = found[_FIRST_PAGE], found.get(_DICTIONARY_PAGE, 0)
    start = dictionary if 0 < dictionary < start else start
    return start, start + found[_CHUNK_SIZE], found[_CHUNK_VALUES]


def _page(data: bytes | mmap, start: int) -> tuple[int, int, int]:
    """Return a page's unpacked size, its rows, and where it ends."""
    header = _Thrift(data, start)
    size = packed = rows = 0
    for field, kind in header.fields():
        if field == _UNCOMPRESSED:
            size = header.integer()
        elif field == _COMPRESSED:
            packed = header.integer()
        elif field in (_DATA_PAGE, _DATA_PAGE_V2) and kind == _STRUCT:
            for inner, inner_kind in header.fields():
                if inner == _VALUES:
                    rows = header.integer()
                else:
                    header.skip(inner_kind)
        else:
            header.skip(kind)
    if min(size, packed, rows) < 0:
        raise unreadable("a page has a size below zero")
    return size, rows, header.at + packed


class _Thrift:
    """Reads Thrift's compact protocol from position `at`."""

    def __init__(self, data: bytes | mmap, at: int) -> None:
        self._data, self.at = data, at

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield the number and kind of each field of a struct. The caller reads or skips the value."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 15

    def integer(self) -> int:
        """Read a signed integer."""
        found = self._unsigned()
        return (found >> 1) ^ -(found & 1)

    def list_head(self) -> tuple[int, int]:
        """Read the length of a list and the kind of its members."""
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._unsigned()
        if count > len(self._data) - self.at:
            raise unreadable("a list in it is longer than the file")
        return count, head & 15

    def structures(self) -> Iterator[int]:
        """Yield the index of each struct in a list. The caller reads the struct."""
        count, kind = self.list_head()
        if count and kind != _STRUCT:
            raise unreadable("a list in its footer holds what none does")
        yield from range(count)

    def skip_name(self) -> None:
        if (length := self._unsigned()) > MAX_COLUMN:
            raise BadInput(f"the name of a column has {length:,} bytes", "give it a short name")
        self.at += length

    def skip(self, kind: int, depth: int = 0) -> None:
        if depth > DEEPEST:
            raise unreadable("its footer or a page's header is nested too deeply")
        if kind in _FIXED:
            self.at += _FIXED[kind]
        elif kind == _BINARY:
            length = self._unsigned()
            self.at += length
        elif kind in (_LIST, _SET):
            count, inner = self.list_head()
            for _ in range(count):
                self.skip(_BYTE if inner in (_TRUE, _FALSE) else inner, depth + 1)
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in _NUMBERS:
            self._unsigned()
        else:
            raise unreadable("its footer or a page's header holds what none does")

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise unreadable("it ends in the middle of a header")
        self.at += 1
        return self._data[self.at - 1]

    def _unsigned(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > 63:
                raise unreadable("a number in it is too long")


def unreadable(cause: str) -> BadInput:
    """Return the problem of a file that is damaged, for this cause."""
    return BadInput(f"not a Parquet file that can be read: {cause}", "write it again")


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
