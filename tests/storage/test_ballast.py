"""Space and inodes are held back on the disk and given back."""

from __future__ import annotations

from pathlib import Path

import pytest

from hab_ray.location import Location
from hab_ray.storage.ballast import BALLAST_BYTES, SPARE_FILES, Ballast
from tests.storage.conftest import full


def test_the_space_is_taken_up_until_it_is_released(tmp_path: Path) -> None:
    ballast = Ballast(Location.of(tmp_path), "lab")
    assert (tmp_path / "ballast/lab").stat().st_blocks * 512 >= BALLAST_BYTES
    assert len(list((tmp_path / "ballast").iterdir())) == 1 + SPARE_FILES
    Ballast(Location.of(tmp_path), "lab")
    ballast.release()
    ballast.release()
    assert not list((tmp_path / "ballast").iterdir())


def test_without_the_space_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(OSError, match=r"No space.*ballast/lab"):
        Ballast(Location.of(tmp_path), "lab")
    assert not list((tmp_path / "ballast").iterdir())
