"""Files that are small on disk and huge once they are read, or huge and of no use: refused before they are unpacked."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.bad_inputs.cases import GOOD_SWEEP, RUBRIC, BadInput, both, sweep_with, writing

MEGABYTE = 1_000_000
MEGABYTES = 20
TESTS = ("plan", "sweep.yaml")
_GOOD = f'{{"dimension": "{RUBRIC}", "prompt": "Is it prime?"'
_HEAD, _TEXT_OF_A_ROW = "dimension,prompt\n", "\u20ac" * 1_000
_BINARY, _LIST, _STRUCT, _I32, _I64 = 8, 9, 12, 5, 6
_ZSTD, _PLAIN, _TEXT, _REQUIRED = 6, 0, 6, 0


def _number(value: int) -> bytes:
    """A number with a sign as Thrift's compact protocol writes it."""
    return _unsigned(value << 1)


def _unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _struct(*fields: tuple[int, int, bytes]) -> bytes:
    """A structure of fields: number, kind, value."""
    out, last = b"", 0
    for number, kind, value in fields:
        out += bytes([(number - last) << 4 | kind]) + value
        last = number
    return out + b"\0"


def _binary(text: bytes) -> bytes:
    return _unsigned(len(text)) + text


def _listed(kind: int, members: list[bytes]) -> bytes:
    return bytes([0xF0 | kind]) + _unsigned(len(members)) + b"".join(members)


def _integers(**values: int) -> list[tuple[int, int, bytes]]:
    return [(int(name[1:]), _I32, _number(value)) for name, value in values.items()]


def _footer(schema: list[bytes], groups: list[bytes], rows: int) -> bytes:
    fields = _struct(
        (1, _I32, _number(1)),
        (2, _LIST, _listed(_STRUCT, schema)),
        (3, _I64, _number(rows)),
        (4, _LIST, _listed(_STRUCT, groups)),
    )
    return fields + len(fields).to_bytes(4, "little") + b"PAR1"


def _text_column(name: bytes) -> bytes:
    return _struct(*_integers(_1=_TEXT, _3=_REQUIRED), (4, _BINARY, _binary(name)), *_integers(_6=0))


def _root(children: int) -> bytes:
    return _struct((4, _BINARY, _binary(b"root")), *_integers(_5=children))


def _zstd_of_zeros(size: int) -> bytes:
    """A frame that unpacks to zeros: four bytes for each 128 KiB."""
    block = 1 << 17
    count = size // block
    blocks = [((block << 3 | 1 << 1 | (n == count - 1)).to_bytes(3, "little") + b"\0") for n in range(count)]
    return b"\x28\xb5\x2f\xfd" + b"\xa0" + size.to_bytes(4, "little") + b"".join(blocks)


