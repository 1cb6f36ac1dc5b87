"""`hab store gc` removes what only runs that are gone have paid for and used, and nothing else."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hab_ray.catalog.prices import Mode
from hab_ray.errors import Exit
from hab_ray.location import Location
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.lease.lease import LocalLease
from hab_ray.storage.replies.store import COMPACT_FROM_FILES, Store, StoreWriter
from hab_ray.sweep.unused import remove, unused
from tests.conftest import Desk, Vendors
from tests.folders import Dying, Killed
from tests.storage.conftest import key_of, reply

NOW = datetime(2026, 11, 24, tzinfo=UTC)
MODEL = "lab/m"
KEYS = {name: key_of(name) for name in ("gone", "shared", "other", "probe")}
USED = {KEYS["shared"], KEYS["other"]}
GONE = frozenset({1})


def sweep(desk: Desk, url: str, name: str, *dimensions: str) -> Path:
    tests = desk.seeds(("encourage_learning", "maintain_social_boundaries"), each=3)
    return desk.sweep(name, url, executor="local", tests=tests, dimensions=dimensions)


def test_runs_that_are_there_keep_all_that_they_read(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    one = sweep(desk, sim.url, "one", "encourage_learning")
    two = sweep(desk, sim.url, "two", "encourage_learning", "maintain_social_boundaries")
    for path in (one, two):
        desk.says("run", path, "--yes")
    billed = sim.meter()["billed"]
    store = desk.folder / "store"

    desk.says("rm", "runs/one", "--yes")
    assert desk.says("store", "gc") == desk.says("store", "gc", "store")
    used = desk.says("store", "gc", "store", "--yes")
    assert used.startswith("store: store\n") and "deleted: the run that was at " in used
    assert "existing: 1 run," in used and "there is nothing to remove" in used
    desk.says("run", one, "--yes")
    assert sim.meter()["billed"] == billed

    shutil.move(desk.folder / "runs", desk.folder / "archive")
    assert "hab store gc store FOLDER" in desk.says("store", "gc", "store", status=Exit.CONFIGURATION)
    shutil.rmtree(desk.folder / "archive/two")
    (desk.folder / "runs").mkdir()
    (desk.folder / "linked").mkdir()
    (desk.folder / "linked/first").symlink_to(desk.folder / "archive/one")
    assert "first " in desk.says("runs", "linked")
    for named in ("archive", "archive/one", "linked"):
        assert "existing: 1 run," in desk.says("store", "gc", "store", named)
    for named in ("archive/one/log", "."):
        assert "there is no run in it" in desk.says("store", "gc", "store", named, status=Exit.CONFIGURATION)
    before = {path.name for path in store.rglob("*.*")}
    assert "Nothing was removed" in desk.says("store", "gc", "store", "archive")
    assert before <= {path.name for path in store.rglob("*.*")}
    assert "removed: 12 replies" in desk.says("store", "gc", "store", "archive", "--yes")
    shutil.move(desk.folder / "archive/one", desk.folder / "runs/one")
    for path, more in ((one, 0), (two, 12)):
        desk.says("run", path, "--yes")
        assert sim.meter()["billed"] == billed + more


def test_what_is_held_or_not_complete_is_refused(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    path = sweep(desk, sim.url, "small", "encourage_learning")
    desk.says("run", path, "--yes")
    lease = LocalLease.acquire(Location.of(desk.folder / "store"), Location.of(desk.folder / "runs/small"), NOW)
    desk.says("store", "gc", "store", "--yes", status=Exit.HELD)
    lease.release()
    record = desk.folder / "runs/small/sweep.yaml"
    record.write_text(record.read_text().replace("versions:\n", "versions:\n  stage hedges: hedging 0.3\n"))
    refused = desk.says("store", "gc", "store", "--yes", status=Exit.CONFIGURATION)
    assert "the stage hedges of the package hedging 0.3 is not installed" in refused
    progress = desk.folder / "runs/small/log/progress.json"
    progress.write_text(progress.read_text().replace('"status": 0', '"status": 5'))
    assert "not complete" in desk.says("store", "gc", "store", "--yes", status=Exit.CONFIGURATION)
    (desk.folder / "runs/small/sweep.yaml").write_text("damaged: [")
    assert "cannot be read" in desk.says("store", "gc", "store", "--yes", status=Exit.CONFIGURATION)
    desk.says("store", "gc", "runs", status=Exit.CONFIGURATION)


def planted(path: Path, compacted: bool) -> LocalFolder:
    """A store in which epoch 1 is of a run that is gone, 2 of one that is there, 3 of none."""
    folder = LocalFolder(path)
    for epoch, names in ((1, ("gone", "shared")), (2, ("other",)), (3, ("probe",))):
        writer = StoreWriter(folder, epoch, "w", Mode.ONLINE)
        for name in names:
            for _ in range(COMPACT_FROM_FILES):
                writer.add(MODEL, reply(name))
                writer.flush()
    if compacted:
        Store(folder).compact(MODEL, 3)
    return folder


def keys_in(folder: LocalFolder) -> set[str]:
    store = Store(folder)
    store.refresh(MODEL)
    return set(store.read(MODEL, list(KEYS.values())))


@pytest.mark.parametrize("compacted", [True, False])
def test_killed_at_any_change_it_loses_nothing_and_the_next_ends_it(tmp_path: Path, compacted: bool) -> None:
    kept, changes = {key for name, key in KEYS.items() if name != "gone"}, 0
    while True:
        folder = planted(tmp_path / str(changes), compacted)
        assert keys_in(folder) == set(KEYS.values())
        dying = Dying(folder, changes)
        try:
            remove(dying, list(unused(folder, GONE, USED)), GONE, USED, 4)
            break
        except Killed:
            assert keys_in(folder) >= kept
            remove(folder, list(unused(folder, GONE, USED)), GONE, USED, 5)
            assert keys_in(folder) == kept
            changes += 1
    assert keys_in(folder) == kept and changes >= (3 if compacted else COMPACT_FROM_FILES)
    assert list(unused(folder, GONE, USED)) == []
