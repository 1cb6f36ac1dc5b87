"""The driver's state of each shard.

    waiting ── inputs complete ──> settling ── no row missing ──> complete
                                   settling ── open calls ──> ready ── dispatched ──> running
                                   settling ── only given-up rows missing ──> stalled
                                   settling ── makes no calls, rows missing ──> computing ──> complete
    computing ── no rows to freeze ──> stalled
    running ── calls finished, or dispatches or channel ended ──> waiting (settled again: re-asks, missing rows)

A shard that reads a source row by row is *fed* while that source is unfinished. It is also running once calls that
follow from the source's rows are dispatched, and may be settled early for rows that existed before. It is complete only
after being settled later than its source.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from math import inf

from hab_ray.catalog.prices import Mode
from hab_ray.engine.jobs import Counters
from hab_ray.executors.protocol import Channel, Dependent, Feed, ShardSettled, Spool
from hab_ray.stages.spec import Grain
from hab_ray.work import Input, Shard, Work


class ShardStatus(StrEnum):
    """Status of a shard; see the diagram at the top of this module."""

    WAITING = "waiting"
    SETTLING = "settling"
    READY = "ready"
    RUNNING = "running"
    COMPUTING = "computing"
    COMPLETE = "complete"
    STALLED = "stalled"


IN_PROGRESS = (ShardStatus.SETTLING, ShardStatus.RUNNING, ShardStatus.COMPUTING)


@dataclass
class ShardState:
    """State of one shard.

    `order` is its newest settle or compute order; `is_early` means that it was still fed then. `total`, `settled` and
    `spool` are its tasks, rows and open calls as of the last settling. `mode` is how its calls are sent until it is
    settled again. Its calls are finished once `finished` and `given_up` together have grown by `offered`, or none of
    `dispatches` is open. `given_up` maps row ids to reasons. `empty_rounds` counts consecutive batches that answered
    no row. `first_asks` of the open calls were no re-asks; `repeats` counts the rounds after which there were as many
    again although all were answered online.
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
    first_asks: int = 0
    repeats: int = 0

    @property
    def open(self) -> int:
        """Calls that may be sent, as of the last settling."""
        return self.spool.total if self.spool else 0

    def settle(self, order: int, is_early: bool) -> None:
        """Note that an order to settle the shard was given."""
        self.status, self.order, self.is_early = ShardStatus.SETTLING, order, is_early

    def handle_settled(self, result: ShardSettled, was_deferred: bool) -> None:
        """Update by the result of settling. `was_deferred`: a full queue has returned some rows since the last time."""
        left = result.open + result.given_up
        by_batch = self.channel is not None and self.channel.mode is Mode.BATCH
        empty = by_batch and not was_deferred and left >= self.open > 0
        self.empty_rounds = self.empty_rounds + 1 if empty else 0
        online = self.channel is not None and self.channel.mode is Mode.ONLINE
        answered = online and self.knows_tasks and not self.is_early and self.just_finished >= self.open
        self.repeats += answered and result.first_asks >= self.first_asks > 0
        self.first_asks = result.first_asks
        self.settled, self.spool, self.mode = result.rows, result.spool, None
        if self.shard.spec.makes_calls:
            self.total = result.total
        self.knows_tasks, self.finished_before = not self.is_early, self.finished
        if result.open:
            self.status = ShardStatus.READY
        elif self.is_early:
            self.status = ShardStatus.WAITING
        elif result.given_up:
            self.status = ShardStatus.STALLED
        elif not self.shard.spec.makes_calls and not result.is_done:
            self.status = ShardStatus.COMPUTING
        else:
            self.status = ShardStatus.COMPLETE

    def give_up(self, row_ids: Sequence[str], reason: str) -> None:
        """Drop the open calls: this run does not send them."""
        self.given_up.update(dict.fromkeys(row_ids, reason))
        self.status = ShardStatus.WAITING if self.is_early else ShardStatus.STALLED
        self.spool, self.ready_since = None, inf

    def defer(self) -> None:
        """Drop the open calls until the shard's source is complete."""
        self.status, self.spool, self.mode, self.ready_since = ShardStatus.WAITING, None, None, inf

    def start(self, order: int, channel: Channel, calls: int, counters: Counters) -> None:
        """Note that `calls` of this shard were dispatched to `channel`, whose newest counters are `counters`."""
        if self.status is not ShardStatus.RUNNING or channel != self.channel:
            self.finished = self.finished_before = counters.finished[self.number]
            self.given_up_before, self.offered = len(self.given_up), 0
        self.status, self.channel, self.ready_since = ShardStatus.RUNNING, channel, inf
        self.dispatches.add(order)
        self.offered += calls
        self.total = max(self.total or 0, self.settled + self.offered)

    def update(self, counters: Counters) -> None:
        """Update the finished and failed rows from the counters of the shard's channel."""
        self.finished, self.failed = counters.finished[self.number], counters.failed[self.number]

    @property
    def is_finished(self) -> bool:
        """Whether none of the shard's calls is in flight or queued."""
        given_up = len(self.given_up) - self.given_up_before
        return not self.dispatches or self.finished - self.finished_before + given_up >= self.offered

    @property
    def just_finished(self) -> int:
        """Rows finished since the shard was last settled."""
        return self.finished - self.finished_before


@dataclass(frozen=True)
class ShardInput:
    """A shard that another one reads, row by row or whole; `partial` inputs may have given-up rows."""

    source: ShardState
    grain: Grain
    partial: bool

    @property
    def is_complete(self) -> bool:
        """Whether the input can be read whole."""
        enough = (ShardStatus.COMPLETE, ShardStatus.STALLED) if self.partial else (ShardStatus.COMPLETE,)
        return self.source.status in enough

    @property
    def is_flowing(self) -> bool:
        """Whether the source may still produce rows from open calls."""
        return self.source.status in (ShardStatus.RUNNING, ShardStatus.SETTLING, ShardStatus.READY) or (
            self.source.status is ShardStatus.WAITING and self.source.order > 0
        )


