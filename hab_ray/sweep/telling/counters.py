"""What the channels of a run have done so far: taken in, added up, and noted at the shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hab_ray.catalog.prices import Mode
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.jobs import Counters, OpenKind
from hab_ray.engine.ledger import batch_progress
from hab_ray.executors.protocol import Channel
from hab_ray.progress import BatchProgress, Draining
from hab_ray.sweep.shards import ShardState


class RunCounters:
    """The newest counters of each channel, in nano-dollars where it is money. `shards` are in order of their numbers.

    `stops` says why a channel or one of its models was stopped, and `notes` what else the user should know.
    """

    def __init__(self, shards: Sequence[ShardState]) -> None:
        self._shards = shards
        self.newest: dict[Channel, Counters] = {}
        self._deferred: Counter[int] = Counter()
        self.stops: dict[str, str] = {}
        self.notes: list[str] = []
        self.budget_reached = False

    def of(self, channel: Channel) -> Counters:
        """The newest counters of a channel; empty ones before its first."""
        return self.newest.get(channel, Counters())

    def of_batches(self, provider: str) -> BatchCounters:
        """The newest counters of a provider's batches."""
        counted = self.newest.get(Channel(provider, Mode.BATCH))
        return counted if isinstance(counted, BatchCounters) else BatchCounters()

    def online(self) -> list[Counters]:
        """The counters of online channels."""
        return [counted for channel, counted in self.newest.items() if channel.mode is Mode.ONLINE]

    def by_batch(self) -> list[BatchCounters]:
        """The counters of batch engines."""
        return [counted for counted in self.newest.values() if isinstance(counted, BatchCounters)]

    def take_in(self, channel: Channel, counted: Counters) -> None:
        """Note what a channel has done; a shard whose calls are all through need not wait for its dispatch to end."""
        if isinstance(counted, BatchCounters):
            self.notes.extend(counted.notes)
            self._deferred += counted.deferred - self.of_batches(channel.provider).deferred
        self.newest[channel] = counted
        for model, reason in counted.stops.items():
            self.stops[f"{channel} {model}".strip()] = reason
        for row in counted.open:
            if row.kind is OpenKind.STOPPED:
                continue
            self._shards[row.shard].given_up[row.row_id] = row.reason
            self.budget_reached |= row.kind is OpenKind.BUDGET
        for state in self._shards:
            if state.channel == channel:
                state.note(counted)

    def write_off(self, channel: Channel) -> None:
        """A channel did not end as it should: what it had in flight counts as spent."""
        self.newest[channel] = self.of(channel).written_off()

    def outages(self) -> Mapping[str, str]:
        """What is said of the endpoints that cannot be reached now, by channel."""
        return {str(channel): str(counted.outage) for channel, counted in self.newest.items() if counted.outage}

    def was_deferred(self, state: ShardState) -> bool:
        """Whether a full queue has sent back rows of a shard since this was asked last."""
        return self._deferred.pop(state.number, 0) > 0

    def at_stake(self, left_s: float) -> Draining:
        """What is in flight while the run ends, for which so many seconds are left."""
        online = self.online()
        creating = [counted.creating_nanousd for counted in self.by_batch()]
        return Draining(
            left_s=left_s,
            calls=sum(sum(counted.in_flight.values()) for counted in online) + sum(map(bool, creating)),
            nanousd=sum(counted.reserved_nanousd for counted in online) + sum(creating),
        )

    def batches(self) -> tuple[BatchProgress, ...]:
        """The open batches."""
        return tuple(batch_progress(batch) for counted in self.by_batch() for batch in counted.batches)
