"""Files that are small on disk and huge once they are read, or huge and of no use: refused before they are unpacked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
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


def _filled(name: str, head: str, piece: str, tail: str = "") -> Callable[[Path], object]:
    """A maker of a file of `MEGABYTES`: a head, one piece again and again, and a tail."""

    def write(folder: Path) -> None:
        chunk = (piece * (MEGABYTE // len(piece.encode()))).encode()
        with (folder / name).open("wb") as file:
            file.write(head.encode())
            for _ in range(MEGABYTES):
                file.write(chunk)
            file.write(tail.encode())

    return write


def _columns(name: str, count: int, form: str) -> Callable[[Path], object]:
    names = [f"column{n}" for n in range(count)]
    text = ",".join(names) if form == "csv" else json.dumps(dict.fromkeys(names, "x"))
    return writing(name, f"[{text}]" if form == "json" else text)


EQUAL_KEYS = ', "a": 1' * 100_000 + "}"
FILES: dict[str, tuple[Callable[[str], Callable[[Path], object]], str, str]] = {
    "100,000 equal keys": (lambda name: writing(name, _GOOD + EQUAL_KEYS), "jsonl", "appears twice"),
    "100,000 keys equal at the end": (
        lambda name: writing(name, "{" + "".join(f'"a{n}": 1, ' for n in range(100_000)) + '"a99999": 2}'),
        "jsonl",
        "appears twice",
    ),
    "100,000 equal keys in a list": (lambda name: writing(name, f"[{_GOOD}{EQUAL_KEYS}]"), "json", "appears twice"),
    "200,000 columns": (lambda name: _columns(name, 200_000, "csv"), "csv", "more than 2,000 columns"),
    "200,000 keys": (lambda name: _columns(name, 200_000, "jsonl"), "jsonl", "more than 2,000 columns"),
    "200,000 keys in a list": (lambda name: _columns(name, 200_000, "json"), "json", "more than 2,000 columns"),
    "200,000 columns of Parquet": (lambda name: writing(name, _wide(200_000)), "parquet", "more than 2,000 columns"),
    "a name of 2,000 characters": (lambda name: writing(name, "x" * 2_000 + ",b\n1,2\n"), "csv", "column"),
    "a line of 20 MB": (lambda name: _filled(name, _GOOD + ', "x": "', "xy", tail='"}'), "jsonl", "line 1: has more"),
    "a row of 20 MB in a list": (lambda name: _filled(name, f"[{_GOOD}", "[[],"), "json", "row 1"),
    "a cell of 20 MB": (lambda name: _filled(name, _HEAD + '"', "xy"), "csv", "line 2"),
    "a row over a million lines": (
        lambda name: _filled(name, _HEAD, '"\n",'),
        "csv",
        "its row has more",
    ),
    "names of 20 MB": (lambda name: _filled(name, "", "a,"), "csv", "line 1"),
    "20 MB of empty lines": (lambda name: _filled(name, "", "\n"), "jsonl", "empty lines"),
    "20 MB of empty lines in a table": (
        lambda name: _filled(name, _HEAD, "\n"),
        "csv",
        "empty lines",
    ),
    "20 MB of blanks": (lambda name: _filled(name, "", " "), "json", "not a JSON list"),
    "a list without an end": (lambda name: _filled(name, "[", "["), "json", "deeply"),
    "a text that is no UTF-8 behind 20 MB": (
        lambda name: (
            lambda folder: (
                _filled(name, _HEAD, f"{RUBRIC},{_TEXT_OF_A_ROW}\n")(folder),
                (folder / name).open("ab").write(b"\xff\xff\n"),
            )
        ),
        "csv",
        "UTF-8",
    ),
    "a page of 2 GB": (lambda name: writing(name, zstd_bomb()), "parquet", "MiB"),
    "a page of 2 GB that claims nothing": (lambda name: writing(name, zstd_bomb(100)), "parquet", "MiB"),
    "30,000 levels": (lambda name: writing(name, _deep(30_000)), "parquet", "columns"),
    "1,000 levels": (lambda name: writing(name, _deep(1_000)), "parquet", "deep"),
}


def large_cases() -> Iterator[BadInput]:
    """Each file as it is imported; a file of tests also as a sweep names it."""
    for what, (make, kind, says) in FILES.items():
        name = f"given.{kind}"
        yield BadInput(f"import: {what}", make(name), ("import", "tests", name), (name, says))
        if kind != "json" and says != "UTF-8":
            yield BadInput(f"tests: {what}", both(make(name), sweep_with(tests=name)), TESTS, ("tests: ", name))
    lines, bomb = _filled("given.jsonl", _GOOD + ', "x": "', "xy", tail='"}'), writing("given.parquet", zstd_bomb(100))
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
    source = _filled("given.jsonl.source.yaml", "source: ", "x")

    def beside(folder: Path) -> None:
        source(folder)
        writing("given.jsonl", _GOOD + "}\n" + _GOOD.replace("prime", "odd") + "}")(folder)
        sweep_with(tests="given.jsonl")(folder)

    yield BadInput("a source record of 20 MB", beside, TESTS, ("given.jsonl.source.yaml", "at most"))
