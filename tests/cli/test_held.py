"""A store on a shared file system changes hands: a driver that was stopped spends nothing when it is continued."""

import signal
import time

from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.lease.lease import Holder, last_holder
from tests.conftest import Desk, Vendors, ended, until

LEASE = {"renew_s": 0.4, "lost_s": 2, "take_s": 4}
FIRST_CALLS = 4
GIVEN = {"dimensions": ["ask_clarifying_questions"], "tests": "seeds"}


def holder(desk: Desk) -> Holder:
    found = last_holder(LocalFolder(desk.folder / "store"))
    assert found
    return found


def test_a_stopped_driver_is_succeeded_and_spends_nothing_when_it_is_continued(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(latency={"kind": "fixed", "value_s": 0.4})
    sweep = desk.sweep("held", sim.url, executor="local", shared_filesystem=True, lease=LEASE, **GIVEN)
    there = sweep.with_name("there.yaml")  # as on another machine, whose calls the vendor tells from ours
    there.write_text(sweep.read_text().replace("/x/sim/", "/x/there/"))
    sweep.write_text(sweep.read_text().replace("concurrent: 8", "concurrent: 1"))  # not done before others are refused

    def sent(account: str) -> list[float]:
        return [request["at"] for request in sim.requests() if request["account"] == account]

    first = desk.start("run", sweep, "--yes")
    until(lambda: len(sent("x/sim")) >= FIRST_CALLS, first)
    refused = desk.says("run", there, "--yes", status=6)
    assert f"held by process {first.pid} " in refused and "Waiting 4 s" in refused
    unasked = desk.says("run", there, status=6)
    assert f"held by process {first.pid} " in unasked and "Waiting" not in unasked and "to pay" not in unasked
    first.send_signal(signal.SIGSTOP)
    second = desk.start("run", there, "--yes")
    until(lambda: bool(sent("x/there")), second)
    continued_at = time.time()
    first.send_signal(signal.SIGCONT)
    continued, done = ended(first), ended(second)
    assert continued.returncode == 6, continued.stdout
    told = " ".join(continued.stdout.split())
    assert f"was taken over by process {second.pid} " in told and "Traceback" not in told
    assert [at for at in sent("x/sim") if at > continued_at] == []
    assert done.returncode == 0 and "taking over" in done.stdout, done.stdout
    assert (holder(desk).epoch, holder(desk).released) == (2, True)
