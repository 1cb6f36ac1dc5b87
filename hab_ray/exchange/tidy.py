"""A run's rows as tidy tables (one row per observation), and files that are written table by table."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import pyarrow as pa

from hab_ray.exchange.sharing import Sharing
from hab_ray.results import Run, analyses_of
from hab_ray.results.run import tests_with_calls
from hab_ray.rows import IssueShift, Row, ScoreMap, Shift, to_table
from hab_ray.storage.run import ISSUE_SHIFTS, SCORE_MAPS, SHIFTS, RunFolder

WriteFile = Callable[[Path, pa.Schema, Iterator[pa.Table]], None]
"""Writes tables of one schema into a new file."""


def tidy_tables(run: Run, sharing: Sharing) -> Iterator[tuple[str, Iterable[pa.Table]]]:
    """Yield the run's tables by name, large ones in parts, with null for texts that `sharing` leaves out."""
    parts, raters = [(subject, dimension) for subject in run.subjects for dimension in run.dimensions], run.raters
    yield "tests", (sharing.tests(dimension, tests_with_calls(run, dimension)) for dimension in run.dimensions)
    yield "responses", (sharing.responses(*part, run.responses(*part)) for part in parts)
    yield (
        "verdicts",
        (sharing.verdicts(rater, *part, run.verdicts(rater, *part)) for part in parts for rater in raters),
    )
    yield "scores", [run.scores()]
    yield from _bridge(RunFolder(run.location))
    yield from ((f"analysis-{name}", [run.analysis(name)]) for name in analyses_of(run))


def _bridge(run: RunFolder) -> Iterator[tuple[str, Iterable[pa.Table]]]:
    rows: Mapping[str, type[Row]] = {SHIFTS: Shift, ISSUE_SHIFTS: IssueShift, SCORE_MAPS: ScoreMap}
    for file, row_type in rows.items():
        if run.has(file):
            yield f"bridge-{Path(file).stem}", [to_table(row_type, run.read(row_type, file))]


def write_tables(path: Path, tables: Iterable[pa.Table], write: WriteFile) -> int:
    """Write tables of one schema into a new file; return the number of rows."""
    rest, rows = iter(tables), 0
    first = next(rest)

    def counted() -> Iterator[pa.Table]:
        nonlocal rows
        for table in chain([first], rest):
            rows += table.num_rows
            yield table

    write(path, first.schema, counted())
    return rows


def write_tidy(run: Run, sharing: Sharing, folder: Path, suffix: str, write: WriteFile) -> dict[str, int]:
    """Write each of the run's tables into a separate file; return the number of rows by file name."""
    return {
        f"{name}{suffix}": write_tables(folder / f"{name}{suffix}", tables, write)
        for name, tables in tidy_tables(run, sharing)
    }
