"""Bad files of tests: JSON lines, and Parquet that is damaged, of other types, or a bomb."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.bad_inputs.cases import NESTED, NO_FILES, RUBRIC, BadInput, both, no_utf8, placing, sweep_with, writing

GOOD = {"id": "t1", "dimension": RUBRIC, "prompt": "Is it prime?"}
PLAN = ("plan", "sweep.yaml")


def _line(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


LINES: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "no test for"),
    "another dimension": (_line(dimension="another"), "no test for"),
    "no JSON": ("prompt", "line 1"),
    "CSV": ("id,dimension,prompt\nt1,x,y\n", "line 1"),
    "CSV with a huge field": (f"id,prompt\nt1,{'x' * 1_000_000}\n", "line 1"),
    "half a line": (_line()[:-5], "line 1"),
    "two objects on a line": (_line() + _line(), "line 1"),
    "a comma after it": (_line() + ",", "line 1"),
    "a list": (json.dumps([GOOD]), "row 1"),
    "a number": ("7", "row 1"),
    "a text": ('"x"', "row 1"),
    "null": ("null", "row 1"),
    "true": ("true", "row 1"),
    "NaN": (_line(cluster=float("nan")), "line 1"),
    "Infinity": (_line(cluster=float("inf")), "line 1"),
    "an integer of 5,000 digits": (_line()[:-1] + ', "cluster": ' + "7" * 5_000 + "}", "line 1"),
    "a number beyond 64 bits": (_line(cluster=2**70), "cluster"),
    "a float that overflows": (_line()[:-1] + ', "cluster": 1e400}', "cluster"),
    "half a cluster": (_line(cluster=1.5), "cluster"),
    "a truth value for a number": (_line(cluster=True), "cluster"),
    "30,000 nested lists": ("[" * NESTED + "]" * NESTED, "line 1"),
    "30,000 nested objects": ('{"a":' * NESTED + "1" + "}" * NESTED, "line 1"),
    "a key twice": (_line()[:-1] + ', "prompt": "another"}', "prompt"),
    "a key nobody knows": (_line(promt="x"), "promt"),
    "a key that looks like one": (_line(рrompt="x"), "row 1"),
    "no prompt": (json.dumps({"dimension": RUBRIC}), "prompt"),
    "a number for a prompt": (_line(prompt=7), "prompt"),
    "a list for a prompt": (_line(prompt=["x"]), "prompt"),
    "null for a prompt": (_line(prompt=None), "prompt"),
    "an empty prompt": (_line(prompt=""), "prompt"),
    "a prompt of blanks": (_line(prompt=" \n"), "prompt"),
    "an id twice": (_line() + "\n" + _line(prompt="another"), "twice"),
    "a context nobody asked for": (_line(context="x"), "context"),
    "Latin-1": (_line(prompt="J").replace("J", "J\u00fcrgen").encode("latin-1"), "line 1"),
    "UTF-16": (_line().encode("utf-16"), "line 1"),
    "NUL": ("\0", "line 1"),
    "a control character in a text": ('{"prompt": "\x01"}', "line 1"),
    "gzip": (b"\x1f\x8b\x08" + bytes(64), "line 1"),
}


def parquet(**columns: Any) -> bytes:
    """A Parquet file with the columns of a good test, some replaced; None leaves one out."""
    given = {name: pa.array([value]) for name, value in GOOD.items()} | columns
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({name: column for name, column in given.items() if column is not None}), sink)
    return bytes(sink.getvalue())


def _bomb_of_repeats() -> bytes:
    """A million rows of one text of 100 kB: 100 GB in a few kilobytes."""
    rows, text = 1_000_000, pa.array(["x" * 100_000])
    repeated = pa.DictionaryArray.from_arrays(_zeros(rows), text)
    same = pa.DictionaryArray.from_arrays(_zeros(rows), pa.array([RUBRIC]))
    return parquet(id=None, dimension=same, prompt=repeated)


def _zeros(rows: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(bytes(4 * rows))])


def _bomb_of_zeros() -> bytes:
    """Texts of together 550 MB in two."""
    schema = pa.schema([("dimension", pa.string()), ("prompt", pa.string())])
    text = pa.table({"dimension": [RUBRIC], "prompt": ["x" * 50_000_000]}, schema=schema)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, compression="lz4", use_dictionary=False, write_statistics=False) as writer:
        for _ in range(11):
            writer.write_table(text)
    return bytes(sink.getvalue())


def _too_many_rows() -> bytes:
    rows = 1_000_001
    nulls = pa.nulls(rows, pa.string())
    return parquet(id=None, dimension=nulls, prompt=nulls)


def _deep(levels: int) -> pa.Array:
    kind = pa.string()
    for _ in range(levels):
        kind = pa.list_(kind)
    return pa.array([None], kind)


def parquet_files() -> Iterator[tuple[str, bytes, str]]:
    good = parquet()
    yield "empty", b"", "not a Parquet file"
    yield "JSON lines", _line().encode(), "not a Parquet file"
    yield "the end cut off", good[:-20], "not a Parquet file"
    yield "pages of zeros", good[:4] + bytes(120) + good[124:], "not a Parquet file"
    yield "a footer that claims 2 GB", good[:-8] + b"\xff\xff\xff\x7fPAR1", "not a Parquet file"
    yield "a footer of noise", good[:-60] + bytes(range(52)) + good[-8:], "not a Parquet file"
    yield "text that is no UTF-8", parquet(prompt=no_utf8()), "UTF"
    yield "an id that is no UTF-8", parquet(id=no_utf8()), "UTF"
    yield "numbers for texts", parquet(prompt=pa.array([7])), "prompt"
    yield "maps for texts", parquet(prompt=pa.array([[("a", "x")]], pa.map_(pa.string(), pa.string()))), "prompt"
    yield "texts for numbers", parquet(cluster=pa.array(["x"])), "cluster"
    yield "half a cluster", parquet(cluster=pa.array([1.5])), "cluster"
    yield "NaN", parquet(cluster=pa.array([float("nan")])), "cluster"
    yield "20 levels of lists", parquet(prompt=_deep(20)), "prompt"
    yield "150 levels of lists", parquet(prompt=_deep(150)), "nested"
    yield "null for a prompt", parquet(prompt=pa.array([None], pa.string())), "prompt"
    yield "no column of prompts", parquet(prompt=None), "prompt"
    yield "no column of dimensions", parquet(dimension=None), "dimension"
    yield "a column nobody knows", parquet(promt=pa.array(["x"])), "promt"
    yield "no rows", parquet(**{name: pa.array([], pa.string()) for name in GOOD}), "no test for"
    yield "an id twice", parquet(**{name: pa.array([value] * 2) for name, value in GOOD.items()}), "twice"
    yield "a million rows and one", _too_many_rows(), "rows"
    yield "a bomb of repeats", _bomb_of_repeats(), "512 MiB"
    yield "a bomb of zeros", _bomb_of_zeros(), "512 MiB"


def parquet_cases() -> Iterator[BadInput]:
    """Parquet files of tests, read by `hab plan`."""
    for name, content, says in parquet_files():
        yield BadInput(f"Parquet: {name}", writing("given.parquet", content), PLAN, ("given.parquet", says))


def file_cases() -> Iterator[BadInput]:
    """Other files of tests, read by `hab plan`."""
    for name, (text, says) in LINES.items():
        yield BadInput(f"lines: {name}", writing("given.jsonl", text), PLAN, ("given.jsonl", says))
    for name, make in NO_FILES.items():
        yield BadInput(f"tests: {name}", placing("given.jsonl", make), PLAN, ("tests: ", "given.jsonl"))


def place_cases() -> Iterator[BadInput]:
    """Places where nothing can be written, and answers whose dimension is no text."""
    rows = writing("rows.csv", f"dimension,prompt\n{RUBRIC},Is it prime?\n")
    for out in ("/proc/x.jsonl", "/proc/1/x.parquet"):
        yield BadInput(f"import to {out}", rows, ("import", "tests", "rows.csv", "--out", out), ("/proc", "disk"))
    new = ("rubric", "new", "admit_x", "--folder", "/proc/x")
    yield BadInput("a new rubric in /proc", lambda _: None, new, ("/proc/x", "disk"))
    run = ("run", "sweep.yaml", "--yes")
    yield BadInput("a store in /proc", sweep_with(store="/proc/x", executor="local"), run, ("/proc/x", "disk"))
    good = sweep_with(run="run", executor="local")
    for name in ("run", "store", "store/lease", "run/log"):
        said = (name, "a file is where a folder is needed")
        yield BadInput(f"a file as {name}", both(good, writing(name, "in the way")), run, said)
    loop = both(good, placing("store", NO_FILES["a loop of links"]))
    yield BadInput("a loop as store", loop, run, ("levels of symbolic links", "`store:`"))
    for dimension in ([RUBRIC], {RUBRIC: 1}):
        row = json.dumps({"dimension": dimension, "prompt": "x", "subject": "s", "text": "t"})
        given = both(writing("given.jsonl", row), sweep_with(responses="given.jsonl"))
        yield BadInput(f"responses: dimension {dimension}", given, PLAN, ("given.jsonl",))
