"""What all imports of tables share: where a table comes from, what it tells of its tests, and how a file is written."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from hab_ray.exchange.imports.frames import Frame, mapping, open_frame, text_in
from hab_ray.exchange.imports.hub import ANNOTATIONS, EVALUATIONS, DataSet, Downloaded, download
from hab_ray.exchange.imports.naming import snake
from hab_ray.inputs.files import BadInput
from hab_ray.rubric import Rubric
from hab_ray.storage.origins import source_record
from hab_ray.visible import hides_something, one_line

PUBLISHED = "published"
_LONGEST_NAME = 180
_TOLD_ROWS = 10_000
_TEXTS = frozenset({"dimension", "prompt", "context", "text", "canary"})
_DATA_SETS = {"published-evaluations": EVALUATIONS, "published-annotations": ANNOTATIONS}
NAMES_OF_TESTS = {
    "dimension": ("dimension", "category", "agency_dimension"),
    "prompt": ("prompt", "question", "query", "user_prompt", "paragraph"),
    "context": ("context", "misinformation", "false_sentence"),
    "canary": ("canary", "canary_guid", "canary_string"),
}
NAMES_OF_ANSWERS = {
    "subject": ("subject", "subject_model", "subject_name"),
    "text": ("text", "subject_response", "response", "answer"),
    "sample": ("sample",),
}


@dataclass(frozen=True)
class TableSource:
    """Where rows come from: a file, `published`, or one of the two published data sets, at a revision.

    `columns` are theirs by ours; `values` are what holds for all rows where no column says it, by our column.
    `on_rows` is told now and then how many rows were read.
    """

    name: str
    columns: Mapping[str, str] = field(default_factory=dict)
    licence: str = ""
    revision: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    on_rows: Callable[[int], None] = lambda rows: None


@dataclass(frozen=True)
class Imported:
    """The file that was written, and what there is to say of it."""

    path: Path
    notes: tuple[str, ...]


@dataclass(frozen=True)
class NamedTest:
    """A test as a row names it; a row of a rating may name its id instead of its texts."""

    dimension: str
    prompt: str
    context: str


@dataclass
class Seen:
    """What was read of a table so far: how many rows, and the GUIDs in their own column of canaries."""

    rows: int = 0
    canaries: set[str] = field(default_factory=set)

    def take_in(self, row: Mapping[str, Any]) -> None:
        """Count a row."""
        self.rows += 1
        if row.get("canary"):
            self.canaries.update(canaries_in(f"canary {row['canary']}"))


@dataclass(frozen=True)
class OpenSource:
    """A table that was read, where it is from, and what is expected of it where that is known."""

    frame: Frame
    got: Downloaded
    expected: DataSet | None

    def columns(self, known: Mapping[str, Sequence[str]], source: TableSource, needed: Sequence[str]) -> dict[str, str]:
        """Theirs for each of our columns, as far as there are some; `known` are the words by which they are found.

        Raises:
            ConfigError: one that is given is none of ours or is not there, several could be meant, or a needed one is
                not known and has no value for all rows; the remedy lists those that are there.
        """
        if unknown := [name for name in source.values if name not in known]:
            raise ConfigError(f"--value {unknown[0]}: there is no such column of ours; they are {', '.join(known)}")
        with bad_input(self.got.path):
            found = mapping(self.frame.names, known, source.columns)
            for ours in needed:
                if ours not in found and ours not in source.values:
                    there = ", ".join(name[:40] for name in self.frame.names)
                    remedy = f"say which one is with --column {ours}=NAME, or --value {ours}=TEXT for all rows"
                    raise BadInput(f"no column is known as {ours}", f"{remedy}; there are {there}")
        return found

    def rows(self, columns: Mapping[str, str], source: TableSource, seen: Seen) -> Iterator[tuple[str, dict[str, Any]]]:
        """The place of each row, for messages, and what it holds under our names; the source's `values` where it holds
        nothing.

        `seen` takes in each.

        Raises:
            ConfigError: the table cannot be read, or a test or an answer is no text.
        """
        with bad_input(self.got.path):
            for number, row in self.frame.cells(columns):
                for name in _TEXTS & row.keys():
                    text_in(row[name], number, columns[name])
                seen.take_in(row)
                if number % _TOLD_ROWS == 0:
                    source.on_rows(number)
                found = {name: value for name, value in row.items() if value is not None}
                yield f"{self.got.path}, row {number}", {**source.values, **found}

    def about(
        self, source: TableSource, columns: Mapping[str, str], seen: Seen, counts: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What is kept beside the file."""
        return {
            "source": one_line(self.got.source),
            "sha256": sha256(self.frame.data).hexdigest(),
            "licence": one_line(source.licence or self.got.licence or "unknown"),
            "canaries": sorted({*self.got.canaries, *seen.canaries}),
            "rows": seen.rows,
            "columns": dict(columns),
            "values": {name: one_line(value) for name, value in source.values.items() if name != "rater"},
            **counts,
        }

    def unexpected(self, found: Mapping[str, int]) -> Iterator[str]:
        """What is otherwise than the data set's card says: counts by name (`rows`, `tests`, `rated`), and columns."""
        if self.expected is None:
            return
        for what, count in found.items():
            wanted = getattr(self.expected, what)
            if count != wanted:
                noun = "answers that people rated" if what == "rated" else what
                yield f"NOTE: the card speaks of {wanted:,} {noun}, and there are {count:,}"
        if missing := [name for name in self.expected.columns if name not in self.frame.names]:
            yield f"NOTE: the columns {', '.join(missing)} are not there"


