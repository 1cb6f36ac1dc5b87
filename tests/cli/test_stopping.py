"""Stopping a run with Ctrl-C or SIGTERM: what is still sent, what is kept, what it says. By batch, so without Ray."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.conftest import Desk, Vendor, Vendors, until
from tests.sweep.crashing import TESTS, account_of, changed, sweep_file

NOTHING_NEW_AFTER_S = 0.5
OUT_AFTER_SECOND_S = 10.0
SLOW = {"turnaround": {"kind": "fixed", "value_s": 0.3}}


def one_row_a_batch(folder: Path, vendor_name: str, url: str) -> Path:
    """A sweep that goes on making batches for a while: each holds one row, and each create takes its time."""
    sweep = sweep_file(folder, vendor_name, url, "stopped")
    account = account_of(sweep)
    account["batches"]["rows"] = 1
    return changed(sweep, providers={vendor_name: account})


def stopped(process: subprocess.Popen[str], how: signal.Signals) -> tuple[float, float, str]:
    """Stop a run: when (wall time), how many seconds it took to end, and all it printed."""
    at, begun = time.time(), time.monotonic()
    process.send_signal(how)
    output, _ = process.communicate(timeout=60)
    return at, time.monotonic() - begun, output


def later_than(sim: Vendor, at: float) -> list[dict[str, Any]]:
    """The requests that began later than they may after a signal at this time."""
    return [request for request in sim.requests() if request["at"] > at + NOTHING_NEW_AFTER_S]


def events(folder: Path) -> list[str]:
    """The ledger's events, as batch and kind."""
    return [f"{p.parent.name} {p.stem[4:]}" for p in sorted((folder / "store/ledger").rglob("*.json"))]


def lease_is_released(folder: Path) -> bool:
    newest = max((folder / "store/lease").glob("*.json"))
    return bool(json.loads(newest.read_text())["released"])


def test_no_batch_is_made_after_a_signal_and_the_open_create_is_kept(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(batch=SLOW, batch_faults=[{"kind": "slow_create", "seconds": 1.5}])
    sweep = one_row_a_batch(desk.folder, "anthropic", sim.url)
    running = desk.start("run", sweep, "--yes")
    until(lambda: sim.meter()["batch"]["created"], running)
    at, took, output = stopped(running, signal.SIGINT)
    assert running.returncode == 130 and took < 15, output
    assert later_than(sim, at) == []
    assert sim.meter()["batch"]["created"] == 1 and events(desk.folder) == ["000001 intent", "000001 submitted"]
    for words in ("stopping: nothing new is sent; ", "more for 1 open call worth", "run the same command again to"):
        assert words in output
    assert "unanswered" not in output and "report:" not in output and "Traceback" not in output
    assert lease_is_released(desk.folder)
    sim.post("/_batch_faults", [])
    desk.says("run", sweep, "--yes")
    assert sim.billed_once(2 * TESTS)


def test_a_create_that_is_cut_is_found_at_the_vendor_by_the_next_run(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(batch=SLOW, batch_faults=[{"kind": "slow_create", "seconds": 50, "ordinal": 1}])
    sweep = sweep_file(desk.folder, "google", sim.url, "cut")
    running = desk.start("run", sweep, "--yes", "--drain", 1)
    until(lambda: sim.meter()["batch"]["created"], running)
    at, took, output = stopped(running, signal.SIGTERM)
    assert running.returncode == 130 and 1 <= took < 15, output
    assert later_than(sim, at) == [] and events(desk.folder) == ["000001 intent"]
    told = r"batch google/000001 \(3 rows of [\w.-]+, at most \$0\.\d+\) was cut off"
    assert re.search(told, output), output
    desk.says("run", sweep, "--yes")
    assert sim.billed_once(2 * TESTS)


def test_a_second_signal_ends_the_process_at_once_and_the_store_is_free(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(batch=SLOW, batch_faults=[{"kind": "slow_create", "seconds": 50, "ordinal": 1}])
    sweep = sweep_file(desk.folder, "openai", sim.url, "twice")
    running = desk.start("run", sweep, "--yes")
    until(lambda: sim.meter()["batch"]["created"], running)
    running.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert running.poll() is None
    _, took, output = stopped(running, signal.SIGINT)
    assert running.returncode == 130 and took < OUT_AFTER_SECOND_S, output
    assert lease_is_released(desk.folder) and "stopped at once" in output and "Traceback" not in output
    desk.says("run", sweep, "--yes")
    assert sim.billed_once(2 * TESTS)


def test_a_run_that_waits_for_batches_stops_at_once_and_they_can_be_cancelled(desk: Desk, vendor: Vendors) -> None:
    """It says what stays at the vendor; a cancelled batch is collected, and its other rows are sent again."""
    sim = vendor(batch=SLOW, batch_faults=[{"kind": "stuck", "ordinal": 1, "done": 0.5}])
    sweep = sweep_file(desk.folder, "openai", sim.url, "waiting")
    running = desk.start("run", sweep, "--yes")
    until(lambda: sim.meter()["batch"]["created"], running)
    time.sleep(0.5)
    at, took, output = stopped(running, signal.SIGINT)
    assert running.returncode == 130 and took < 15, output
    assert later_than(sim, at) == [] and "charge them: 1 batch with 3 rows" in output and "hab batches cancel" in output
    assert "cancellation requested" in desk.says("batches", "cancel", "run")
    desk.says("run", sweep, "--yes")
    assert sim.meter()["batch"]["cancelled"] == 1 and sim.billed_once(2 * TESTS)


def test_a_terminal_that_is_closed_stops_a_run_which_clears_up(desk: Desk, vendor: Vendors) -> None:
    """A lost connection must not leave the store as after a crash."""
    sim = vendor(batch={"turnaround": {"kind": "fixed", "value_s": 60}})
    sweep = sweep_file(desk.folder, "openai", sim.url, "terminal")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hab_ray.cli", "run", str(sweep), "--yes"]
    process = subprocess.Popen(
        command, cwd=desk.folder, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, text=True
    )
    os.close(theirs)
    try:
        until(lambda: sim.meter()["batch"]["created"], process)
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=30) == 130
    finally:
        process.kill()
    assert "not running" in desk.hab("status", "run").stdout


def test_no_output_at_all_is_no_error(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(batch=SLOW)
    sweep = sweep_file(desk.folder, "openai", sim.url, "closed")
    command = f"exec {sys.executable} -m hab_ray.cli plan {sweep} >&-"
    done = subprocess.run(["sh", "-c", command], cwd=desk.folder, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ""
