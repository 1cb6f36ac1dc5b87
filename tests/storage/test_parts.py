"""What it takes to read a little of a large part."""

import errno
import mmap
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hab_ray.storage.local import LocalFolder
from hab_ray.storage.replies.parts import part_columns, part_of

MIB = 1 << 20
ROWS = 96
PART = "part.parquet"
MEASURED = """
import sys
from pathlib import Path

from hab_ray.storage.local import LocalFolder
from hab_ray.storage.replies.parts import RowReader, part_columns

def highest():
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10

folder = LocalFolder(Path(sys.argv[1]))
RowReader(folder).read("small.parquet", [0])  # Arrow loads code on its first read
before = highest()
READ
print(highest() - before)
"""


@pytest.mark.parametrize(
    "read",
    [
        f'assert part_columns(folder, "{PART}", ["key"]).num_rows == {ROWS}',
        f'assert len(RowReader(folder).read("{PART}", [{ROWS - 1}])["text"][0].as_py()) == {MIB}',
    ],
    ids=["a column", "a row"],
)
def test_a_little_of_a_large_part_takes_little_memory(read: str, tmp_path: Path) -> None:
    """Its bytes are random, so that they take as much in the file."""
    texts = np.random.default_rng(0).bytes(ROWS * MIB)
    table = pa.table(
        {"key": [f"{n}" for n in range(ROWS)], "text": [texts[n * MIB : (n + 1) * MIB] for n in range(ROWS)]}
    )
    folder = LocalFolder(tmp_path)
    folder.put(PART, part_of(table))
    folder.put("small.parquet", part_of(table.slice(0, 1)))
    assert folder.size(PART) > ROWS * MIB
    code = MEASURED.replace("READ", read)
    taken = int(
        subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, check=True, text=True).stdout
    )
    assert taken < 16 * MIB, f"{taken / MIB:.0f} MiB"


def test_too_little_memory_for_a_part_is_not_called_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    folder = LocalFolder(tmp_path)
    folder.put(PART, part_of(pa.table({"key": ["a"]})))
    monkeypatch.setattr(mmap, "mmap", exhausted)
    with pytest.raises(MemoryError, match="Cannot allocate memory"):
        part_columns(folder, PART, ["key"])