def zstd_bomb(claimed: int | None = None) -> bytes:
    """A Parquet file of some 64 kB with one page of 2 GiB; `claimed` is what its footer says that it unpacks to."""
    size = (1 << 31) - (1 << 17)
    packed = _zstd_of_zeros(size)
    page_of = _struct(*_integers(_1=size // 4, _2=_PLAIN, _3=3, _4=3))
    page = _struct(*_integers(_1=0, _2=size, _3=len(packed)), (5, _STRUCT, page_of)) + packed
    columns, body = [], b"PAR1"
    for name in (b"dimension", b"prompt"):
        about = _struct(
            *_integers(_1=_TEXT),
            (2, _LIST, _listed(_I32, [_number(_PLAIN)])),
            (3, _LIST, _listed(_BINARY, [_binary(name)])),
            (4, _I32, _number(_ZSTD)),
            *((n, _I64, _number(v)) for n, v in ((5, 1000), (6, claimed or size), (7, len(page)), (9, len(body)))),
        )
        columns.append(_struct((2, _I64, _number(len(body))), (3, _STRUCT, about)))
        body += page
    group = _struct((1, _LIST, _listed(_STRUCT, columns)), (2, _I64, _number(size)), (3, _I64, _number(1000)))
    return body + _footer([_root(2), _text_column(b"dimension"), _text_column(b"prompt")], [group], 1000)


def _deep(levels: int) -> bytes:
    groups = [_struct(*_integers(_3=_REQUIRED), (4, _BINARY, _binary(b"g")), *_integers(_5=1)) for _ in range(levels)]
    return b"PAR1" + _footer([_root(1), *groups, _text_column(b"prompt")], [], 0)


def _wide(columns: int) -> bytes:
    return b"PAR1" + _footer([_root(columns), *(_text_column(b"c%d" % n) for n in range(columns))], [], 0)


@dataclass(frozen=True)
class Filled:
    """The content of a file of `MEGABYTES`: a head, one piece again and again, and a tail."""

    head: str
    piece: str
    tail: bytes = b""

    def write(self, path: Path) -> None:
        chunk = (self.piece * (MEGABYTE // len(self.piece.encode()))).encode()
        with path.open("wb") as file:
            file.write(self.head.encode())
            for _ in range(MEGABYTES):
                file.write(chunk)
            file.write(self.tail)


LINE = Filled(_GOOD + ', "x": "', "xy", b'"}')


def _making(name: str, content: str | bytes | Filled) -> Callable[[Path], object]:
    return writing(name, content) if not isinstance(content, Filled) else lambda folder: content.write(folder / name)


def large_files() -> dict[str, tuple[str, str, str | bytes | Filled]]:
    """Kind of file, what must be said of it, and content, by name."""
    equal_keys = _GOOD + ', "a": 1' * 100_000 + "}"
    other_keys = "".join(f'"a{n}": 1, ' for n in range(100_000))
    columns = [f"column{n}" for n in range(200_000)]
    keys = json.dumps(dict.fromkeys(columns, "x"))
    return {
        "100,000 equal keys": ("jsonl", "appears twice", equal_keys),
        "100,000 keys equal at the end": ("jsonl", "appears twice", f'{{{other_keys}"a99999": 2}}'),
        "100,000 equal keys in a list": ("json", "appears twice", f"[{equal_keys}]"),
        "200,000 columns": ("csv", "more than 2,000 columns", ",".join(columns)),
        "200,000 keys": ("jsonl", "more than 2,000 columns", keys),
        "200,000 keys in a list": ("json", "more than 2,000 columns", f"[{keys}]"),
        "200,000 columns of Parquet": ("parquet", "more than 2,000 columns", _wide(200_000)),
        "a name of 2,000 characters": ("csv", "column", "x" * 2_000 + ",b\n1,2\n"),
        "a line of 20 MB": ("jsonl", "line 1: has more", LINE),
        "a row of 20 MB in a list": ("json", "row 1", Filled(f"[{_GOOD}", "[[],")),
        "a cell of 20 MB": ("csv", "line 2", Filled(_HEAD + '"', "xy")),
        "a row over a million lines": ("csv", "its row has more", Filled(_HEAD, '"\n",')),
        "names of 20 MB": ("csv", "line 1", Filled("", "a,")),
        "20 MB of empty lines": ("jsonl", "empty lines", Filled("", "\n")),
        "20 MB of empty lines in a table": ("csv", "empty lines", Filled(_HEAD, "\n")),
        "20 MB of blanks": ("json", "not a JSON list", Filled("", " ")),
        "a list without an end": ("json", "deeply", Filled("[", "[")),
        "no UTF-8 behind 20 MB": ("csv", "UTF-8", Filled(_HEAD, f"{RUBRIC},{_TEXT_OF_A_ROW}\n", b"\xff\xff\n")),
        "a page of 2 GB": ("parquet", "MiB", zstd_bomb()),
        "a page of 2 GB that claims nothing": ("parquet", "MiB", zstd_bomb(100)),
        "30,000 levels": ("parquet", "columns", _deep(30_000)),
        "1,000 levels": ("parquet", "deep", _deep(1_000)),
    }


def large_cases() -> Iterator[BadInput]:
    """Each file as it is imported; of one with columns of Parquet, also as a sweep names it."""
    for what, (kind, says, content) in large_files().items():
        name = f"given.{kind}"
        make = _making(name, content)
        yield BadInput(f"import: {what}", make, ("import", "tests", name), (name, says))
        if kind == "parquet":
            yield BadInput(f"tests: {what}", both(make, sweep_with(tests=name)), TESTS, ("tests: ", name))
    lines, bomb = _making("given.jsonl", LINE), writing("given.parquet", zstd_bomb(100))
    for huge, name in ((lines, "given.jsonl"), (bomb, "given.parquet")):
        for keys in (
            {"responses": name, "subjects": None},
            {"raters": [name]},
            {"variants": {"subjects": [{"name": "other", "tests": name}]}},
        ):
            yield BadInput(f"{next(iter(keys))}: {name}", both(huge, sweep_with(**keys)), TESTS, (name,))
    for command in ("responses", "verdicts", "ratings"):
        yield BadInput(f"import {command}: a bomb", bomb, ("import", command, "given.parquet"), ("given.parquet",))
    yield from _sweep_cases()


def _sweep_cases() -> Iterator[BadInput]:
    good = yaml.safe_dump(GOOD_SWEEP)
    for says, text in (
        ("50,000 values", "{subjects: [" + "{name: a}, " * 33_000 + "]}"),
        ("variants.judges", "{judges: [" + "{name: a}, " * 10_000 + "]}"),
        ("variants.subjects", "{subjects: [" + "{name: a, params: {}}, " * 8_000 + "]}"),
        ("50,000 values", "{subjects: [" + "{}, " * 100_000 + "]}"),
    ):
        make = writing("sweep.yaml", f"{good}variants: {text}\n")
        yield BadInput(f"variants: {text[:40]}", make, TESTS, (says, "sweep.yaml"))
    record = "given.jsonl.source.yaml"
    tests = both(_making("given.jsonl", _GOOD + "}"), sweep_with(tests="given.jsonl"))
    beside = both(_making(record, Filled("source: ", "x")), tests)
    yield BadInput("a source record of 20 MB", beside, TESTS, (record, "at most"))
