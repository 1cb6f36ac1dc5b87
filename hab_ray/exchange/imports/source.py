"""Shared by all imports of tables: opening a source, reading its rows and tests, and writing the new file."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import file_digest
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from hab_ray.calls import clean_text
from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.checkout import canaries_in
from hab_ray.exchange.imports.columns import NAMES, mapping, snake
from hab_ray.exchange.imports.hub import ANNOTATIONS, EVALUATIONS, DataSet, Downloaded, download
from hab_ray.exchange.imports.scored import is_empty
from hab_ray.given.origins import source_record
from hab_ray.given.ratings import Scale
from hab_ray.given.rows import REPORTED_ROWS, ROWS_READ
from hab_ray.inputs.files import BadInput, refusing
from hab_ray.inputs.tables import Frame, open_frame, text_in
from hab_ray.rows import Rater
from hab_ray.rubric import Rubric, load_rubrics
from hab_ray.visible import hides_something, one_line

PUBLISHED = "published"
_MAX_NAME = 180
_BATCH_ROWS = 10_000
_TEXTS = frozenset({"dimension", "prompt", "context", "text", "canary", "finish"})
OF_EXPORTED_VERDICTS = ("kind", "state", "reason")
_OF_EXPORTS = frozenset({"call", *OF_EXPORTED_VERDICTS})
_EXPORTED_EVALUATIONS = frozenset({"evaluator_model", "test_id", "replicate"})  # of a run's own judges only
_DATA_SETS = {"published-evaluations": EVALUATIONS, "published-annotations": ANNOTATIONS}
OF_TESTS = {name: NAMES[name] for name in ("dimension", "prompt", "context", "canary", "call")}
OF_ANSWERS = OF_TESTS | {name: NAMES[name] for name in ("subject", "text", "sample")}
Columns = Mapping[str, Sequence[str | int | float | None]]


@dataclass(frozen=True)
class TableSource:
    """Source of rows: a file and `more` like it, `published`, or the name of a published data set, at a revision.

    `columns` maps our column names to the file's; `values` fills our columns in all rows where the file has no value
    or, except for answers, a blank one. Scores are on `scale`.
    """

    name: str
    columns: Mapping[str, str] = field(default_factory=dict)
    licence: str = ""
    revision: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    more: tuple[str, ...] = ()
    scale: Scale | None = None


@dataclass(frozen=True)
class NamedTest:
    """A test identified by its texts."""

    dimension: str
    prompt: str
    context: str


@dataclass
class OpenSource:
    """Open tables with the same columns, their origin, their expected content if published, and the new file.

    `rows_read` and `canaries` (the GUIDs of the canary column) are as of the rows read so far.
    """

    source: TableSource
    frames: tuple[Frame, ...]
    got: Downloaded
    expected: DataSet | None
    rubrics: Mapping[str, Rubric]
    out: Path
    rows_read: int = 0
    canaries: set[str] = field(default_factory=set)
    _tests: dict[NamedTest, NamedTest] = field(default_factory=dict)

    def refuse_own(self, columns: Set[str], cause: str, remedy: str) -> None:
        """Refuse files that a sweep reads as they are: those with these columns. `remedy` has FILE for the file's name.

        Raises:
            ConfigError: there is such a file.
        """
        for frame in self.frames:
            if columns <= {*frame.names}:
                named = remedy.replace("FILE", str(frame.path))
                raise ConfigError(one_line(f"{frame.path}: {cause}; name it in a sweep file: {named}"))

    def columns(self, known: Mapping[str, Sequence[str]], needed: Sequence[str]) -> dict[str, str]:
        """Map our column names to the files', by the `known` names; omit columns without a match.

        Only the second text may be in some of the files alone, as the published code writes a file per dimension. Raise
        ConfigError if a given name is not a column of ours or of the file, several columns match, a `needed` one is
        missing and has no value for all rows, or two files differ otherwise.
        """
        if unknown := [name for name in self.source.values if name not in known]:
            raise ConfigError(f"--value {unknown[0]}: there is no such column of ours; they are {', '.join(known)}")
        found = [self._columns(frame, known, needed) for frame in self.frames]
        context = next(({"context": own["context"]} for own in found if "context" in own), {})
        columns = found[0] | context
        for frame, own in zip(self.frames, found, strict=True):
            if context | own != columns:
                raise ConfigError(
                    f"{frame.path}: its columns are not those of {self.frames[0].path}; import it on its own"
                )
        return columns

    def _columns(self, frame: Frame, known: Mapping[str, Sequence[str]], needed: Sequence[str]) -> dict[str, str]:
        with refusing(frame.path):
            found = mapping(frame.names, known, self.source.columns)
            if "test_id" not in frame.names:  # in a table that is no export of ours these words may mean anything
                found = {
                    name: known for name, known in found.items() if name not in _OF_EXPORTS - {*self.source.columns}
                }
            for ours in needed:
                if ours not in found and ours not in self._values(frame):
                    present = ", ".join(name[:40] for name in frame.names)
                    remedy = f"name it with --column {ours}=NAME, or give --value {ours}=TEXT for all rows"
                    raise BadInput(f"no column is known as {ours}", f"{remedy}; there are {present}")
        return found

    def _values(self, frame: Frame) -> Mapping[str, str]:
        """Return the values for all rows: given ones, the dimension in the file's name, an export's kind of rater."""
        stem = f"_{snake(frame.path.stem)}_"
        named = [dimension for dimension in self.rubrics if f"_{dimension}_" in stem]
        kind = {"kind": Rater.MODEL} if {*frame.names} >= _EXPORTED_EVALUATIONS else {}
        return {**({"dimension": named[0]} if len(named) == 1 else {}), **kind, **self.source.values}

    def rows(self, columns: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each row's place, for messages, and its cells by our column names, completed by `values`.

        Raises:
            ConfigError: a table cannot be read, or a test or an answer is not a text.
        """
        for frame in self.frames:
            values = self._values(frame)
            with refusing(frame.path):
                for number, row in frame.cells(columns):
                    for name in _TEXTS & row.keys():
                        text_in(row[name], number, columns[name])
                    self.rows_read += 1
                    if row.get("canary"):
                        self.canaries.update(canaries_in(f"canary {row['canary']}"))
                    if self.rows_read % REPORTED_ROWS == 0:
                        ROWS_READ.get()(self.rows_read)
                    lacking = {name: value for name, value in values.items() if _lacks(row, name)}
                    yield f"{frame.path}, row {number}", {**row, **lacking}

    def test(self, row: Mapping[str, Any], where: str) -> NamedTest:
        """Return the test that a row identifies by its texts.

        Raises:
            ConfigError: the dimension or prompt is missing, or only one of row and rubric has a second text.
        """
        dimension, prompt = snake(row.get("dimension") or ""), clean_text(row.get("prompt") or "")
        context, rubric = clean_text(row.get("context") or ""), self.rubrics.get(dimension)
        if not dimension or not prompt.strip():
            raise ConfigError(f"{where}: has no dimension or no prompt; correct the row, or leave it out")
        if rubric is not None and (rubric.context is not None) != bool(context.strip()):
            problem = "has a second text, which the rubric does not" if context.strip() else "lacks its second text"
            remedy = "name the right column with --column context=NAME, or leave the row out"
            raise ConfigError(f"{where}: {dimension} {problem}; {remedy}")
        test = NamedTest(dimension, prompt, context)
        return self._tests.setdefault(test, test)

    def about(self, columns: Mapping[str, str], counts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record that is written beside the file."""
        digests = {str(frame.path): _digest(frame.path) for frame in self.frames}
        return {
            "source": one_line(self.got.source),
            "sha256": digests if len(digests) > 1 else digests.popitem()[1],
            "licence": one_line(self.source.licence or self.got.licence or "unknown"),
            "canaries": sorted({*self.got.canaries, *self.canaries}),
            "rows": self.rows_read,
            "columns": {name: one_line(theirs) for name, theirs in columns.items()},
            "values": {name: one_line(value) for name, value in self.source.values.items() if name != "rater"},
            **counts,
        }

    def write(self, columns: Columns, about: Mapping[str, Any]) -> None:
        """Write the record, and then the rows, so that rows never exist without their record."""
        with new_file(self.out.with_name(source_record(self.out.name))) as file:
            file.write(yaml.safe_dump(dict(about), sort_keys=False, allow_unicode=True).encode())
        rows = zip(*columns.values(), strict=True)
        with new_file(self.out) as file:
            if self.out.suffix == ".parquet":
                _write_parquet(columns, rows, file)
            else:
                for row in rows:
                    file.write(f"{json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False)}\n".encode())

    def notes(self, about: Mapping[str, Any], noun: str, found: Mapping[str, int]) -> Iterator[str]:
        """Yield the source, columns, rows per dimension (`about[noun]`) and canaries; then differences from the card.

        `found` are the counts to compare with the card's (`rows`, `tests`, `rated`).
        """
        yield f"source: {about['source']}"
        yield "columns: " + ", ".join(f"{ours} from {theirs}" for ours, theirs in about["columns"].items())
        for dimension, count in about[noun].items():
            unknown = "" if dimension in self.rubrics else "; no rubric has this id: a sweep needs one under `rubrics:`"
            yield f"  {one_line(dimension)}: {count:,} {noun}{unknown}"
        if about["canaries"]:
            yield f"canary GUID {', '.join(about['canaries'])}: do not train on these {noun}"
        if self.expected is None:
            return
        for kind, count in found.items():
            expected = getattr(self.expected, kind)
            if count != expected:
                name = "answers that people rated" if kind == "rated" else kind
                yield f"NOTE: the card states {expected:,} {name}, but there are {count:,}"
        if missing := [name for name in self.expected.columns if name not in self.frames[0].names]:
            yield f"NOTE: the columns {', '.join(missing)} are missing"


def _lacks(row: Mapping[str, Any], name: str) -> bool:
    """Return whether a row has no value in a column of ours; a blank answer is an empty one."""
    return row.get(name) is None or (name != "text" and is_empty(row[name]))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def open_source(source: TableSource, published: DataSet, out: Path, rubrics: Path | None) -> OpenSource:
    """Open the tables of a source for import into `out`; the source name `published` means the data set `published`.

    A record without its file is left over from an interrupted import and is overwritten. Raise ConfigError if a table
    cannot be downloaded or read, or `out` has another format or exists.
    """
    if out.suffix not in (".parquet", ".jsonl"):
        raise ConfigError(f"--out: {out}: name a .parquet or .jsonl file")
    if out.exists():
        raise ConfigError(f"--out: {out} exists already; name another file")
    by_id = load_rubrics(rubrics)
    data_set = {PUBLISHED: published, **_DATA_SETS}.get(source.name)
    if data_set and source.more:
        raise ConfigError(f"{source.more[0]}: is named beside {source.name}; import it with a separate command")
    names = (source.name, *source.more)
    got = download(data_set, source.revision) if data_set else Downloaded(tuple(map(Path, names)), ", ".join(names))
    frames = []
    for path in got.paths:
        with refusing(path):
            frames.append(open_frame(path, source.columns))
    return OpenSource(source, tuple(frames), got, data_set, by_id, out)


def sample_in(value: object, where: str) -> int:
    """Return the number of a sample; 0 for an empty cell.

    Raises:
        ConfigError: the cell is not a whole number from 0 to 999.
    """
    if value is None or value == "":
        return 0
    whole = isinstance(value, int | float | str) and re.fullmatch(r"\s*([0-9]{1,3})(?:\.0+)?\s*", str(value))
    if not whole or isinstance(value, bool):
        raise ConfigError(one_line(f"{where}: sample: {str(value)[:40]!r} is not a whole number from 0 to 999"))
    return int(whole[1])


def name_in(value: object, column: str, where: str) -> str:
    """Return the name of a subject, rater, dimension or test from a cell of text or of a whole number.

    Raises:
        ConfigError: there is no name, or a sweep cannot use it.
    """
    name = clean_text(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not name.strip():
        raise ConfigError(f"{where}: has no {column}; correct the row, or leave it out")
    if hides_something(name) or len(name) > _MAX_NAME:
        raise ConfigError(
            one_line(
                f"{where}: the {column} {one_line(name, 60)!r} holds a character that cannot be seen, or has more than "
                f"{_MAX_NAME} characters; write a plain name"
            )
        )
    return name


def _write_parquet(columns: Columns, rows: Iterator[tuple[Any, ...]], file: BinaryIO) -> None:
    kinds = {"sample": pa.int64(), "score": pa.float64() if "scale" in columns else pa.int64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    with pq.ParquetWriter(file, schema) as writer:
        for batch in iter(lambda: list(islice(rows, _BATCH_ROWS)), []):
            writer.write_table(pa.table(list(map(list, zip(*batch, strict=True))), schema=schema))


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Create a file atomically: it appears only once completely written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with unfinished.open("wb") as file:
            yield file
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def by_dimension(dimensions: Iterable[str]) -> dict[str, int]:
    """Count the dimensions, sorted by name."""
    return dict(sorted(Counter(dimensions).items()))
