"""Processes that end just after they have read: Arrow's threads must not hold Python's memory then."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from hab_ray.storage.replies.parts import part_of
from hab_ray.storage.replies.records import to_parquet

READS = """
import os, sys
from pathlib import Path
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.replies.parts import RowReader, part_columns
from hab_ray.storage.replies.records import read_table
folder, names = LocalFolder(Path(sys.argv[1])), [f"c{n}" for n in range(16)]
before = len(os.listdir("/proc/self/task"))
READ
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = pa.table({f"c{n}": [f"{row}" * 20 for row in range(3000)] for n in range(16)})
    (tmp_path / "view.parquet").write_bytes(to_parquet(table))
    (tmp_path / "part.parquet").write_bytes(part_of(table))
    return tmp_path


@pytest.mark.parametrize(
    "read",
    [
        'read_table("view.parquet", folder.get("view.parquet"), names)',
        'part_columns(folder, "part.parquet", names)',
        'RowReader(folder).read("part.parquet", range(3000))',
    ],
)
def test_files_are_read_without_threads(folder: Path, read: str) -> None:
    script = READS.replace("READ", read)
    done = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_a_part_whose_schema_is_damaged_is_named_instead_of_an_abort(folder: Path) -> None:
    """One byte of the footer says that a column is neither required nor optional."""
    part = folder / "part.parquet"
    part.write_bytes(part.read_bytes().replace(b"\x25\x02\x18\x02c0", b"\x25\x21\x18\x02c0"))
    script = READS.replace("READ", 'part_columns(folder, "part.parquet", names)')
    done = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True)
    assert done.returncode == 1 and "DamagedFile: part.parquet: cannot be read" in done.stderr
