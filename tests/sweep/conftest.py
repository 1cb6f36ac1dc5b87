"""A driver among fakes: a store that only counts rows, workers and executors that answer when they are polled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hab_ray.catalog import Model
from hab_ray.config import Sweep
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.jobs import Counters, OpenKind, OpenRow
from hab_ray.executors.protocol import (
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
    SpoolsRead,
)
from hab_ray.prices import Mode
from hab_ray.rubric import load_rubrics, load_themes
from hab_ray.stages.wording import load_prompts
from hab_ray.sweep.counters import RunCounters
from hab_ray.sweep.driver import Driver
from hab_ray.sweep.routing import Router
from hab_ray.sweep.shards import Shards, ShardState
from hab_ray.sweep.surroundings import Surroundings
from hab_ray.work import Shard, Work

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
    sweep = Sweep.model_validate({**given, **changes})
    rubrics = load_rubrics()
    return Work(
        run_id="0" * 32,
        sweep=sweep,
        catalog=sweep.catalog,
        models={name: Model(name, sweep.catalog.find(name)) for name in sweep.model_names()},
        rubrics={dimension: rubrics[dimension] for dimension in sweep.dimensions},
        themes=load_themes(),
        prompts=load_prompts(),
        run_path=folder / "run",
    )


@dataclass
class Rows:
    """How many rows each shard has, and which of them are answered."""

    total: int = 3
    answered: dict[Shard, set[str]] = field(default_factory=dict)

    def open(self, shard: Shard) -> list[str]:
        answered = self.answered.get(shard, set())
        return [row_id for row_id in map(str, range(self.total)) if row_id not in answered]

    def answer(self, shard: Shard, row_ids: Collection[str]) -> None:
        self.answered.setdefault(shard, set()).update(row_ids)


class FakeFiles:
    """Notes what is published and removed."""

    def __init__(self, log: list[str], spooled: dict[int, list[str]]) -> None:
        self._log, self._spooled = log, spooled
        self.discarded: list[int] = []

    def publish(self, order: int, view: str) -> None:
        self._log.append(f"publish {view}")

    def discard(self, order: int) -> None:
        self.discarded.append(order)

    def row_ids(self, spool: Spool) -> list[str]:
        return self._spooled[spool.order]


class FakeService:
    """Says what is in `events` when it is polled. `ending` are the channels that `end` names."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ending: list[Channel] = []
        self.stopped: list[float] = []
        self.closed = False

    def poll(self) -> Sequence[Event]:
        events, self.events = self.events, []
        return events

    def stop(self, drain_s: float) -> None:
        self.stopped.append(drain_s)

    def end(self) -> Collection[Channel]:
        return self.ending

    def close(self) -> None:
        self.closed = True


class FakeWorkers(FakeService):
    """Settles from `rows`; `slow` shards are answered only when the test says so."""

    def __init__(self, rows: Rows, log: list[str], spooled: dict[int, list[str]]) -> None:
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
        calls = self._spooled[order.order] = [row_id for row_id in left if row_id not in order.skip]
        spool = Spool(order.order, order.number, order.shard, "calls", len(calls)) if calls else None
        rows = self._rows.total - len(left)
        return ShardSettled(order, self._rows.total, rows, len(left) - len(calls), spool, view=True)

    def compute(self, order: Compute) -> None:
        self._log.append(f"compute {order.shard.file}")
        self.events.append(RowsComputed(order, 3, "a note"))


class FakeExecutor(FakeService):
    """Answers every call of a dispatch at the next poll, unless `answers` is False.

    Rows in `refused` are left open with their kind; of a shard in `twice` only the first row is answered each time.
    """

    def __init__(self, mode: Mode, rows: Rows, log: list[str], spooled: dict[int, list[str]]) -> None:
        super().__init__()
        self._mode, self._rows, self._log, self._spooled = mode, rows, log, spooled
        self.counters: dict[Channel, Counters] = {}
        self.open: list[tuple[Dispatch, Channel]] = []
        self.answers = True
        self.refused: dict[str, OpenKind] = {}
        self.slowly = False
        self.life = 0
        self.is_parked = True
        self.in_batches: set[Shard] = set()

    def start(self, dispatch: Dispatch) -> Channel:
        channel = Channel(dispatch.provider, self._mode, self.life)
        self._log.append(f"{self._mode} {dispatch.stage} {dispatch.model}: {sum(s.calls for s in dispatch.spools)}")
        self.counters.setdefault(channel, BatchCounters() if self._mode is Mode.BATCH else Counters())
        self.open.append((dispatch, channel))
        return channel

    def holds(self, spool: Spool) -> bool:
        return spool.shard in self.in_batches

    def poll(self) -> Sequence[Event]:
        return [*self._completed(), *super().poll()] if self.answers else super().poll()

    def _completed(self) -> Iterator[Event]:
        ended, self.open = self.open, []
        for dispatch, channel in ended:
            counters = self.counters[channel]
            for spool in dispatch.spools:
                self._complete(spool, counters)
            yield CountersRead(channel, deepcopy(counters))
            counters.open.clear()
            yield SpoolsRead(dispatch.order)
            if self._mode is Mode.ONLINE:
                yield DispatchEnded(dispatch.order)

    def _complete(self, spool: Spool, counters: Counters) -> None:
        calls = self._spooled[spool.order]
        for row_id in calls:
            if row_id in self.refused:
                counters.open.append(OpenRow(spool.number, row_id, "no answer", self.refused[row_id]))
            else:
                counters.finished[spool.number] += 1
        answered = [row_id for row_id in calls if row_id not in self.refused]
        self._rows.answer(spool.shard, answered[:1] if self.slowly else answered)


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

    def logged(self, *words: str) -> list[str]:
        """The lines that begin with one of these words."""
        return [line for line in self.log if line.startswith(words)]


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


MakeBench = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> MakeBench:
    """Makes a driver among fakes, for a sweep with top-level keys changed and so many rows in each shard."""

    def make(total: int = 3, deadline_s: float | None = None, **changes: Any) -> Bench:
        work = work_of(tmp_path, **changes)
        log: list[str] = []
        spooled: dict[int, list[str]] = {}
        rows, clock, shards = Rows(total), Clock(), Shards(work)
        counters = RunCounters(shards.all)
        files, workers = FakeFiles(log, spooled), FakeWorkers(rows, log, spooled)
        online, batches = (FakeExecutor(mode, rows, log, spooled) for mode in (Mode.ONLINE, Mode.BATCH))
        deadline = None if deadline_s is None else START + timedelta(seconds=deadline_s)
        reports: list[int] = []
        driver = Driver(
            work,
            shards,
            counters,
            Router(work, shards, counters, batches.holds, deadline, clock.today),
            Surroundings(
                executors={Mode.ONLINE: online, Mode.BATCH: batches},
                workers=lambda: workers,
                services=(online, batches, workers),
                files=files,
                clock=lambda: clock.now,
                wait=clock.wait,
                check=clock.check,
                report=lambda: reports.append(clock.waits),
            ),
        )
        return Bench(driver, shards, counters, rows, files, workers, online, batches, log, clock, reports)

    return make
