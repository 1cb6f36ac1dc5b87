"""The views in a run folder as Arrow tables.

Views are replaced atomically, so a run can be read while it is being written: a table is as of the moment at which its
file was opened.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hab_ray.catalog.models import folder_name
from hab_ray.errors import ConfigError
from hab_ray.rows import ENUMS, RaterView, Row, State, Verdict, schema_of, with_all_columns
from hab_ray.storage.folder import Folder
from hab_ray.storage.replies.records import read_table, whole_file
from hab_ray.storage.run import RATERS
from hab_ray.visible import one_line

_VERDICTS = "verdicts"
_NOT_KEPT = frozenset(
    {"text", "assessment", "prompt", "context", "system", "rubric_sha256", "prompts_sha256", "settings_sha256"}
)


class Kept(NamedTuple):
    """The short columns of a file, and the sha256 (hex) of its content when they were read."""

    table: pa.Table
    sha256: str


KeptTables = dict[str, Kept | None]


def refuse_text(names: Sequence[str] | None, what: str) -> None:
    """Raise ConfigError for a single text, which Python takes for a list of its characters."""
    if isinstance(names, str):
        raise ConfigError(f"{what} is the text {names!r}, and must be a list: [{names!r}]")


@dataclass(frozen=True)
class Views:
    """The views of the run in a folder, read as tables; `where` names the run in messages.

    With `kept`, the short columns of a file are read once, and are then as of that moment.
    """

    folder: Folder
    where: str
    kept: KeptTables | None = None

    def read(self, row_type: type[Row], names: Sequence[str], columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of several files of one row type as one table; missing files are skipped.

        The table has the row type's columns, or those in `columns`.

        Raises:
            ConfigError: the row type has no such column, or `columns` is a single text.
            DamagedFile: a file cannot be read, or lacks a column.
        """
        schema = schema_of(row_type)
        refuse_text(columns, f"{self.where}: columns")
        unknown = sorted(set(columns or ()) - set(schema.names))
        if unknown:
            raise ConfigError(
                f"{self.where}: there is no column {', '.join(unknown)}; there are {', '.join(schema.names)}"
            )
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        tables = [table for name in names if (table := self._read(name, row_type, schema)) is not None]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def _read(self, name: str, row_type: type[Row], schema: pa.Schema) -> pa.Table | None:
        if self.kept is None or not _NOT_KEPT.isdisjoint(schema.names):
            found = self._decoded(name, row_type, schema)
            return found and found[0]
        if name not in self.kept:
            short = pa.schema([field for field in schema_of(row_type) if field.name not in _NOT_KEPT])
            found = self._decoded(name, row_type, short)
            self.kept[name] = found and Kept(found[0], sha256(found[1]).hexdigest())
        kept = self.kept[name]
        return kept and kept.table.select(schema.names)

    def _decoded(self, name: str, row_type: type[Row], schema: pa.Schema) -> tuple[pa.Table, bytes] | None:
        """Return these columns of a file and its content; None if it is missing."""
        try:
            data = self.folder.get(name)
        except FileNotFoundError:
            return None
        table = read_table(f"{self.where}/{name}", data, schema.names)
        with whole_file(f"{self.where}/{name}", "has other columns than this version writes"):
            complete = with_all_columns(row_type, table, schema.names)
            _check_kinds(complete, schema)
            return complete.cast(schema), data

    def raters_beside(self, panel: Sequence[str]) -> list[str]:
        """Return the names of raters outside the panel with verdicts in the folder, sorted."""
        listed = self.read(RaterView, [RATERS], ["file", "rater"])
        names = dict(zip(listed.column("file").to_pylist(), listed.column("rater").to_pylist(), strict=True))
        first: dict[str, str] = {}
        for file in self._files_beside(panel):
            first.setdefault(file.split("/")[1], file)
        found = {names[file] for file in first.values() if file in names}
        for file in first.values():
            if file not in names:
                found.update(pc.unique(self.read(Verdict, [file], ["judge"]).column("judge")).to_pylist())
        return sorted(found)

    def verdicts_beside(self, panel: Sequence[str]) -> Mapping[tuple[str, str], Sequence[str]]:
        """Return the verdict files of raters outside the panel, by the subject's folder and the dimension."""
        files: dict[tuple[str, str], list[str]] = defaultdict(list)
        for file in self._files_beside(panel):
            _, _, subject, name = file.split("/")
            files[subject, name.removesuffix(".parquet")].append(file)
        return files

    def verdict_files(self) -> list[str]:
        """Return the verdict files in the folder, `verdicts/<rater>/<subject>/<dimension>.parquet`, sorted."""
        return [file for file in self.folder.list(_VERDICTS) if file.count("/") == 3 and file.endswith(".parquet")]

    def _files_beside(self, panel: Sequence[str]) -> Iterator[str]:
        known = {folder_name(judge) for judge in panel}
        return (file for file in self.verdict_files() if file.split("/")[1] not in known)


def rows_in(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Iterate over the rows of a table as tuples in the order of its columns."""
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _check_kinds(table: pa.Table, schema: pa.Schema) -> None:
    """Refuse what Arrow would cast silently: numbers for strings, and unknown states or kinds (ValueError)."""
    for field in schema:
        kind = table.schema.field(field.name).type
        if pa.types.is_string(field.type) and not (_is_text(kind) or pa.types.is_null(kind)):
            raise ValueError(f"the column {field.name} is of type {kind}")
    for name in ENUMS.keys() & set(schema.names):
        unknown = set(pc.unique(table.column(name)).to_pylist()) - set(ENUMS[name])
        if unknown:
            raise ValueError(f"the column {name} has {one_line(str(min(map(str, unknown))), 40)!r}")
    if {"state", "score"} <= set(schema.names):
        scoreless = pc.filter(table.column("state"), pc.is_null(table.column("score")))
        if pc.any(pc.equal(scoreless, State.OK.value)).as_py():
            raise ValueError("the column score is empty where the column state is ok")


def _is_text(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    return any(is_text(kind) for is_text in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))
