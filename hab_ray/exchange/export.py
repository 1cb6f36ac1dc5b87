"""`hab export`: a run's rows in a new folder, in the format of whoever reads them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from hab_ray.errors import ConfigError
from hab_ray.exchange.card import CARD, Contents, card
from hab_ray.exchange.published import Evaluations
from hab_ray.exchange.sharing import Sharing
from hab_ray.inputs.csv_text import FORMULA
from hab_ray.results import Run
from hab_ray.rows import IssueShift, Row, ScoreMap, Shift, to_table
from hab_ray.storage.run import ISSUE_SHIFTS, SCORE_MAPS, SHIFTS, RunFolder

LIST_SEPARATOR = " "
_UNFINISHED = ".hab-export-"
_DAY_S = 86_400
_FORMULA = rf"\A({FORMULA})"


def export(run: Run, form: str, folder: Path, licence: str, sharing: Sharing) -> list[Path]:
    """Write a run's rows and a card into a new folder; the files, by name. `licence` is what the card states.

    The folder appears when all is written, so that nobody takes half an export for a whole one.

    Raises:
        ConfigError: the folder holds something already, the format is unknown or needs a package that is missing.
        DamagedFile: a view of the run cannot be read.
    """
    if form not in FORMATS:
        raise ConfigError(f"--format: {form!r} is not known; there are {', '.join(FORMATS)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"--out: {folder} holds something already; name a folder that is not there yet")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=_UNFINISHED) as unfinished:
        inside = Path(unfinished) / folder.name
        inside.mkdir()
        contents = FORMATS[form](run, sharing, inside)
        (inside / CARD).write_text(card(run, contents, licence, sharing), encoding="utf-8")
        os.replace(inside, folder)
    return sorted(path for path in folder.rglob("*") if path.is_file())


def remove_leftovers(folder: Path, now: float) -> list[Path]:
    """Remove what exports beside `folder` left that were killed more than a day ago; what was removed.

    `now` is in seconds since 1970.
    """
    found = [path for path in folder.parent.glob(f"{_UNFINISHED}*") if path.is_dir() and not path.is_symlink()]
    old = [path for path in found if now - path.stat().st_mtime > _DAY_S]
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return old


def _data_set(run: Run, sharing: Sharing, folder: Path) -> Contents:
    rows = _write(folder / "evaluations.parquet", Evaluations(run, sharing).tables(), _Parquet)
    counts = {"evaluations.parquet": rows}
    for name, tables in _tidy(run, sharing):
        counts[f"{name}.parquet"] = _write(folder / f"{name}.parquet", tables, _Parquet)
    return Contents("evaluations.parquet", counts)


def _csv(run: Run, sharing: Sharing, folder: Path) -> Contents:
    return _csv_files(run, sharing, folder, _Csv)


def _raw_csv(run: Run, sharing: Sharing, folder: Path) -> Contents:
    return _csv_files(run, sharing, folder, _RawCsv)


def _csv_files(run: Run, sharing: Sharing, folder: Path, kind: type[_RawCsv]) -> Contents:
    counts = {f"{name}.csv": _write(folder / f"{name}.csv", tables, kind) for name, tables in _tidy(run, sharing)}
    return Contents("verdicts.csv", counts)


def _json(run: Run, sharing: Sharing, folder: Path) -> Contents:
    counts = {
        f"{name}.jsonl": _write(folder / f"{name}.jsonl", tables, _JsonLines) for name, tables in _tidy(run, sharing)
    }
    return Contents("verdicts.jsonl", counts)


def _inspect(run: Run, sharing: Sharing, folder: Path) -> Contents:
    from hab_ray.exchange.inspect_logs import write_logs

    return Contents("", write_logs(run, sharing, folder))


FORMATS: Mapping[str, Callable[[Run, Sharing, Path], Contents]] = {
    "hf": _data_set,
    "csv": _csv,
    "csv-raw": _raw_csv,
    "json": _json,
    "inspect": _inspect,
}


def _tidy(run: Run, sharing: Sharing) -> Iterator[tuple[str, Iterable[pa.Table]]]:
    """The run's tables, one row for each observation: large ones part by part."""
    parts, raters = [(subject, dimension) for subject in run.subjects for dimension in run.dimensions], run.raters
    yield "tests", (sharing.tests(dimension, run.tests(dimension)) for dimension in run.dimensions)
    yield "responses", (sharing.responses(*part, run.responses(*part)) for part in parts)
    yield (
        "verdicts",
        (sharing.verdicts(rater, *part, run.verdicts(rater, *part)) for part in parts for rater in raters),
    )
    yield "scores", (run.scores() for _ in range(1))
    yield from _bridge(RunFolder(run.location))


