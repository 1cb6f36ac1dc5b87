"""The run folder's views."""

from __future__ import annotations

from pathlib import Path

import pytest

from hab_ray.errors import ConfigError, DamagedFile
from hab_ray.location import Location
from hab_ray.rows import ChosenTest
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
