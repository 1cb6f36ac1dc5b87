"""Processes that end just after they have read: Arrow's threads must not hold Python's memory then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from hab_ray.storage.replies.parts import part_of
from hab_ray.storage.replies.records import to_parquet

ENDS = """
import os, sys
from pathlib import Path
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.replies.parts import part_columns
from hab_ray.storage.replies.records import read_table
folder, names = LocalFolder(Path(sys.argv[1])), [f"c{n}" for n in range(16)]

def threads():
    return len(os.listdir("/proc/self/task"))

def view():
    before = threads()
    read_table("view.parquet", folder.get("view.parquet"), names)
    print(threads() - before)

def part():
    for _ in range(60):
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            assert not status, status
        else:
            return part_columns(folder, "part", names).num_rows

globals()[sys.argv[2]]()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = pa.table({f"c{n}": [f"{row}" * 20 for row in range(3000)] for n in range(16)})
    (tmp_path / "view.parquet").write_bytes(to_parquet(table))
    (tmp_path / "part").write_bytes(part_of(table))
    return tmp_path


def test_a_view_is_read_without_threads(folder: Path) -> None:
    read = subprocess.run([sys.executable, "-c", ENDS, folder, "view"], capture_output=True, text=True)
    assert (read.returncode, read.stdout) == (0, "0\n"), read.stderr


def test_a_process_that_ends_once_it_has_read_a_part_does_not_crash(folder: Path) -> None:
    read = subprocess.run([sys.executable, "-c", ENDS, folder, "part"], capture_output=True, text=True)
    assert read.returncode == 0, read.stderr
