"""The online executor in the driver's process: what it says, and how it ends."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hab_ray.errors import AccountBusy, ConfigError
from hab_ray.executors.budget import RunBudget
from hab_ray.executors.local import LocalExecutor
from hab_ray.executors.online import RunSetup
from hab_ray.executors.protocol import (
    CallsSpooled,
    ChannelEnded,
    CountersRead,
    Dependent,
    Dispatch,
    DispatchEnded,
    Event,
    ExecutorDied,
    Feed,
    Settle,
)
from hab_ray.executors.settling import WorkerContext, settle_shard
from hab_ray.stopping import Stop
from hab_ray.storage.lease.lease import LocalLease
from hab_ray.work import Shard
from tests.conftest import Vendors
from tests.executors.conftest import NOW, site_of
from tests.sweep.conftest import ONE

SOURCE, JUDGE = Shard("respond", "lab/a", ONE), Shard("judge", "lab/j", ONE, "lab/a")
WAIT_S = 60.0


@dataclass
class Held:
    """A run whose store this process holds."""

    site: WorkerContext
    lease: LocalLease

    def executor(self, url: str, site: WorkerContext | None = None) -> LocalExecutor:
        budget = RunBudget(None, self.site.store, self.lease)
        setup = RunSetup(site or self.site, self.lease, budget, Stop(), lambda _: url, list, 0.0, verbose=False)
        return LocalExecutor(setup, lambda: None)

    def dispatch(self) -> Dispatch:
        """The responses of one subject, which flow on to a judge."""
        spool = settle_shard(self.site, Settle(1, 0, SOURCE), self.site.open_store()).spool
        assert spool is not None
        return Dispatch(7, "respond", "lab", "lab/a", (spool,), (Feed(0, SOURCE, (Dependent(1, JUDGE),)),))


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    site = site_of(tmp_path)
    lease = LocalLease.acquire(site.store, site.work.run_path, NOW)
    yield Held(replace(site, pending=replace(site.pending, epoch=lease.epoch)), lease)
    lease.release()


def events_until(executor: LocalExecutor, last: type[Event]) -> list[Event]:
    """What an executor says up to an event of this kind."""
    events: list[Event] = []
    end = time.monotonic() + WAIT_S
    while not any(isinstance(event, last) for event in events):
        assert time.monotonic() < end, events
        events += executor.poll()
        time.sleep(0.02)
    return events


def ended(executor: LocalExecutor) -> list[Event]:
    """What an executor says until its one channel has ended; then it is closed."""
    (channel,) = executor.end()
    events = events_until(executor, ChannelEnded)
    assert events[-1] == ChannelEnded(channel)
    executor.close()
    return events


def test_a_dispatch(held: Held, vendor: Vendors) -> None:
    """Calls are completed, and what follows from their rows is spooled before these count as finished."""
    executor = held.executor(f"{vendor().url}/x/lab/v1")
    assert executor.poll() == [] and executor.workers is None
    wanted = held.dispatch()
    executor.start(wanted)
    assert not executor.is_parked
    events = events_until(executor, DispatchEnded)
    counted = [event.counters for event in events if isinstance(event, CountersRead)]
    assert counted[-1].finished[0] == wanted.spools[0].total == counted[-1].calls
    flowed = [spool for event in events if isinstance(event, CallsSpooled) for spool in event.spools]
    assert sum(spool.calls[1] for spool in flowed) == counted[-1].finished[0]
    first_finished = next(n for n, e in enumerate(events) if isinstance(e, CountersRead) and e.counters.finished[0])
    assert any(isinstance(event, CallsSpooled) for event in events[:first_finished])
    assert events[-1] == DispatchEnded(7) and executor.is_parked
    ended(executor)


def test_one_process_at_a_time(held: Held, vendor: Vendors) -> None:
    """An account that is called here is refused to the next until this executor is closed."""
    url, wanted = f"{vendor().url}/x/lab/v1", held.dispatch()
    first, second = held.executor(url), held.executor(url)
    first.start(wanted)
    with pytest.raises(AccountBusy, match="lab"):
        second.start(wanted)
    ended(first)
    second.start(wanted)
    events_until(second, DispatchEnded)
    ended(second)


def test_stop(held: Held, vendor: Vendors) -> None:
    """Once stopped no request begins, what is in flight is kept, and the channel ends."""
    sim = vendor(latency={"kind": "fixed", "value_s": 0.5})
    executor = held.executor(f"{sim.url}/x/lab/v1")
    executor.start(held.dispatch())
    while not sim.meter()["received"]:
        time.sleep(0.02)
    executor.stop(30.0)
    received = sim.meter()["received"]
    counted = [event.counters for event in ended(executor) if isinstance(event, CountersRead)][-1]
    assert counted.calls == sim.meter()["received"] == sim.meter()["billed"] == counted.finished[0] >= received


def test_an_engine_that_cannot_be_opened_ends_the_run(held: Held) -> None:
    """The driver learns why, and not that a thread has ended."""
    site, work = held.site, held.site.work
    unpriced = {name: replace(m, entry=m.entry.model_copy(update={"price": None})) for name, m in work.models.items()}
    executor = held.executor("http://127.0.0.1:9/v1", replace(site, work=replace(work, models=unpriced)))
    executor.start(held.dispatch())
    died = events_until(executor, ExecutorDied)[-1]
    assert isinstance(died, ExecutorDied) and isinstance(died.error, ConfigError) and "price" in str(died.error)
    ended(executor)
