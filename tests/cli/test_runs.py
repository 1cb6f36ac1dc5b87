"""`hab runs` lists what there is; `hab rm` removes a run and nothing else, and what was paid for is not paid again."""

import errno
import fcntl
import json
import os
import re
import shutil
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hab_ray.cli.main import app
from hab_ray.config.sections import LeaseTimes
from hab_ray.errors import Exit
from hab_ray.location import Location
from hab_ray.resolve import write_record
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.lease import Holder, LocalLease, last_holder
from hab_ray.storage.lease.renewed import first_renewal
from hab_ray.storage.lease.takeover import LeaseTerms, acquire_lease
from hab_ray.storage.registry import Registry
from tests.conftest import Desk, Vendors, until
from tests.instant import NOW, work_of


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sweep(desk: Desk, url: str, name: str = "small") -> Path:
    return desk.sweep(name, url, tests=desk.tests(2), dimensions=["encourage_learning"])


def test_a_run_is_listed_removed_and_made_again_from_its_store(desk: Desk, vendor: Vendors) -> None:
    simulator = vendor()
    assert "there are no runs here" in desk.hab("runs").stdout
    path, run, store = sweep(desk, simulator.url), desk.folder / "runs/small", desk.folder / "store"
    desk.says("run", path, "--yes")
    desk.says("rehearse", path)
    listed = desk.hab("runs").stdout
    (real,) = (line for line in listed.splitlines() if line.startswith("small"))
    (played,) = (line for line in listed.splitlines() if line.startswith("rehearsal-small"))
    assert " simulated, complete" in real and " rehearsal, complete" in played
    assert "at least" not in real and re.search(r" \d{4}-\d\d-\d\d \d\d:\d\d$", real.rstrip())

    assert "--yes" in desk.says("rm", run, status=Exit.CONFIGURATION) and (run / "sweep.yaml").is_file()
    scores, paid, billed = (run / "scores.parquet").read_bytes(), files_in(store), simulator.meter()["billed"]
    (run / "notes.txt").write_text("mine")
    removed = desk.says("rm", run, "--yes")
    assert "notes.txt" in removed and "no run uses: hab store gc\n" in removed
    left = {name: data for name, data in files_in(store).items() if not name.endswith("/000002.json")}
    assert files_in(run) == {"notes.txt": b"mine"} and left == paid
    desk.says("run", path, "--yes")
    assert (run / "scores.parquet").read_bytes() == scores and simulator.meter()["billed"] == billed

    desk.says("run", path, "--yes", "--run", "runs/own", "--store", "runs/own/store")
    removed = desk.says("rm", "runs/own", "--yes")
    assert "no run uses: hab store gc runs/own/store\n" in removed and "kept, as" not in removed

    (desk.folder / "link").symlink_to(desk.folder / "runs/rehearsal-small")
    desk.says("rm", desk.folder / "link", "--yes")
    assert files_in(desk.folder / "runs/rehearsal-small") == {}


def test_a_sweep_and_the_folder_of_its_run_are_told_apart(desk: Desk) -> None:
    path = sweep(desk, "http://127.0.0.1:9/v1")
    told = desk.says("status", path, status=Exit.CONFIGURATION)
    assert "is a sweep file" in told and "runs/small" in told
    (desk.folder / "runs/small").mkdir(parents=True)
    (desk.folder / "runs/small/sweep.yaml").touch()
    for command in ("plan", "doctor"):
        assert "is the folder of a run" in desk.says(command, "runs/small", status=Exit.CONFIGURATION)


def test_what_is_driven_or_no_run_is_not_removed(desk: Desk, vendor: Vendors) -> None:
    path, run = sweep(desk, vendor(latency={"kind": "fixed", "value_s": 30}).url), desk.folder / "runs/small"
    (desk.folder / "mine").mkdir()
    (desk.folder / "mine/scores.parquet").write_text("mine")
    desk.says("rm", desk.folder / "mine", "--yes", status=Exit.CONFIGURATION)
    assert files_in(desk.folder / "mine") == {"scores.parquet": b"mine"}
    (desk.folder / "mine/sweep.yaml").write_text(path.read_text())  # a sweep file, and no run's record
    desk.says("rm", desk.folder / "mine", "--yes", status=Exit.CONFIGURATION)
    assert set(files_in(desk.folder / "mine")) == {"scores.parquet", "sweep.yaml"}
    driving = desk.start("run", path, "--yes")
    until((run / "log/progress.json").is_file, driving)
    refused = desk.hab("rm", run, "--yes")
    assert refused.returncode == Exit.HELD and (run / "sweep.yaml").is_file(), refused.stdout
    assert "running" in desk.hab("runs").stdout
    record = desk.folder / "store/lease/000001.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"pid": 2**22 + 1}))  # as seen in another container
    desk.says("rm", run, "--yes", status=Exit.HELD)
    assert (run / "sweep.yaml").is_file()
    record.write_text(json.dumps(json.loads(record.read_text()) | {"pid": driving.pid}))
    for command in ("plan", "doctor"):
        assert f"held by process {driving.pid} " in " ".join(desk.says(command, path).split())
    os.kill(driving.pid, signal.SIGKILL)
    driving.communicate()
    assert re.search(r"unfinished.* at least \$0", desk.hab("runs").stdout)
    assert (run / "pending").is_dir()
    assert "kept" not in desk.says("rm", run, "--yes") and not run.exists()


