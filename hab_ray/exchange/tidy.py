"""A run's rows as tables, one row for each observation, and files that tables are written into one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa

from hab_ray.exchange.sharing import Sharing
from hab_ray.results import Run, analyses_of
from hab_ray.rows import IssueShift, Row, ScoreMap, Shift, to_table
from hab_ray.storage.run import ISSUE_SHIFTS, SCORE_MAPS, SHIFTS, RunFolder

TableFile = Callable[[Path, pa.Schema], AbstractContextManager[Callable[[pa.Table], None]]]


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


def write_tables(path: Path, tables: Iterable[pa.Table], kind: TableFile) -> int:
    """Write tables of one schema into a new file of a kind; how many rows they have."""
    rest = iter(tables)
    first = next(rest)
    rows = 0
    with kind(path, first.schema) as add:
        for table in (first, *rest):
            add(table)
            rows += table.num_rows
    return rows


def write_tidy(run: Run, sharing: Sharing, folder: Path, suffix: str, kind: TableFile) -> dict[str, int]:
    """Write each of the run's tables into a file of its own; how many rows each has, by file name."""
    return {
        f"{name}{suffix}": write_tables(folder / f"{name}{suffix}", tables, kind)
        for name, tables in tidy_tables(run, sharing)
    }
