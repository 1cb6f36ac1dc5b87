"""The run folder's views, and the list of its result files."""

import os
from pathlib import Path

import pytest

from hab_ray.errors import ConfigError, DamagedFile
from hab_ray.location import Location
from hab_ray.rows import ChosenTest
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.manifest import lost_notice, write_manifest
from hab_ray.storage.run import SWEEP, RunFolder

VIEW = "tests/d.parquet"
TESTS = [ChosenTest(f"t{n}", "d", "a\u2028b", "", "", n or None) for n in range(3)]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(Location.of(tmp_path / "runs" / "demo"))


def test_a_view_is_read_as_it_was_written_and_replaced_whole(run: RunFolder) -> None:
    assert (run.has(VIEW), run.count(VIEW), run.read(ChosenTest, VIEW)) == (False, None, [])
    run.write(ChosenTest, VIEW, TESTS)
    assert (run.has(VIEW), run.count(VIEW), run.read(ChosenTest, VIEW)) == (True, 3, TESTS)
    run.write(ChosenTest, VIEW, [])
    assert (run.has(VIEW), run.count(VIEW), run.read(ChosenTest, VIEW)) == (True, 0, [])


def test_a_damaged_view_counts_as_none_and_is_named_when_read(run: RunFolder) -> None:
    run.write(ChosenTest, VIEW, TESTS)
    for damaged in (b"", b"PAR1", run.folder.get(VIEW)[:-9]):
        run.folder.put(VIEW, damaged)
        assert run.count(VIEW) is None
        with pytest.raises(DamagedFile, match=VIEW):
            run.read(ChosenTest, VIEW)


def test_where_no_run_is_those_nearby_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"here \(no sweep.yaml\); start one"):
        RunFolder(Location("runs/frist")).require()
    for name in ("a", "b", "c", "d", "e", "first"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "sweep.yaml").touch()
    (tmp_path / "runs/other").mkdir()
    with pytest.raises(ConfigError, match=r"there are runs at runs/first, .*, \.{3}; start one") as told:
        RunFolder(Location("runs/frist")).require()
    assert "other" not in str(told.value) and str(told.value).count("runs/") == 6
    with pytest.raises(ConfigError, match="there are runs at runs/first, "):
        RunFolder(Location("first")).require()


def test_a_folder_is_a_run_once_its_sweep_is_there(run: RunFolder) -> None:
    assert not run.exists()
    with pytest.raises(ConfigError, match=str(run.location)):
        run.require()
    run.folder.put(SWEEP, b"")
    run.require()
    assert run.exists()


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
