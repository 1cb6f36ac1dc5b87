"""What the driver knows of each shard.

    waiting ── inputs there ──> settling ── all rows there ──> complete
                                settling ── calls open ──> ready ── dispatched ──> running
                                settling ── only rows left that this run gave up ──> stalled
                                settling ── makes no calls, rows not there ──> computing ──> complete
    running ── its calls are through, or its dispatches or channel ended ──> waiting (settled again: re-asks, the rest)

A shard that reads a source row by row is *fed* while that source is under way. It runs, too, once calls that followed
from rows of the source are dispatched, and may be settled early for rows that were there before. It is complete only
when it was settled after its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from hab_ray.catalog.prices import Mode
from hab_ray.engine.jobs import Counters
from hab_ray.executors.protocol import Channel, Dependent, Feed, ShardSettled, Spool
from hab_ray.stages.spec import Grain
from hab_ray.work import Input, Shard, Work


class ShardStatus(StrEnum):
    """Where a shard stands; see the module's drawing."""

    WAITING = "waiting"
    SETTLING = "settling"
    READY = "ready"
    RUNNING = "running"
    COMPUTING = "computing"
    COMPLETE = "complete"
    STALLED = "stalled"


UNDER_WAY = (ShardStatus.SETTLING, ShardStatus.RUNNING, ShardStatus.COMPUTING)


@dataclass
class ShardState:
    """One shard.

    `order` is that of its newest settling or computing; `is_early`: it was fed then. `total`, `settled` and `spool` are
    as of the last settling: its tasks, its rows, its open calls. `mode` is how its calls go out until it is settled
    again. Its calls are through once `finished` and `given_up` together have grown by `offered`, or none of
    `dispatches` is open. `empty_rounds` counts batches in a row that left as many rows open as there were.
    """

    number: int
    shard: Shard
    status: ShardStatus = ShardStatus.WAITING
    order: int = 0
    is_early: bool = False
    knows_tasks: bool = False
    total: int | None = None
    settled: int = 0
    spool: Spool | None = None
    mode: Mode | None = None
    channel: Channel | None = None
    dispatches: set[int] = field(default_factory=set)
    offered: int = 0
    finished: int = 0
    finished_before: int = 0
    failed: int = 0
    given_up: dict[str, str] = field(default_factory=dict)
    given_up_before: int = 0
    ready_since: float = inf
    empty_rounds: int = 0

    @property
    def open(self) -> int:
        """Its calls that may be sent, as of the last settling."""
        return self.spool.total if self.spool else 0

    def settle(self, order: int, is_early: bool) -> None:
        """It is being settled under this order."""
        self.status, self.order, self.is_early = ShardStatus.SETTLING, order, is_early

    def take_in(self, found: ShardSettled, was_deferred: bool) -> None:
        """Note what settling found. `was_deferred`: a full queue has sent back some of its rows since the last time."""
        left = found.open + found.given_up
        by_batch = self.channel is not None and self.channel.mode is Mode.BATCH
        empty = by_batch and not was_deferred and left >= self.open > 0
        self.empty_rounds = self.empty_rounds + 1 if empty else 0
        self.settled, self.spool, self.mode = found.rows, found.spool, None
        if self.shard.spec.makes_calls:
            self.total = found.total
        self.knows_tasks, self.finished_before = not self.is_early, self.finished
        if found.open:
            self.status = ShardStatus.READY
        elif self.is_early:
            self.status = ShardStatus.WAITING
        elif found.given_up:
            self.status = ShardStatus.STALLED
        elif not self.shard.spec.makes_calls and not found.is_done:
            self.status = ShardStatus.COMPUTING
        else:
            self.status = ShardStatus.COMPLETE

    def give_up(self, row_ids: Sequence[str], reason: str) -> None:
        """Its open calls are sent to nobody in this run."""
        self.given_up.update(dict.fromkeys(row_ids, reason))
        self.status, self.spool, self.ready_since = ShardStatus.STALLED, None, inf
        if self.is_early:
            self.status = ShardStatus.WAITING

    def put_off(self) -> None:
        """Its calls wait until its source is complete."""
        self.status, self.spool, self.ready_since = ShardStatus.WAITING, None, inf

    def start(self, order: int, channel: Channel, calls: int, counters: Counters) -> None:
        """Calls of this shard are on their way."""
        if self.status is not ShardStatus.RUNNING or channel != self.channel:
            self.finished = self.finished_before = counters.finished[self.number]
            self.given_up_before, self.offered = len(self.given_up), 0
        self.status, self.channel, self.ready_since = ShardStatus.RUNNING, channel, inf
        self.dispatches.add(order)
        self.offered += calls
        self.total = max(self.total or 0, self.settled + self.offered)

    def note(self, counters: Counters) -> None:
        """Take in what its channel has finished."""
        self.finished, self.failed = counters.finished[self.number], counters.failed[self.number]

    @property
    def is_through(self) -> bool:
        """Whether no call of it is on its way any more."""
        given_up = len(self.given_up) - self.given_up_before
        return not self.dispatches or self.finished - self.finished_before + given_up >= self.offered

    def wait(self) -> None:
        """Its calls are through: it is settled next."""
        self.status = ShardStatus.WAITING
        self.dispatches.clear()

    @property
    def just_finished(self) -> int:
        """Rows finished since the shard was last settled."""
        return self.finished - self.finished_before