class Shards:
    """The shards of a run in the order of the method, and the rules that depend on their statuses."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.all = [ShardState(number, shard) for number, shard in enumerate(work.shards())]
        by_shard = {state.shard: state for state in self.all}
        self._by_stage: dict[str, list[ShardState]] = defaultdict(list)
        self._by_model: dict[tuple[str, str], list[ShardState]] = defaultdict(list)
        for state in self.all:
            self._by_stage[state.shard.stage].append(state)
            if state.shard.spec.makes_calls:
                self._by_model[state.shard.stage, work.model(state.shard).name].append(state)
        self._inputs = [
            [ShardInput(by_shard[i.shard], _grain(work, state.shard, i), i.partial) for i in work.inputs(state.shard)]
            for state in self.all
        ]
        self._readers: dict[int, list[ShardState]] = defaultdict(list)
        for reader in (state for state in self.all if state.shard.spec.makes_calls):
            for source in {one.source.number for one in self._inputs[reader.number] if one.grain is Grain.ROW}:
                self._readers[source].append(reader)

    def at(self, *statuses: ShardStatus) -> list[ShardState]:
        return [state for state in self.all if state.status in statuses]

    def has_inputs(self, state: ShardState) -> bool:
        """Whether all inputs of a shard can be read, and so its tasks are known."""
        return all(one.is_complete for one in self._inputs[state.number])

    def is_fed(self, state: ShardState) -> bool:
        """Whether a shard waits only for inputs that it reads row by row and that may still produce rows."""
        incomplete = [one for one in self._inputs[state.number] if not one.is_complete]
        return bool(incomplete) and all(one.grain is Grain.ROW and one.is_flowing for one in incomplete)

    def may_settle_early(self, state: ShardState) -> bool:
        """Whether a fed shard's sources have rows from an earlier process, for which no calls are queued."""
        sources = [one.source for one in self._inputs[state.number] if not one.is_complete]
        return self.is_fed(state) and not state.order and any(source.settled for source in sources)

    def accepts_flow(self, state: ShardState) -> bool:
        """Whether to queue calls that follow from rows; a full settling finds these calls itself."""
        early = state.is_early and state.status in (ShardStatus.SETTLING, ShardStatus.READY)
        return early or self.may_send_flow(state)

    def may_send_flow(self, state: ShardState) -> bool:
        """Whether calls that follow from rows may be sent now, not only queued."""
        if state.status is ShardStatus.RUNNING:
            return not state.knows_tasks
        return state.status is ShardStatus.WAITING and self.is_fed(state)

    def release_finished(self) -> None:
        """Mark running shards whose calls are finished, and which are no longer fed, as ready to be settled."""
        for state in self.at(ShardStatus.RUNNING):
            if state.is_finished and not self.is_fed(state):
                state.status = ShardStatus.WAITING
                state.dispatches.clear()

    def feed(self, state: ShardState) -> Feed | None:
        """Return the shards that get calls from rows of this one; None if there are none, or its tasks may change."""
        if not all(one.source.status is ShardStatus.COMPLETE for one in self._inputs[state.number]):
            return None
        readers = [
            Dependent(reader.number, reader.shard)
            for reader in self._readers[state.number]
            if all(one.is_complete or one.source is state for one in self._inputs[reader.number])
        ]
        return Feed(state.number, state.shard, tuple(readers)) if readers else None

    def is_more_coming(self, stage: str) -> bool:
        """Whether shards of a stage will soon be ready: they are being settled, or their sources are in progress."""
        of_stage = self._by_stage[stage]
        settling = any(state.status is ShardStatus.SETTLING for state in of_stage)
        inputs = (one for state in of_stage for one in self._inputs[state.number])
        return settling or any(one.source.status in IN_PROGRESS for one in inputs)

    def calls_to_come(self, like: ShardState) -> int:
        """Return how many calls the stage and model of a shard have left, including those from rows to come."""
        largest = cache(self._largest)
        alike = self._by_model[like.shard.stage, self._work.model(like.shard).name]
        return sum(self._calls_left(state, largest) for state in alike)

    def _calls_left(self, state: ShardState, largest: Callable[[str], int]) -> int:
        """Return a shard's calls left: one per row of its first source, until it is settled.

        While the final number of rows of the source is unknown, it is that of the largest shard of its stage.
        """
        if state.knows_tasks:
            return 0 if state.status is ShardStatus.COMPLETE else state.open
        for first in self._inputs[state.number][:1]:
            if first.is_complete or first.source.status is not ShardStatus.STALLED:
                total = first.source.total
                return max(0, (largest(first.source.shard.stage) if total is None else total) - state.settled)
        return 0

    def _largest(self, stage: str) -> int:
        return max(state.total or 0 for state in self._by_stage[stage])

    def provider(self, state: ShardState) -> str:
        """Return the provider of a shard's model."""
        return self._work.model(state.shard).entry.provider


def _grain(work: Work, shard: Shard, source: Input) -> Grain:
    """Return how a shard reads a source. Rows do not flow to a model server on this machine.

    It answers one call at a time and caches the prompt's beginning: alternating calls of two stages would make it
    process their long prompts each time.
    """
    if source.grain is Grain.ROW and work.catalog.providers[work.model(shard).entry.provider].serve:
        return Grain.ALL
    return source.grain