def test_a_run_is_removed_unless_its_driver_lives_whatever_the_last_report_says(desk: Desk, vendor: Vendors) -> None:
    desk.says("run", sweep(desk, vendor().url), "--yes")
    desk.says("run", sweep(desk, vendor().url, "other"), "--yes", "--store", "store")
    store, run, other = (Location.of(desk.folder / name) for name in ("store", "runs/small", "runs/other"))
    times = LeaseTimes(renew_s=0.4, lost_s=2, take_s=4)
    terms, long_ago = LeaseTerms(times, shared_filesystem=True), datetime.now(UTC) - timedelta(hours=1)
    report = run.path / "log/progress.json"
    report.write_text(json.dumps(json.loads(report.read_text()) | {"at": long_ago.isoformat()}))

    alive = acquire_lease(store, run, long_ago, terms)
    assert "no report" in desk.hab("runs").stdout
    assert "is held by process" in desk.says("rm", run, "--yes", status=Exit.HELD)
    assert (run.path / "sweep.yaml").is_file()
    alive.release()

    last = last_holder(open_folder(store))
    assert last is not None
    dead = replace(Holder.after(last, store, run, long_ago), host="gone", renewal=first_renewal(times))
    open_folder(store).put(dead.name, dead.record())
    desk.says("rm", run, "--yes")
    assert not run.path.exists()

    third = acquire_lease(store, Location.of(desk.folder / "runs/third"), long_ago, terms)
    desk.says("rm", other, "--yes", status=Exit.HELD)
    (desk.folder / "runs/third").mkdir()
    (desk.folder / "runs/third/sweep.yaml").touch()
    desk.says("rm", other, "--yes")
    assert not other.path.exists()
    third.release()


def test_a_shared_store_without_locks_is_held_for_a_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    work = work_of(tmp_path, shared_filesystem=True)
    write_record(work, NOW)
    store, run = work.sweep.store, work.run_path
    acquire_lease(store, run, NOW, LeaseTerms(shared_filesystem=True)).release()
    for command in (["rm", str(run), "--yes"], ["store", "gc", str(store), "--yes"]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == Exit.COMPLETE, done.output
    assert not run.path.exists()


def test_a_removal_claims_its_lease_and_does_not_take_a_copy_for_its_run(tmp_path: Path) -> None:
    work = work_of(tmp_path)
    write_record(work, NOW)
    store, run, registry = work.sweep.store, work.run_path, Registry(work.sweep.store)
    LocalLease.acquire(store, run, NOW).release()
    registry.enter(work.run_id, run, NOW)
    for removed, claimed in (("copy", {1}), ("run", {1, 3})):
        if removed == "copy":
            shutil.copytree(run.path, tmp_path / "copy")
        done = CliRunner().invoke(app, ["rm", str(tmp_path / removed), "--yes"])
        assert done.exit_code == Exit.COMPLETE and not (tmp_path / removed).exists(), done.output
        assert registry.epochs_entered({work.run_id}) == claimed
        assert registry.last_folders()[work.run_id].path == run.path


def test_a_run_with_batches_at_the_vendor_stays(desk: Desk, vendor: Vendors) -> None:
    path, run = desk.folder / "batched.yaml", desk.folder / "runs/batched"
    simulator = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 600}})
    text = sweep(desk, simulator.url, "batched").read_text()
    path.write_text(text.replace("kind: openai", "batch: {discount: 0.5}\n    kind: openai") + "mode: batch\n")
    desk.says("run", path, "--yes", "--detach", status=Exit.PENDING)
    assert "hab batches cancel" in desk.says("rm", run, "--yes", status=Exit.CONFIGURATION)
    assert (run / "sweep.yaml").is_file()
