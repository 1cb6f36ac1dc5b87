"""Damaged Parquet files are refused with a message. Arrow, which ends the process over some, never sees those."""

from collections import Counter
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hab_ray.errors import DamagedFile
from hab_ray.inputs.files import BadInput
from hab_ray.inputs.parquet import parquet_columns
from hab_ray.storage.replies.records import read_table

ROWS = 40


def read_damaged(file: Path) -> None:
    """Read a file with each bit of its footer turned, one at a time, of three bits of each byte.

    It is refused, or has all its rows; as a view of a run it is damaged where it would have fewer.
    """
    sound, found = file.read_bytes(), Counter[str]()
    footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    for at in range(footer, len(sound)):
        for bit in (0, 1, 4):
            damaged = bytearray(sound)
            damaged[at] ^= 1 << bit
            try:
                rows = list(parquet_columns(bytes(damaged), ["prompt"], ["score"]))
                found["whole" if len(rows) == ROWS else "short"] += 1
            except BadInput as error:
                found["refused"] += 1
                if "rows can be read" in str(error):
                    found["few"] += 1
                    with pytest.raises(DamagedFile, match="rows can be read"):
                        read_table("view.parquet", bytes(damaged))
    assert found["refused"] > 100 and found["whole"] > 100 and found["few"] and not found["short"], found


def test_no_bit_of_a_footer_that_is_otherwise_ends_the_process(tmp_path: Path) -> None:
    table = pa.table({"prompt": [f"q{n}" for n in range(ROWS)], "score": list(range(ROWS))})
    pq.write_table(table, tmp_path / "sound.parquet", row_group_size=15)
    process = get_context("spawn").Process(target=read_damaged, args=(tmp_path / "sound.parquet",))
    process.start()
    process.join(120)
    assert process.exitcode == 0


def test_row_groups_without_rows_are_read(tmp_path: Path) -> None:
    table = pa.table({"prompt": ["first", "second"], "score": [1, 2]})
    with pq.ParquetWriter(tmp_path / "groups.parquet", table.schema) as writer:
        for part in (table[:0], table[:1], table[:0], table[1:], table[:0]):
            writer.write_table(part)
    rows = list(parquet_columns((tmp_path / "groups.parquet").read_bytes(), ["prompt"], ["score"]))
    assert [row["prompt"] for row in rows] == ["first", "second"]
