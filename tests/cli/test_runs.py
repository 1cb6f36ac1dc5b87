"""`hab runs` lists what there is; `hab rm` removes a run and nothing else, and what was paid for is not paid again."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from hab_ray.errors import Exit
from tests.conftest import Desk, Vendors, until


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sweep(desk: Desk, url: str, name: str = "small") -> Path:
    return desk.sweep(name, url, tests="seeds", dimensions=["encourage_learning"])


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
    assert files_in(run) == {"notes.txt": b"mine"} and files_in(store) == paid
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
    for command in ("plan", "doctor"):
        assert f"held by process {driving.pid} " in " ".join(desk.says(command, path).split())
    os.kill(driving.pid, signal.SIGKILL)
    driving.communicate()
    assert re.search(r"unfinished.* at least \$0", desk.hab("runs").stdout)


def test_a_run_with_batches_at_the_vendor_stays(desk: Desk, vendor: Vendors) -> None:
    path, run = desk.folder / "batched.yaml", desk.folder / "runs/batched"
    simulator = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 600}})
    text = sweep(desk, simulator.url, "batched").read_text()
    path.write_text(text.replace("kind: openai", "batch: {discount: 0.5}\n    kind: openai") + "mode: batch\n")
    desk.says("run", path, "--yes", "--detach", status=Exit.PENDING)
    assert "hab batches cancel" in desk.says("rm", run, "--yes", status=Exit.CONFIGURATION)
    assert (run / "sweep.yaml").is_file()
