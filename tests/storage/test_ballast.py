"""Space and inodes are held back on the disk and given back."""

import os
import resource
from pathlib import Path

import pytest

from hab_ray.location import Location
from hab_ray.storage.ballast import BALLAST_BYTES, SPARE_DESCRIPTORS, SPARE_FILES, Ballast
from tests.storage.conftest import full


def test_the_space_is_taken_up_until_it_is_released(tmp_path: Path) -> None:
    ballast = Ballast(Location.of(tmp_path), "lab")
    assert (tmp_path / "ballast/lab").stat().st_blocks * 512 >= BALLAST_BYTES
    assert len(list((tmp_path / "ballast").iterdir())) == 1 + SPARE_FILES
    Ballast(Location.of(tmp_path), "lab")
    ballast.release()
    ballast.release()
    assert not list((tmp_path / "ballast").iterdir())


def test_descriptors_are_kept_open_until_it_is_released(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    ballast = Ballast(Location.of(tmp_path), "lab")
    taken = os.open(os.devnull, os.O_RDONLY)
    os.close(taken)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.open(os.devnull, os.O_RDONLY)
        ballast.release()
        spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(SPARE_DESCRIPTORS)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    for descriptor in spare:
        os.close(descriptor)


def test_a_file_that_cannot_be_removed_stops_no_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ballast = Ballast(Location.of(tmp_path), "lab")
    monkeypatch.setattr(Path, "unlink", full)
    ballast.release()


def test_without_the_space_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(OSError, match=r"No space.*ballast/lab"):
        Ballast(Location.of(tmp_path), "lab")
    assert not list((tmp_path / "ballast").iterdir())
