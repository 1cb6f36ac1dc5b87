"""A driver among fakes: a store that only counts rows, workers and executors that answer when they are polled."""

from collections.abc import Callable, Collection, Iterator, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hab_ray.catalog.prices import Mode
from hab_ray.config.sweep import Sweep
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.jobs import Counters, OpenKind, OpenRow
from hab_ray.errors import EngineBroke, Interrupted
from hab_ray.executors.pending import Pending
from hab_ray.executors.protocol import (
    CallsSpooled,
    Channel,
    Compute,
    CountersRead,
    Dispatch,
    DispatchEnded,
    Event,
    RowsComputed,
    Settle,
    ShardSettled,
    Spool,
    WorkerReplaced,
)
from hab_ray.stages.spec import Grain
from hab_ray.sweep.dispatching import DriverContext
from hab_ray.sweep.driver import Driver
from hab_ray.sweep.monitoring.counters import RunCounters
from hab_ray.sweep.routing import Router
from hab_ray.sweep.shards import Shards, ShardState
from hab_ray.work import Shard, Work
from tests.small_runs import unrecorded

ONE, TWO = "defer_important_decisions", "encourage_learning"
START = datetime(2026, 11, 22, tzinfo=UTC)
MADE: dict[str, Any] = {
    "tests": None,
    "dimensions": [ONE],
    "generate": {"model": "lab/w", "candidates": 5},
    "validate": {"model": "lab/v", "keep": 3},
    "select": {"embedding": "lab/e", "tests": 2},
    "subjects": ["lab/a"],
}


def work_of(folder: Path, **changes: Any) -> Work:
    """A small sweep with given tests, two subjects and one judge, with top-level keys changed."""
    given = {
        "name": "demo",
        "run": folder / "run",
        "dimensions": [ONE, TWO],
        "tests": "seeds",
        "providers": {"lab": {"kind": "openai", "url": "http://lab/v1", "price": {"input": 0}}},
        "subjects": ["lab/a", "lab/b"],
        "judges": ["lab/j"],
    }
    return unrecorded(Sweep.model_validate({**given, **changes}))


Spooled = dict[str, dict[int, list[str]]]


@dataclass
class Rows:
    """Which rows each shard has, and which of them are answered. A judge has those of the answered responses."""

    work: Work
    total: int = 3
    answered: dict[Shard, list[str]] = field(default_factory=dict)

    def tasks(self, shard: Shard) -> list[str]:
        sources = [one.shard for one in self.work.inputs(shard) if one.grain is Grain.ROW]
        if sources and sources[0].spec.makes_calls:
            return sorted(self.answered.get(sources[0], []), key=int)
        return list(map(str, range(self.total)))

    def open(self, shard: Shard) -> list[str]:
        return [row_id for row_id in self.tasks(shard) if row_id not in self.answered.get(shard, [])]

    def answer(self, shard: Shard, row_ids: Collection[str]) -> None:
        self.answered.setdefault(shard, []).extend(row_ids)


class FakeFiles(Pending):
    """Notes what is published and removed."""

    def __init__(self, log: list[str], spooled: Spooled) -> None:
        self._log, self._spooled = log, spooled
        self.discarded: list[int] = []
        self.removed: list[str] = []

    def publish(self, order: int, view: str) -> None:
        self._log.append(f"publish {view}")

    def discard(self, order: int) -> None:
        self.discarded.append(order)

    def remove(self, spool: Spool) -> None:
        self.removed.append(spool.file)

    def without(self, spool: Spool, keys: Set[str]) -> Spool | None:
        left = {n: [row_id for row_id in self._spooled[spool.file][n] if row_id not in keys] for n in spool.calls}
        rest = replace(spool, file=f"{spool.file}-rest", calls={n: len(those) for n, those in left.items()})
        self._spooled[rest.file] = left
        return rest if rest.total else None

    def row_ids(self, spool: Spool) -> list[str]:
        return [row_id for number in spool.calls for row_id in self._spooled[spool.file][number]]


