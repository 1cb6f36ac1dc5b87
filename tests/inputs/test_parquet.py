"""Damaged Parquet files are refused with a message. Arrow, which ends the process over some, never sees those."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

READ_DAMAGED = """
import sys
from collections import Counter
from pathlib import Path
from hab_ray.inputs.files import BadInput
from hab_ray.inputs.parquet import parquet_columns

sound, found = Path(sys.argv[1]).read_bytes(), Counter()
for at in range(len(sound) - 8 - int.from_bytes(sound[-8:-4], "little"), len(sound)):
    for bit in (0, 1, 4):
        damaged = bytearray(sound)
        damaged[at] ^= 1 << bit
        try:
            found[len(list(parquet_columns(bytes(damaged), ["prompt"], ["score"])))] += 1
        except BadInput:
            found["refused"] += 1
assert found["refused"] > 100 and found[40] > 100, found
"""


def test_no_bit_of_a_footer_that_is_otherwise_ends_the_process(tmp_path: Path) -> None:
    table = pa.table({"prompt": [f"q{n}" for n in range(40)], "score": list(range(40))})
    pq.write_table(table, tmp_path / "sound.parquet", row_group_size=15)
    done = subprocess.run(
        [sys.executable, "-c", READ_DAMAGED, str(tmp_path / "sound.parquet")], capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
