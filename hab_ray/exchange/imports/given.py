"""`hab import tests`: the distinct queries of published rows, as a file of tests that `tests:` reads."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from hab_ray.calls import clean_text
from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.checkout import canaries_in
from hab_ray.exchange.imports.frames import Frame, mapping, open_frame
from hab_ray.exchange.imports.hub import EVALUATIONS, DataSet, Downloaded, download
from hab_ray.exchange.imports.naming import snake
from hab_ray.inputs.files import BadInput
from hab_ray.rubric import Rubric, load_rubrics
from hab_ray.storage.origins import source_record
from hab_ray.visible import one_line

PUBLISHED = "published"
_KNOWN = {
    "dimension": ("dimension", "category", "agency_dimension"),
    "prompt": ("prompt", "question", "query", "user_prompt", "paragraph"),
    "context": ("context", "misinformation", "false_sentence"),
    "canary": ("canary", "canary_guid", "canary_string"),
}


@dataclass(frozen=True)
class TestSource:
    """Where tests come from: a file, or `published` at a revision. `columns` are theirs by ours."""

    __test__ = False

    name: str
    columns: Mapping[str, str] = field(default_factory=dict)
    licence: str = ""
    revision: str = ""


@dataclass(frozen=True)
class ImportedTests:
    """What was written, and what there is to say of it."""

    path: Path
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Test:
    """A distinct query."""

    dimension: str
    prompt: str
    context: str


def import_tests(source: TestSource, out: Path, rubrics: Path | None = None) -> ImportedTests:
    """Write the distinct queries of a table in the order in which they first come, and beside them where they are from.

    Raises:
        ConfigError: the table cannot be read or lacks a column, a row is no test of its dimension, or `out` is there.
    """
    record = out.with_name(source_record(out.name))
    if out.suffix not in (".parquet", ".jsonl"):
        raise ConfigError(f"--out: {out}: name a .parquet or .jsonl file")
    if taken := [path for path in (out, record) if path.exists()]:
        raise ConfigError(f"--out: {taken[0]} is there already; name another file")
    is_published = source.name == PUBLISHED
    got = download(EVALUATIONS, source.revision) if is_published else Downloaded(Path(source.name), source.name, "", ())
    try:
        frame = open_frame(got.path)
        columns = _columns(frame, source)
        rows = list(frame.rows(columns))
    except BadInput as error:
        raise ConfigError(one_line(f"{got.path}: {error}")) from None
    known = load_rubrics(rubrics)
    tests = list(dict.fromkeys(_tests(rows, known, got.path)))
    canaries = {*got.canaries, *(guid for _, row in rows for guid in _canaries(row))}
    about = {
        "source": one_line(got.source),
        "sha256": sha256(frame.data).hexdigest(),
        "licence": one_line(source.licence or got.licence or "unknown"),
        "canaries": sorted(canaries),
        "columns": columns,
        "rows": len(rows),
        "tests": dict(sorted(Counter(test.dimension for test in tests).items())),
    }
    _write(tests, out)
    _put(record, yaml.safe_dump(about, sort_keys=False, allow_unicode=True).encode())
    return ImportedTests(out, tuple(_notes(frame, about, EVALUATIONS if is_published else None, known)))


def _columns(frame: Frame, source: TestSource) -> dict[str, str]:
    columns = mapping(frame.names, _KNOWN, source.columns)
    for needed in ("dimension", "prompt"):
        if needed not in columns:
            there = ", ".join(name[:40] for name in frame.names)
            raise BadInput(
                f"no column is known as {needed}", f"say which one is with --column {needed}=NAME; there are {there}"
            )
    return columns


def _tests(rows: list[tuple[int, dict[str, str | None]]], rubrics: Mapping[str, Rubric], path: Path) -> Iterator[_Test]:
    for number, row in rows:
        dimension, prompt = snake(row["dimension"] or ""), clean_text(row["prompt"] or "")
        context, rubric = clean_text(row.get("context") or ""), rubrics.get(dimension)
        if not dimension or not prompt.strip():
            raise ConfigError(f"{path}, row {number}: has no dimension or no prompt; correct the row, or leave it out")
        if rubric is not None and (rubric.context is not None) != bool(context.strip()):
            problem = "has a second text, which the rubric does not" if context.strip() else "lacks its second text"
            raise ConfigError(
                f"{path}, row {number}: {dimension} {problem}; name the right column with --column context=NAME, or "
                "leave the row out"
            )
        yield _Test(dimension, prompt, context)


def _canaries(row: Mapping[str, str | None]) -> Iterator[str]:
    if row.get("canary"):
        yield from canaries_in(f"canary {row['canary']}")


def _write(tests: list[_Test], out: Path) -> None:
    """The file of tests, as `tests:` reads it: complete or not there."""
    columns = {name: [getattr(test, name) for test in tests] for name in ("dimension", "prompt", "context")}
    if out.suffix == ".parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()}), sink)
        _put(out, sink.getvalue().to_pybytes())
        return
    lines = (
        json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False)
        for row in zip(*columns.values(), strict=True)
    )
    _put(out, "".join(f"{line}\n" for line in lines).encode())


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_bytes(data)
    os.replace(unfinished, path)


def _notes(
    frame: Frame, about: Mapping[str, Any], expected: DataSet | None, rubrics: Mapping[str, Rubric]
) -> Iterator[str]:
    """What was read, and what is otherwise than expected."""
    counts: Mapping[str, int] = about["tests"]
    yield f"{about['rows']:,} rows, {sum(counts.values()):,} distinct tests; licence: {about['licence']}"
    yield "columns: " + ", ".join(f"{ours} from {one_line(theirs)}" for ours, theirs in about["columns"].items())
    for dimension, count in counts.items():
        unknown = "" if dimension in rubrics else "; no rubric has this id: a sweep needs one under `rubrics:`"
        yield one_line(f"  {dimension}: {count:,} tests{unknown}")
    if about["canaries"]:
        yield f"canary GUID {', '.join(about['canaries'])}: do not train on these tests"
    if expected is not None:
        found = {"rows": about["rows"], "tests": sum(counts.values())}
        for what, wanted in (("rows", expected.rows), ("tests", expected.tests)):
            if found[what] != wanted:
                yield f"NOTE: the card speaks of {wanted:,} {what}, and there are {found[what]:,}"
        if missing := [name for name in expected.columns if name not in frame.names]:
            yield f"NOTE: the columns {', '.join(missing)} are not there"
