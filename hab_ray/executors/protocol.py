"""The protocol between the driver and the executors.

The driver (`sweep.driver`) decides, executors execute. The driver knows which shards have their inputs, which have
open calls, and how to send those calls. It never handles a call, a reply or a row. It sends orders and gets events:

    order                                                   events
    Settle    derive a shard's rows from the store          ShardSettled: counts; its view and open calls in files
    Compute   compute the rows of a stage without calls     RowsComputed: its view in a file
    Dispatch  complete the spooled calls of some shards     CountersRead, repeatedly; DispatchEnded

    driver ── Settle ──> workers:   store ──> view (unpublished), open calls (spooled) ── ShardSettled ──> driver
    driver ── publishes the view (`pending`), chooses how to send the open calls
    driver ── Dispatch ──> executor: spool ──> vendor ──> store ── CountersRead ──> driver
    driver ── Settle ──> ...        (a shard is settled once before its calls are sent, and once after)

Rows flow. If a stage needs its source row by row (`Grain.ROW`), the executor of the source passes on each row as soon
as it is durable, long before the source is complete, and without reading the store again: it parses the outcome with
the source's stage, builds the dependents' calls and spools them (`flow`).

    Dispatch(feeds) ── outcome durable ──> row ──> dependents' tasks ──> calls ──> spool ── CallsSpooled ──> driver
    driver ── Dispatch(is_flowing) ──> executor of the dependents' provider

Flow is an optimisation: once the source is complete, its dependents are settled, which finds every row that did not
flow (re-asks, rows answered before, rows lost in a crash).

Every order has a number. The driver ignores answers to all but the newest order of a shard and removes their files, so
a worker of a dead driver or a repeated task cannot publish anything.

**An executor** implements `Executor`; settling and computing implement `Workers`. Both are `Service`s:

- The driver's thread calls all methods except `stop`, which the signal thread calls. None may block for long.
- Call the given `wake` when `poll` has events, so that the driver need not sleep until its next interval.
- Counters are totals since the channel opened and only grow. A row counts in `finished` once its outcome is durable,
  or in `open` if this run will not get one. Each spooled row ends up in exactly one of the two.
- A `Channel` serves one provider account in one mode, with one worker or a pool. When a worker dies, the executor
  replaces it, moves the money of the calls it had in flight from reserved to spent (`Counters.written_off`), and
  reports WorkerReplaced. Dispatches that the dead worker had a share of end when the other workers have done theirs;
  settling finds what it left. The driver limits how often this may happen in a row.
- ExecutorDied is for errors that no restart repairs. The driver ends the run with its error (exit status 7 for
  EngineBroke).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hab_ray.catalog.prices import Mode
from hab_ray.engine.jobs import Counters
from hab_ray.work import Shard


@dataclass(frozen=True, order=True)
class Channel:
    """Access to one provider account, online or by batch."""

    provider: str
    mode: Mode

    def __str__(self) -> str:
        return self.provider if self.mode is Mode.ONLINE else f"{self.provider} batches"


@dataclass(frozen=True)
class Settle:
    """Order to settle a shard. Calls of rows in `skip` are not spooled: the run has given these rows up."""

    order: int
    number: int
    shard: Shard
    skip: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Compute:
    """Order to compute the rows of a shard whose stage makes no calls."""

    order: int
    number: int
    shard: Shard


@dataclass(frozen=True)
class Spool:
    """Open calls of one stage and model, in a file of the run folder (see `pending`).

    `calls` counts them by shard; calls of other shards in the file are ignored. If they are to be sampled, no batch
    line of theirs is expected to have more than `line_bytes` or to cost more than `cap` nano-dollars.
    """

    file: str
    stage: str
    provider: str
    model: str
    calls: Mapping[int, int]
    line_bytes: int = 0
    cap: int = 0

    @property
    def total(self) -> int:
        return sum(self.calls.values())


@dataclass(frozen=True)
class Dependent:
    """A shard whose tasks follow, row by row, from the rows of another shard."""

    number: int
    shard: Shard


@dataclass(frozen=True)
class Feed:
    """A shard whose durable rows flow to other shards."""

    number: int
    shard: Shard
    dependents: tuple[Dependent, ...]


@dataclass(frozen=True)
class Dispatch:
    """Order to complete open calls of one stage and provider and, by batch, one model.

    `feeds` are the shards among them whose rows flow on (see `flow`). If `is_flowing`, the calls come from rows that
    flowed here: many small dispatches follow, which take precedence over dispatches that are not read yet.
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
    """Counters of a channel since it opened."""

    channel: Channel
    counters: Counters


@dataclass(frozen=True)
class DispatchEnded:
    """All calls of a dispatch are answered, left open or in a batch, so its spools are no longer needed.

    Settling finds what an online dispatch left open. Rows in a batch are finished later, one batch after another.
    """

    order: int


@dataclass(frozen=True)
class ShardSettled:
    """The result of settling a shard with `total` tasks, of which `rows` have rows.

    `spool` holds its open calls, except the `given_up` ones of the rows to skip; `first_asks` of them are no re-asks.
    `view` means that a view waits to be published; `is_done`, that the published view has all rows.
    """

    settle: Settle
    total: int
    rows: int
    given_up: int = 0
    spool: Spool | None = None
    view: bool = False
    is_done: bool = False
    first_asks: int = 0

    @property
    def open(self) -> int:
        """Number of calls to send."""
        return self.spool.total if self.spool else 0


@dataclass(frozen=True)
class CallsSpooled:
    """Calls of dependents that follow from durable rows of feeds are in these spools."""

    spools: tuple[Spool, ...]


@dataclass(frozen=True)
class RowsComputed:
    """The view of a computed shard waits to be published; `note` is for the user."""

    compute: Compute
    rows: int
    note: str


@dataclass(frozen=True)
class ChannelEnded:
    """A channel has finished its calls in flight; its final counters came before this event."""

    channel: Channel


@dataclass(frozen=True)
class WorkerReplaced:
    """A worker of a channel died with its calls in flight and was replaced."""

    channel: Channel
    error: Exception


@dataclass(frozen=True)
class ExecutorDied:
    """An executor cannot continue; the run ends with this error."""

    error: Exception


Event = (
    CountersRead
    | CallsSpooled
    | DispatchEnded
    | ShardSettled
    | RowsComputed
    | ChannelEnded
    | WorkerReplaced
    | ExecutorDied
)


class Service(Protocol):
    """A service that works in parallel with the driver."""

    def poll(self) -> Sequence[Event]:
        """Return the events since the last call, without waiting."""

    def stop(self, drain_s: float) -> None:
        """Send no further requests; those in flight have `drain_s` seconds to end. Callable from any thread."""

    def end(self) -> Collection[Channel]:
        """Begin to shut down, and return the channels that will report ChannelEnded."""

    def close(self) -> None:
        """Release threads, processes and connections, even if some channels have not ended."""


class Executor(Service, Protocol):
    """A service that completes calls."""

    def start(self, dispatch: Dispatch) -> Channel:
        """Begin a dispatch, and return the channel that counts its rows.

        Raises:
            HabError: the provider or the executor cannot be used.
        """

    @property
    def is_parked(self) -> bool:
        """Whether all that is left to do is wait for vendors' batches, so that a detached run may end."""


class Workers(Service, Protocol):
    """A service that settles shards and computes rows."""

    def settle(self, order: Settle) -> None:
        """Begin to settle a shard."""

    def compute(self, order: Compute) -> None:
        """Begin to compute a shard's rows."""
