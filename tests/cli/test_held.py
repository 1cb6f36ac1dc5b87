"""A store on a shared file system changes hands: a driver that was stopped spends nothing when it is continued."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.lease import Holder, last_holder
from tests.conftest import Desk, Vendor, ended

LEASE = {"renew_s": 0.4, "lost_s": 2, "take_s": 4}
FIRST_CALLS = 4
DIMENSIONS = ["ask_clarifying_questions"]


def until(what: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something that happens while a process runs."""
    for _ in range(1200):
        if what():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def files(folder: Path) -> dict[str, bytes]:
    """What a run has to show."""
    return {p.name: p.read_bytes() for p in folder.rglob("*.parquet")}


def holder(desk: Desk) -> Holder:
    found = last_holder(LocalFolder(desk.folder / "store"))
    assert found
    return found


def on_another_machine(desk: Desk, folder: Path) -> Desk:
    """The same folder seen from a machine with a disk of its own, where other processes call the provider."""
    folder.mkdir()
    return replace(desk, environment={"TMPDIR": str(folder)})


def test_a_stopped_driver_is_succeeded_and_spends_nothing_when_it_is_continued(
    desk: Desk, vendor: Callable[..., Vendor], tmp_path_factory: pytest.TempPathFactory
) -> None:
    sim = vendor(latency={"kind": "fixed", "value_s": 0.4})
    there = on_another_machine(desk, tmp_path_factory.mktemp("machine") / "tmp")
    sweep = desk.sweep("held", sim.url, executor="local", shared_filesystem=True, lease=LEASE, dimensions=DIMENSIONS)
    first = desk.start("run", sweep, "--yes")
    until(lambda: len(sim.requests()) >= FIRST_CALLS, first)
    refused = desk.hab("run", sweep, "--yes")
    assert refused.returncode == 6, refused.stdout
    assert f"held by process {first.pid} " in refused.stdout and "Waiting 4 s" in refused.stdout
    assert first.poll() is None
    first.send_signal(signal.SIGSTOP)
    second = ended(there.start_afresh("run", sweep, "--yes"))
    assert second.returncode == 0 and "taking over" in second.stdout, second.stdout
    assert (holder(desk).epoch, holder(desk).released) == (2, True)
    before, made = sim.requests(), files(desk.folder / "runs")
    first.send_signal(signal.SIGCONT)
    continued = ended(first)
    assert continued.returncode == 6, continued.stdout
    told = " ".join(continued.stdout.split())
    assert f"was taken over by process {holder(desk).pid} " in told and "Traceback" not in told
    assert sim.requests() == before and files(desk.folder / "runs") == made


def test_ctrl_c_ends_the_wait_for_a_holder_that_may_be_dead(desk: Desk, vendor: Callable[..., Vendor]) -> None:
    sim = vendor(latency={"kind": "fixed", "value_s": 0.4})
    long = {"renew_s": 10, "lost_s": 20, "take_s": 40}
    sweep = desk.sweep("held", sim.url, executor="local", shared_filesystem=True, lease=long)
    first = desk.start("run", sweep, "--yes")
    until(lambda: len(sim.requests()) >= 1, first)
    first.kill()
    first.communicate()
    waiting = desk.start("run", sweep, "--yes")
    said = ""
    while "Ctrl-C" not in said:
        assert waiting.stdout
        said += waiting.stdout.readline()
    begun, sent = time.monotonic(), sim.requests()
    waiting.send_signal(signal.SIGINT)
    done = ended(waiting)
    assert done.returncode == 130 and time.monotonic() - begun < 5, said + done.stdout
    assert (holder(desk).epoch, holder(desk).released) == (1, False) and sim.requests() == sent


def test_times_in_the_wrong_order_are_refused(desk: Desk) -> None:
    told = desk.hab("run", desk.sweep("held", "http://127.0.0.1:9", lease={"renew_s": 30}))
    assert told.returncode == 2
    assert "lease: renew_s (30) must be below lost_s (20)" in " ".join(told.stdout.split())