def open_source(source: TableSource, published: DataSet) -> OpenSource:
    """The table of a source, where `published` stands for the given data set.

    Raises:
        ConfigError: it cannot be had or read.
    """
    known = {PUBLISHED: published, **_DATA_SETS}.get(source.name)
    got = download(known, source.revision) if known else Downloaded(Path(source.name), source.name, "", ())
    with bad_input(got.path):
        return OpenSource(open_frame(got.path), got, known)


@contextmanager
def bad_input(path: Path) -> Iterator[None]:
    """Turns what is wrong with a table into a message that names its file."""
    try:
        yield
    except BadInput as error:
        raise ConfigError(one_line(f"{path}: {error}")) from None


def named_test(row: Mapping[str, Any], rubrics: Mapping[str, Rubric], where: str) -> NamedTest:
    """The test that a row names by its texts.

    Raises:
        ConfigError: it has no dimension or prompt, or a second text where the rubric has none, or the reverse.
    """
    dimension, prompt = snake(row.get("dimension") or ""), clean_text(row.get("prompt") or "")
    context, rubric = clean_text(row.get("context") or ""), rubrics.get(dimension)
    if not dimension or not prompt.strip():
        raise ConfigError(f"{where}: has no dimension or no prompt; correct the row, or leave it out")
    if rubric is not None and (rubric.context is not None) != bool(context.strip()):
        problem = "has a second text, which the rubric does not" if context.strip() else "lacks its second text"
        raise ConfigError(
            f"{where}: {dimension} {problem}; name the right column with --column context=NAME, or leave the row out"
        )
    return NamedTest(dimension, prompt, context)


def sample_in(value: object, where: str) -> int:
    """The number of a sample, 0 where a row has none.

    Raises:
        ConfigError: it is none.
    """
    if value is None or value == "":
        return 0
    whole = isinstance(value, int | float | str) and re.fullmatch(r"\s*([0-9]{1,3})(?:\.0+)?\s*", str(value))
    if not whole or isinstance(value, bool):
        raise ConfigError(one_line(f"{where}: sample: {str(value)[:40]!r} is no whole number from 0 to 999"))
    return int(whole[1])


def name_in(value: object, what: str, where: str) -> str:
    """The name of a subject or rater, as texts or numbers have it.

    Raises:
        ConfigError: there is none, or it is none that a sweep can use.
    """
    name = clean_text(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not name.strip():
        raise ConfigError(f"{where}: has no {what}; correct the row, or leave it out")
    if hides_something(name) or len(name) > _LONGEST_NAME:
        raise ConfigError(
            one_line(
                f"{where}: the {what} {one_line(name, 60)!r} holds a character that cannot be seen, or has more than "
                f"{_LONGEST_NAME} characters; write a plain name"
            )
        )
    return name


def record_beside(out: Path) -> Path:
    """Where it is kept what a new file comes from.

    Raises:
        ConfigError: the file has another format, or is there already. A record alone is what a cut-off import has left.
    """
    record = out.with_name(source_record(out.name))
    if out.suffix not in (".parquet", ".jsonl"):
        raise ConfigError(f"--out: {out}: name a .parquet or .jsonl file")
    if out.exists():
        raise ConfigError(f"--out: {out} is there already; name another file")
    return record


def write_table(columns: Mapping[str, Sequence[str | int | None]], out: Path, about: Mapping[str, Any]) -> None:
    """A file of rows as a sweep reads it, and before it its record: rows are never there without it."""
    record = record_beside(out)
    told = yaml.safe_dump(dict(about), sort_keys=False, allow_unicode=True).encode()
    if out.suffix == ".parquet":
        kinds = {name: pa.int64() if name in ("score", "sample") else pa.string() for name in columns}
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({name: pa.array(cells, kinds[name]) for name, cells in columns.items()}), sink)
        data = sink.getvalue().to_pybytes()
    else:
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        data = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()
    _put(record, told)
    _put(out, data)


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.write_bytes(data)
        os.replace(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def by_dimension(dimensions: Iterable[str]) -> dict[str, int]:
    """How often each dimension comes, by name."""
    return dict(sorted(Counter(dimensions).items()))


def notes_of(about: Mapping[str, Any], noun: str, rubrics: Mapping[str, Rubric]) -> Iterator[str]:
    """The columns that were read, how many rows each dimension has, canaries. `noun` names rows and their counts."""
    yield "columns: " + ", ".join(f"{ours} from {one_line(theirs)}" for ours, theirs in about["columns"].items())
    for dimension, count in about[noun].items():
        unknown = "" if dimension in rubrics else "; no rubric has this id: a sweep needs one under `rubrics:`"
        yield one_line(f"  {dimension}: {count:,} {noun}{unknown}")
    if about["canaries"]:
        yield f"canary GUID {', '.join(about['canaries'])}: do not train on these {noun}"
