"""A run's rows as tables, one row for each observation, and files that tables are written into one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import pyarrow as pa

from hab_ray.exchange.sharing import Sharing
from hab_ray.results import Run, analyses_of
from hab_ray.rows import IssueShift, Row, ScoreMap, Shift, to_table
from hab_ray.storage.run import ISSUE_SHIFTS, SCORE_MAPS, SHIFTS, RunFolder

WriteFile = Callable[[Path, pa.Schema, Iterator[pa.Table]], None]
"""Writes tables of one schema into a new file, one after the other."""


def tidy_tables(run: Run, sharing: Sharing) -> Iterator[tuple[str, Iterable[pa.Table]]]:
    """The run's tables by name: large ones part by part, null where `sharing` leaves something out."""
    parts, raters = [(subject, dimension) for subject in run.subjects for dimension in run.dimensions], run.raters
    yield "tests", (sharing.tests(dimension, run.tests(dimension)) for dimension in run.dimensions)
    yield "responses", (sharing.responses(*part, run.responses(*part)) for part in parts)
    yield (
        "verdicts",
        (sharing.verdicts(rater, *part, run.verdicts(rater, *part)) for part in parts for rater in raters),
    )
    yield "scores", (run.scores() for _ in range(1))
    yield from _bridge(RunFolder(run.location))
    yield from ((f"analysis-{name}", [run.analysis(name)]) for name in analyses_of(run))


def _bridge(run: RunFolder) -> Iterator[tuple[str, Iterable[pa.Table]]]:
    """The tables of the run's judges beside those of an earlier study, where it has some."""
    rows: Mapping[str, type[Row]] = {SHIFTS: Shift, ISSUE_SHIFTS: IssueShift, SCORE_MAPS: ScoreMap}
    for file, row_type in rows.items():
        if run.has(file):
            yield f"bridge-{Path(file).stem}", [to_table(row_type, run.read(row_type, file))]


def write_tables(path: Path, tables: Iterable[pa.Table], write: WriteFile) -> int:
    """Write tables of one schema into a new file; how many rows they have."""
    rest, sizes = iter(tables), []
    first = next(rest)

    def counted() -> Iterator[pa.Table]:
        for table in chain([first], rest):
            sizes.append(table.num_rows)
            yield table

    write(path, first.schema, counted())
    return sum(sizes)


def write_tidy(run: Run, sharing: Sharing, folder: Path, suffix: str, write: WriteFile) -> dict[str, int]:
    """Write each of the run's tables into a file of its own; how many rows each has, by file name."""
    return {
        f"{name}{suffix}": write_tables(folder / f"{name}{suffix}", tables, write)
        for name, tables in tidy_tables(run, sharing)
    }
