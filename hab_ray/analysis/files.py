"""Writes the tables of a run's analyses into its folder: `analysis/<name>.parquet` and `.csv`.

A table is recomputed only if one of its inputs has changed: a view, the sweep, a rubric, the code. The digest of all
inputs is stored in the Parquet file, which is written last.
"""

from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.csv as pa_csv
import scipy

from hab_ray.analysis.registry import Analysis, Section
from hab_ray.analysis.summary import Summary
from hab_ray.errors import DamagedFile
from hab_ray.inputs.csv_safe import without_formulas, without_lists
from hab_ray.rows import from_table, to_table
from hab_ray.storage.folder import Folder
from hab_ray.storage.replies.parts import part_metadata
from hab_ray.storage.replies.records import read_table, to_parquet
from hab_ray.storage.run import ANALYSIS, RATERS, SWEEP, RunFolder

_VIEWS = ("candidates", "tests", "responses", "verdicts", "rejudged")
_DIGEST = b"inputs_sha256"


def write_tables(summary: Summary, sections: Iterable[Section[Any]]) -> None:
    """Write the table of every analysis among these sections; reuse files whose inputs have not changed."""
    folder = RunFolder(summary.run.location).folder
    inputs = _inputs_digest(summary, folder)
    for each in sections:
        if isinstance(each, Analysis):
            digest = sha256(f"{inputs} {each.module} {_file_digest(each.source)}".encode()).hexdigest()
            if not _reuse(summary, each, folder, digest):
                _write(summary, each, folder, digest)


def _reuse(summary: Summary, analysis: Analysis[Any], folder: Folder, digest: str) -> bool:
    """Load the rows of the existing file if its inputs have this digest; return whether they have."""
    file = f"{ANALYSIS}/{analysis.name}.parquet"
    try:
        metadata = part_metadata(folder, file).metadata or {}
        if metadata.get(_DIGEST) != digest.encode():
            return False
        rows = from_table(analysis.row, read_table(file, folder.get(file)))
    except (FileNotFoundError, DamagedFile, KeyError, TypeError, ValueError):
        return False
    summary.tables.setdefault(analysis.module, rows)
    return True


def _write(summary: Summary, analysis: Analysis[Any], folder: Folder, digest: str) -> None:
    table = to_table(analysis.row, list(analysis(summary)))
    folder.put(f"{ANALYSIS}/{analysis.name}.csv", to_csv(table))
    with_digest = table.replace_schema_metadata({_DIGEST: digest.encode()})
    folder.put(f"{ANALYSIS}/{analysis.name}.parquet", to_parquet(with_digest))


def to_csv(table: pa.Table) -> bytes:
    """Return a table as CSV: list members separated by spaces, a ' before anything a spreadsheet reads as a formula."""
    written = BytesIO()
    pa_csv.write_csv(without_formulas(without_lists(table)), written)
    return written.getvalue()


def _inputs_digest(summary: Summary, folder: Folder) -> str:
    """Return the digest of all inputs; files that the summary's run keeps count as it has read them."""
    hashed, kept = sha256(), summary.run.kept or {}
    for name in sorted({SWEEP, RATERS, *(file for view in _VIEWS for file in folder.list(view))}):
        if read := kept.get(name):
            hashed.update(f"{name} {read.sha256}\n".encode())
        elif folder.exists(name):
            hashed.update(f"{name} {sha256(folder.get(name)).hexdigest()}\n".encode())
    for dimension, rubric in summary.rubrics.items():
        hashed.update(f"{dimension} {rubric.sha256}\n".encode())
    hashed.update(f"numpy {numpy.__version__} scipy {scipy.__version__}\n".encode())
    hashed.update("".join(map(_file_digest, sorted(Path(__file__).parent.rglob("*.py")))).encode())
    return hashed.hexdigest()


@cache
def _file_digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()
