"""The protocol between the driver and what does the work.

The driver decides, executors do. The driver (`sweep.driver`) knows shards: which have their inputs, which have open
calls, how those calls go out. It never touches a call, a reply or a row. It hands out orders and takes in events:

    order                                                   answered by
    Settle    take a shard as far as the store has it       ShardSettled: counts; its view and open calls in files
    Compute   make the rows of a stage without calls        RowsComputed: its view in a file
    Dispatch  complete the spooled calls of some shards     CountersRead, again and again; SpoolsRead; DispatchEnded

    driver ── Settle ──> workers:   store ──> view (unpublished), open calls (spooled) ── ShardSettled ──> driver
    driver ── publishes the view (`pending`), chooses how the open calls go out
    driver ── Dispatch ──> executor: spool ──> vendor ──> store ── CountersRead ──> driver
    driver ── Settle ──> ...        (settled once before its calls are sent, once after)

Rows flow. Where a stage needs its source row by row (`Grain.ROW`), the executor that completes the source hands on
what follows from each row as soon as that is durable, long before the source is complete, and without reading the
store again: it parses the outcome with the source's stage, builds the dependents' calls and spools them (`flow`).

    Dispatch(feeds) ── outcome durable ──> row ──> dependents' tasks ──> calls ──> spool ── CallsSpooled ──> driver
    driver ── Dispatch(is_flowing) ──> executor of the dependents' provider

No row need flow for a run to be right: once the source is complete its dependents are settled, and what did not flow
(re-asks, rows that were answered before, rows lost in a crash) is found then.

Every order has a number. The driver ignores an answer to any but the newest order of a shard, and removes its files:
a worker of a dead driver or a repeated task can publish nothing.

**An executor** implements `Executor`; what settles and computes implements `Workers`. Both are `Service`s:

- Methods are called from the driver's thread, but `stop`, which the signal thread calls. None may block for long.
- Call the `wake` you were given when `poll` has something to tell, so that the driver need not sleep out its interval.
- Counters are totals since the channel opened and only grow. A row counts in `finished` when its outcome is durable,
  in `open` (once) when this run will not get one. Each spooled row ends up in exactly one of the two.
- A `Channel` is all that serves one provider account in one mode, be it one worker or a pool of them. When a worker
  dies, the executor puts another in its place, moves what the dead one had in flight from reserved to spent
  (`Counters.written_off`), and reports WorkerReplaced. Dispatches that the dead one had a part in end when the other
  workers have done theirs; what it left is found by settling. The driver bounds how often that may happen in a row.
- ExecutorDied is for what no restart repairs. The driver ends the run with that error (exit status 7 for EngineBroke).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hab_ray.catalog.prices import Mode
from hab_ray.engine.jobs import Counters
from hab_ray.work import Shard


@dataclass(frozen=True, order=True)
class Channel:
    """One way to one provider account: online or by batch."""

    provider: str
    mode: Mode

    def __str__(self) -> str:
        return self.provider if self.mode is Mode.ONLINE else f"{self.provider} batches"


@dataclass(frozen=True)
class Settle:
    """Take a shard as far as the store has it. Calls of the rows in `skip` are not spooled: the run gave them up."""

    order: int
    number: int
    shard: Shard
    skip: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Compute:
    """Make the rows of a shard whose stage computes instead of calling a model."""

    order: int
    number: int
    shard: Shard


@dataclass(frozen=True)
class Spool:
    """Open calls of one stage and model, in a file of the run folder (see `pending`).

    `calls` counts them by shard; of a shard that is not named there nothing is read.
    """

    file: str
    stage: str
    provider: str
    model: str
    calls: Mapping[int, int]

    @property
    def total(self) -> int:
        return sum(self.calls.values())


@dataclass(frozen=True)
class Dependent:
    """A shard whose tasks follow row by row from those of another one."""

    number: int
    shard: Shard


@dataclass(frozen=True)
class Feed:
    """A shard whose rows give calls to other shards as soon as they are durable."""

    number: int
    shard: Shard
    dependents: tuple[Dependent, ...]


@dataclass(frozen=True)
class Dispatch:
    """The open calls of shards of one stage and provider; by batch, of one model.

    `feeds` names those of them whose rows flow on (see `flow`). `is_flowing`: these calls come from rows that flowed
    here, so that there will be many such dispatches, and they go before those that the executor has still to read.
    """

    order: int
    stage: str
    provider: str
    model: str
    spools: tuple[Spool, ...]
    feeds: tuple[Feed, ...] = ()
    is_flowing: bool = False


@dataclass(frozen=True)
class CountersRead:
    """What a channel has done since it opened."""

    channel: Channel
    counters: Counters


@dataclass(frozen=True)
class SpoolsRead:
    """The calls of a dispatch are with the vendor, answered or left open: its spools are not needed any more."""

    order: int


@dataclass(frozen=True)
class DispatchEnded:
    """A dispatch completes no further row; what it left is found by settling."""

    order: int


@dataclass(frozen=True)
class ShardSettled:
    """A shard as far as the store has it.

    It has `total` tasks and `rows` rows; `spool` holds its open calls but `given_up`, those of the rows to skip.
    `view` says that its rows wait to be published; `is_done` that the published view has them all.
    """

    settle: Settle
    total: int
    rows: int
    given_up: int = 0
    spool: Spool | None = None
    view: bool = False
    is_done: bool = False

    @property
    def open(self) -> int:
        """Calls that may be sent."""
        return self.spool.total if self.spool else 0


@dataclass(frozen=True)
class CallsSpooled:
    """Rows of feeds are durable, and the calls of their dependents that follow from them are in these files."""

    spools: tuple[Spool, ...]


@dataclass(frozen=True)
class RowsComputed:
    """The rows of a computing stage wait to be published; `note` is for the user."""

    compute: Compute
    rows: int
    note: str


@dataclass(frozen=True)
class ChannelEnded:
    """A channel has finished what was in flight; its last counters came before."""

    channel: Channel


@dataclass(frozen=True)
class WorkerReplaced:
    """A worker of a channel is gone with what it had in flight, and another one has taken its place."""

    channel: Channel
    error: Exception


@dataclass(frozen=True)
class ExecutorDied:
    """Nothing more can be done here, and the run ends with this error."""

    error: Exception


Event = (
    CountersRead
    | CallsSpooled
    | SpoolsRead
    | DispatchEnded
    | ShardSettled
    | RowsComputed
    | ChannelEnded
    | WorkerReplaced
    | ExecutorDied
)


class Service(Protocol):
    """Something that works beside the driver."""

    def poll(self) -> Sequence[Event]:
        """What happened since the last call. Does not wait."""

    def stop(self, drain_s: float) -> None:
        """Begin no further request; those in flight have so many seconds. For any thread."""

    def end(self) -> Collection[Channel]:
        """Begin to end; the channels that will report ChannelEnded."""

    def close(self) -> None:
        """Release threads, processes and connections, whether or not all channels have ended."""


class Executor(Service, Protocol):
    """Completes calls."""

    def start(self, dispatch: Dispatch) -> Channel:
        """Take a dispatch; the channel that counts its rows.

        Raises:
            HabError: the provider cannot be reached as the sweep says, or the executor cannot be started.
        """

    def holds(self, spool: Spool) -> bool:
        """Whether one of these calls is under way here already, so that sending it elsewhere would pay twice."""

    @property
    def is_parked(self) -> bool:
        """Whether nothing is left to do but to wait for vendors' batches, so that a detached run may leave."""


class Workers(Service, Protocol):
    """Settles shards and computes rows."""

    def settle(self, order: Settle) -> None:
        """Settle a shard."""

    def compute(self, order: Compute) -> None:
        """Compute a shard's rows."""
