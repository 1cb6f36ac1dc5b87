"""The list of a run's result files: it names those of hab, whatever else is in the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.manifest import lost_notice, write_manifest


@pytest.mark.parametrize(
    "foreign", [b"caf\xe9.parquet", b"line\nbreak.parquet", "line\u2028break.parquet".encode()], ids=repr
)
def test_a_file_whose_name_hab_does_not_give_is_neither_listed_nor_missed(tmp_path: Path, foreign: bytes) -> None:
    folder = LocalFolder(tmp_path)
    folder.put("responses/alpha/encourage_learning.parquet", b"")
    other = os.path.join(os.fsencode(tmp_path), b"responses", foreign)
    os.close(os.open(other, os.O_CREAT))
    write_manifest(folder)
    assert lost_notice(folder) is None
    os.unlink(other)
    assert lost_notice(folder) is None
    folder.delete("responses/alpha/encourage_learning.parquet")
    assert "1 file that it had at its end, such as responses/alpha/encourage_learning" in str(lost_notice(folder))