@dataclass(frozen=True)
class ReadShard:
    """That a shard reads another one, row by row or whole; `partial`: also one whose other rows were given up."""

    source: ShardState
    grain: Grain
    partial: bool

    @property
    def is_there(self) -> bool:
        """Whether it can be read."""
        enough = (ShardStatus.COMPLETE, ShardStatus.STALLED) if self.partial else (ShardStatus.COMPLETE,)
        return self.source.status in enough

    @property
    def is_flowing(self) -> bool:
        """Whether it has calls on their way, whose rows may come."""
        return self.source.status in (ShardStatus.RUNNING, ShardStatus.SETTLING, ShardStatus.READY) or (
            self.source.status is ShardStatus.WAITING and self.source.order > 0
        )

    @property
    def may_come(self) -> bool:
        """Whether it can be read, or will be."""
        return self.is_there or self.source.status is not ShardStatus.STALLED


class Shards:
    """The shards of a run in the order of the method, and what follows from where they stand."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.all = [ShardState(number, shard) for number, shard in enumerate(work.shards())]
        by_shard = {state.shard: state for state in self.all}
        self._sources = [
            [
                ReadShard(by_shard[one.shard], _grain(work, state.shard, one), one.partial)
                for one in work.inputs(state.shard)
            ]
            for state in self.all
        ]

    def at(self, *statuses: ShardStatus) -> list[ShardState]:
        """The shards that stand at one of these."""
        return [state for state in self.all if state.status in statuses]

    def has_inputs(self, state: ShardState) -> bool:
        """Whether a shard's tasks are known; some read what there is of a source whose other rows were given up."""
        return all(read.is_there for read in self._sources[state.number])

    def is_fed(self, state: ShardState) -> bool:
        """Whether rows may still come from a source that a shard reads row by row, and all else it reads is there."""
        reads = [read for read in self._sources[state.number] if not read.is_there]
        return bool(reads) and all(read.grain is Grain.ROW and read.is_flowing for read in reads)

    def may_settle_early(self, state: ShardState) -> bool:
        """Whether a fed shard has rows to read that were there before, so that nobody feeds them."""
        sources = [read.source for read in self._sources[state.number] if not read.is_there]
        return self.is_fed(state) and not state.order and any(source.settled for source in sources)

    def takes_rows(self, state: ShardState) -> bool:
        """Whether calls that followed from rows may be sent, now or soon: once it was settled it has them itself."""
        early = state.is_early and state.status in (ShardStatus.SETTLING, ShardStatus.READY)
        return self.sends_rows(state) or early

    def sends_rows(self, state: ShardState) -> bool:
        """Whether calls that followed from rows may be sent now."""
        if state.status is ShardStatus.RUNNING:
            return not state.knows_tasks
        return state.status is ShardStatus.WAITING and self.is_fed(state)

    def let_go(self) -> None:
        """Have shards be settled whose calls are through and which nobody feeds any more."""
        for state in self.at(ShardStatus.RUNNING):
            if state.is_through and not self.is_fed(state):
                state.wait()

    def feed(self, state: ShardState) -> Feed | None:
        """The shards that rows of this one give calls to; None where there are none, or its own tasks may change."""
        if not all(read.source.status is ShardStatus.COMPLETE for read in self._sources[state.number]):
            return None
        readers = [
            Dependent(reader.number, reader.shard)
            for reader in self.all
            if reader.shard.spec.makes_calls and self._reads_rows_of(reader, state)
        ]
        return Feed(state.number, state.shard, tuple(readers)) if readers else None

    def _reads_rows_of(self, reader: ShardState, source: ShardState) -> bool:
        reads = self._sources[reader.number]
        by_row = any(read.source is source and read.grain is Grain.ROW for read in reads)
        return by_row and all(read.is_there or read.source is source for read in reads)

    def is_more_coming(self, stage: str) -> bool:
        """Whether shards of a stage are about to be ready: being settled, or their inputs are being made."""
        of_stage = [state for state in self.all if state.shard.stage == stage]
        sources = {read.source.number: read.source for state in of_stage for read in self._sources[state.number]}
        settling = any(state.status is ShardStatus.SETTLING for state in of_stage)
        return settling or any(source.status in UNDER_WAY for source in sources.values())

    def calls_to_come(self, like: ShardState) -> int:
        """How many calls the stage and model of a shard have left, counting what its sources will bring."""
        model = self._work.model(like.shard).name
        calling = [state for state in self.all if state.shard.stage == like.shard.stage]
        return sum(self._left(state) for state in calling if self._work.model(state.shard).name == model)

    def _left(self, state: ShardState) -> int:
        """Calls of a shard that are open or to come: as many as its first source has rows, until it is settled."""
        if state.knows_tasks:
            return 0 if state.status is ShardStatus.COMPLETE else state.open
        for read in self._sources[state.number][:1]:
            return max(0, self._rows_to_come(read.source) - state.settled) if read.may_come else 0
        return 0

    def _rows_to_come(self, source: ShardState) -> int:
        """The rows that a shard has or will have; as long as that is unknown, as many as the largest of its stage."""
        if source.total is not None:
            return source.total
        return max((state.total or 0 for state in self.all if state.shard.stage == source.shard.stage), default=0)

    def provider(self, state: ShardState) -> str:
        """The provider that a shard's calls go to."""
        return self._work.model(state.shard).entry.provider


def _grain(work: Work, shard: Shard, read: Input) -> Grain:
    """How a shard reads another one. Rows do not flow to a server of this machine.

    It answers one call after the other, and fast only while they begin alike: calls of two stages in turn would have it
    read their long prompts anew each time.
    """
    if read.grain is Grain.ROW and work.catalog.providers[work.model(shard).entry.provider].serve:
        return Grain.ALL
    return read.grain