def _bridge(run: RunFolder) -> Iterator[tuple[str, Iterable[pa.Table]]]:
    """The tables of the run's judges beside those of an earlier study, where it has some."""
    rows: Mapping[str, type[Row]] = {SHIFTS: Shift, ISSUE_SHIFTS: IssueShift, SCORE_MAPS: ScoreMap}
    for file, row_type in rows.items():
        if run.has(file):
            yield f"bridge-{Path(file).stem}", [to_table(row_type, run.read(row_type, file))]


@dataclass
class _Parquet:
    """Writes tables of one schema into a Parquet file."""

    path: Path
    schema: pa.Schema

    def __enter__(self) -> Callable[[pa.Table], None]:
        self._writer = pq.ParquetWriter(self.path, self.schema, compression="zstd")
        return lambda table: self._writer.write_table(table)

    def __exit__(self, *raised: object) -> None:
        self._writer.close()


@dataclass
class _RawCsv:
    """Writes tables of one schema into a CSV file; of a list its members, with a space between them."""

    path: Path
    schema: pa.Schema

    def __enter__(self) -> Callable[[pa.Table], None]:
        flat = pa.schema([pa.field(f.name, pa.string() if pa.types.is_list(f.type) else f.type) for f in self.schema])
        options = pa_csv.WriteOptions(quoting_style="all_valid")
        self._writer = pa_csv.CSVWriter(self.path, flat, write_options=options)
        return lambda table: self._writer.write(self._cells(_without_lists(table, flat)))

    def __exit__(self, *raised: object) -> None:
        self._writer.close()

    def _cells(self, table: pa.Table) -> pa.Table:
        return table


class _Csv(_RawCsv):
    """The same, with a ' before what a spreadsheet would take for a formula."""

    def _cells(self, table: pa.Table) -> pa.Table:
        for number, field in enumerate(table.schema):
            if pa.types.is_string(field.type):
                safe = pc.replace_substring_regex(table.column(number), _FORMULA, r"'\1")
                table = table.set_column(number, field, safe)
        return table


def _without_lists(table: pa.Table, flat: pa.Schema) -> pa.Table:
    columns = []
    for column in table.columns:
        if pa.types.is_list(column.type):
            joined = [None if each is None else LIST_SEPARATOR.join(each) for each in column.to_pylist()]
            columns.append(pa.chunked_array([pa.array(joined, pa.string())]))
        else:
            columns.append(column)
    return pa.table(columns, schema=flat)


@dataclass
class _JsonLines:
    """Writes tables as a line of JSON for each row."""

    path: Path
    schema: pa.Schema

    def __enter__(self) -> Callable[[pa.Table], None]:
        self._file = self.path.open("w", encoding="utf-8")
        return self._add

    def _add(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            self._file.write(f"{json.dumps(row, ensure_ascii=False)}\n")

    def __exit__(self, *raised: object) -> None:
        self._file.close()


def _write(path: Path, tables: Iterable[pa.Table], kind: type[_Parquet] | type[_RawCsv] | type[_JsonLines]) -> int:
    """Write tables of one schema into a file; how many rows they have."""
    rest = iter(tables)
    first = next(rest)
    rows = 0
    with kind(path, first.schema) as add:
        for table in (first, *rest):
            add(table)
            rows += table.num_rows
    return rows