class FakeService:
    """Says what is in `events` when it is polled. `ending` are the channels that `end` names."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ending: list[Channel] = []
        self.stopped: list[float] = []

    def poll(self) -> Sequence[Event]:
        events, self.events = self.events, []
        return events

    def stop(self, drain_s: float) -> None:
        self.stopped.append(drain_s)

    def end(self) -> Collection[Channel]:
        return self.ending

    def close(self) -> None: ...


def spool_of(work: Work, spooled: Spooled, file: str, shard: Shard, calls: dict[int, list[str]]) -> Spool:
    """A spool of calls of shards like this one."""
    spooled[file] = calls
    model = work.model(shard)
    return Spool(file, shard.stage, model.entry.provider, model.name, {n: len(those) for n, those in calls.items()})


class FakeWorkers(FakeService):
    """Settles from `rows`; `slow` shards are answered only when the test says so."""

    def __init__(self, rows: Rows, log: list[str], spooled: Spooled) -> None:
        super().__init__()
        self._rows, self._log, self._spooled = rows, log, spooled
        self.slow: Callable[[Shard], bool] = lambda _: False
        self.held: list[Settle] = []

    def settle(self, order: Settle) -> None:
        self._log.append(f"settle {order.shard.file}")
        if self.slow(order.shard):
            self.held.append(order)
        else:
            self.events.append(self.settled(order))

    def release(self) -> None:
        """Answer what was held back, and hold nothing back any more."""
        self.events += map(self.settled, self.held)
        self.held, self.slow = [], lambda _: False

    def settled(self, order: Settle) -> ShardSettled:
        if not order.shard.spec.makes_calls:
            return ShardSettled(order, 0, 0)
        left = self._rows.open(order.shard)
        calls = [row_id for row_id in left if row_id not in order.skip]
        spool = spool_of(self._rows.work, self._spooled, f"{order.order}", order.shard, {order.number: calls})
        total = len(self._rows.tasks(order.shard))
        return ShardSettled(
            order,
            total,
            total - len(left),
            len(left) - len(calls),
            spool if calls else None,
            view=True,
            first_asks=len(calls),
        )

    def compute(self, order: Compute) -> None:
        self._log.append(f"compute {order.shard.file}")
        self.events.append(RowsComputed(order, self._rows.total, "a note"))


class FakeExecutor(FakeService):
    """Answers every call of a dispatch at the next poll, unless `answers` is False.

    Rows in `refused` are left open with their kind, and rows in `in_batches`, by spool, are in batches. With `slowly`
    only the first row of each dispatch is answered; with `flows` the rows of feeds flow on, a poll before their
    dispatch ends.
    """

    def __init__(self, mode: Mode, rows: Rows, log: list[str], spooled: Spooled, shards: Shards) -> None:
        super().__init__()
        self._mode, self._rows, self._log, self._spooled, self._shards = mode, rows, log, spooled, shards
        self.counters: dict[Channel, Counters] = {}
        self.open: list[tuple[Dispatch, Channel]] = []
        self.dispatched: list[Dispatch] = []
        self.answers = True
        self.refused: dict[str, OpenKind] = {}
        self.slowly = False
        self.flows = False
        self.is_parked = True
        self.in_batches: dict[str, set[str]] = {}
        self._flowed: set[tuple[int, str]] = set()

    def start(self, dispatch: Dispatch) -> Channel:
        channel = Channel(dispatch.provider, self._mode)
        self._log.append(f"{self._mode} {dispatch.stage} {dispatch.model}: {sum(s.total for s in dispatch.spools)}")
        self.counters.setdefault(channel, BatchCounters() if self._mode is Mode.BATCH else Counters())
        self.open.append((dispatch, channel))
        self.dispatched.append(dispatch)
        return channel

    def held(self, spool: Spool) -> set[str]:
        return self.in_batches.get(spool.file, set())

    def poll(self) -> Sequence[Event]:
        return [*self._completed(), *super().poll()] if self.answers else super().poll()

    def drop(self) -> Iterator[Event]:
        """The ends of what is under way, whose calls are lost with the worker that had them."""
        for dispatch, _ in self.open:
            yield DispatchEnded(dispatch.order)
        self.open = []

    def _completed(self) -> Iterator[Event]:
        ended, self.open = self.open, []
        for dispatch, channel in ended:
            counters = self.counters[channel]
            for spool in dispatch.spools:
                for number in spool.calls:
                    self._complete(number, self._spooled[spool.file][number], counters)
            if self.flows and dispatch.feeds:
                yield CallsSpooled(tuple(self.flowed(dispatch)))
            yield CountersRead(channel, deepcopy(counters))
            counters.open.clear()
            yield DispatchEnded(dispatch.order)

    def _complete(self, number: int, calls: list[str], counters: Counters) -> None:
        for row_id in calls:
            if row_id in self.refused:
                counters.open.append(OpenRow(number, row_id, "no answer", self.refused[row_id]))
            else:
                counters.finished[number] += 1
        answered = [row_id for row_id in calls if row_id not in self.refused]
        self._rows.answer(self._shards.all[number].shard, answered[:1] if self.slowly else answered)

    def flowed(self, dispatch: Dispatch) -> Iterator[Spool]:
        """The calls that follow from rows of the feeds of a dispatch that were answered since it began."""
        for feed in dispatch.feeds:
            new = [r for r in self._rows.answered.get(feed.shard, []) if (feed.number, r) not in self._flowed]
            self._flowed.update((feed.number, row_id) for row_id in new)
            for dependent in feed.dependents:
                calls = {dependent.number: new}
                file = f"flow-{len(self._spooled)}"
                yield spool_of(self._rows.work, self._spooled, file, dependent.shard, calls)


@dataclass
class Clock:
    """Time that passes only while somebody waits; what a test has planned happens then."""

    now: float = 0.0
    waits: int = 0
    steps: dict[int, Callable[[], None]] = field(default_factory=dict)
    stopped: Exception | None = None

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.waits += 1
        assert self.waits < 1000, "the driver waits for ever"
        self.steps.pop(self.waits, lambda: None)()

    def check(self) -> None:
        if self.stopped:
            raise self.stopped

    def today(self) -> datetime:
        return START + timedelta(seconds=self.now)


@dataclass
class Bench:
    """A driver and its fakes. `steps` are run one at each wait, which takes `passes_s` seconds of the clock."""

    driver: Driver
    shards: Shards
    counters: RunCounters
    rows: Rows
    files: FakeFiles
    workers: FakeWorkers
    online: FakeExecutor
    batches: FakeExecutor
    log: list[str]
    clock: Clock
    reports: list[int] = field(default_factory=list)

    def state(self, stage: str, name: str, dimension: str = ONE, subject: str = "") -> ShardState:
        """The shard of this name."""
        return next(
            state
            for state in self.shards.all
            if (state.shard.stage, state.shard.name, state.shard.dimension, state.shard.subject)
            == (stage, name, dimension, subject)
        )

    def reconcile_until(self, waits: int) -> None:
        """Run the driver, which the user stops after so many waits."""
        self.clock.steps[waits] = lambda: setattr(self.clock, "stopped", Interrupted("seen enough"))
        with pytest.raises(Interrupted):
            self.driver.reconcile(detach=False)

    def kill_worker(self) -> None:
        """The worker that makes online calls dies with what is under way, and another takes its place."""
        died = WorkerReplaced(Channel("lab", Mode.ONLINE), EngineBroke("died"))
        self.online.events += [died, *self.online.drop()]

    def logged(self, *words: str) -> list[str]:
        """The lines that begin with one of these words."""
        return [line for line in self.log if line.startswith(words)]


MakeBench = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> MakeBench:
    """Makes a driver among fakes, for a sweep with top-level keys changed and so many rows in each shard."""

    def make(total: int = 3, deadline_s: float | None = None, **changes: Any) -> Bench:
        work = work_of(tmp_path, **changes)
        log: list[str] = []
        spooled: Spooled = {}
        rows, clock, shards = Rows(work, total), Clock(), Shards(work)
        counters = RunCounters(shards.all, frozenset({1}))
        files, workers = FakeFiles(log, spooled), FakeWorkers(rows, log, spooled)
        online, batches = (FakeExecutor(mode, rows, log, spooled, shards) for mode in (Mode.ONLINE, Mode.BATCH))
        deadline = None if deadline_s is None else START + timedelta(seconds=deadline_s)
        reports: list[int] = []
        driver = Driver(
            work,
            shards,
            counters,
            Router(work, shards, counters, batches.held, deadline, clock.today),
            DriverContext(
                executors={Mode.ONLINE: online, Mode.BATCH: batches},
                workers=lambda: workers,
                services=(online, batches, workers),
                files=files,
                clock=lambda: clock.now,
                wait=clock.wait,
                check=clock.check,
                keep=lambda: None,
                chosen=lambda shard: log.append(f"chosen {shard.file}"),
                report=lambda: reports.append(clock.waits),
            ),
        )
        return Bench(driver, shards, counters, rows, files, workers, online, batches, log, clock, reports)

    return make
