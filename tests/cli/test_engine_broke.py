"""A signal to the whole process group, and a server of Ray that dies."""

import os
import re
import signal
import time
from ipaddress import ip_address
from pathlib import Path

import psutil
import pytest

from tests.conftest import Desk, Vendor, Vendors, until

NOTHING_NEW_AFTER_S = 0.5
PRICED = {"x/sim": {"models": {"*": {"price": {"input": 1, "output": 2}}}}}
CONCURRENT = 8


def sweep_of(desk: Desk, sim: Vendor) -> Path:
    """A sweep of online calls alone, without selection, that cost something."""
    limits = {"concurrent": CONCURRENT, "patience_s": 4, "timeout_s": 60}
    given = {"dimensions": ["encourage_learning"], "tests": "seeds", "executor": "ray"}
    return desk.sweep("own", sim.url, {"limits": limits, "price": {"input": 1, "output": 2}}, **given)


def below(process: psutil.Process, title: str) -> psutil.Process:
    """The youngest process below this one whose name or command line has this word."""
    found = [p for p in process.children(recursive=True) if title in p.name() or title in " ".join(p.cmdline())]
    return max(found, key=psutil.Process.create_time)


def listening(process: psutil.Process) -> set[str]:
    """The addresses on which a process and all below it listen for TCP."""
    found = (s for p in (process, *process.children(recursive=True)) for s in p.net_connections("tcp"))
    return {s.laddr.ip.removeprefix("::ffff:") for s in found if s.status == psutil.CONN_LISTEN}


@pytest.mark.bench
def test_signal_to_the_group_and_a_server_of_ray_that_dies(desk: Desk, vendor: Vendors) -> None:
    """On a Ray of its own, which listens on this machine alone.

    After a signal to the process group open calls may end; what hangs is cut off. A server of Ray that dies ends the
    run with 7 and one line. The same command goes on after either.
    """
    hanging = [{"kind": "hang", "model": "beta", "billed": True, "probability": 1.0}]
    sim = vendor(latency={"kind": "fixed", "value_s": 1.5}, accounts=PRICED, faults=hanging)
    sweep = sweep_of(desk, sim)
    running = desk.start_afresh("run", sweep, "--yes", "--drain", 4)
    until(lambda: sim.meter()["received"], running)
    time.sleep(0.5)
    addresses = listening(psutil.Process(running.pid))
    assert addresses and all(ip_address(each).is_loopback for each in addresses), addresses
    at, begun = time.time(), time.monotonic()
    os.killpg(running.pid, signal.SIGTERM)
    output, _ = running.communicate(timeout=60)
    took = time.monotonic() - begun
    assert running.returncode == 130 and took < 20, output
    assert [r for r in sim.requests() if r["at"] > at + NOTHING_NEW_AFTER_S] == []
    cut = re.search(r"cut off: (\d+) open calls? \(\1 of sim/beta\).*at most \$(\d+\.\d+)", output)
    assert cut and int(cut.group(1)) > 0 and float(cut.group(2)) > 0, output
    assert f"{sim.received('alpha') + sim.received('beta')} calls sent" in output
    assert "Traceback" not in output and "unanswered" not in output
    lost = [p.read_text() for p in (desk.folder / "store/lost").glob("*.json")]
    assert len(lost) == 1 and '"nanousd": 0' not in lost[0]

    sim.post("/_faults", [])
    asked = [call["sha256"] for call in sim.calls()]
    running = desk.start_afresh("run", sweep, "--yes", "--drain", 5)
    until(lambda: sim.meter()["received"] > len(asked) + CONCURRENT, running)
    below(psutil.Process(running.pid), "gcs_server").kill()
    begun = time.monotonic()
    output, _ = running.communicate(timeout=100)
    assert running.returncode == 7 and time.monotonic() - begun < 40, output
    assert "GCS" in output and "run the same command again to resume" in output, output
    assert "Traceback" not in output and "(raylet)" not in output, output

    sweep.write_text(sweep.read_text().replace("executor: ray", "executor: local"))
    desk.says("run", sweep, "--yes")
    bodies = [call["sha256"] for call in sim.calls()]
    assert len(set(asked) & set(bodies[len(asked) :])) <= int(cut.group(1))
    assert sim.meter()["billed_more_than_once"]["bodies"] <= int(cut.group(1)) + 2 * CONCURRENT
