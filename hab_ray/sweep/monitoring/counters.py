"""The newest counters of a run's channels, their sums, and the updates of shards that follow from them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

from hab_ray.catalog.prices import Mode
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.jobs import Counters, OpenKind
from hab_ray.engine.ledger import Batch, batch_progress
from hab_ray.executors.protocol import Channel
from hab_ray.progress import BatchProgress, Draining
from hab_ray.sweep.shards import ShardState


class RunCounters:
    """The newest counters of each channel; money is in nano-dollars. `shards` are ordered by number.

    `epochs` are those of the run's processes. `stops` says why a channel or one of its models was first stopped;
    `notes` are further messages for the user.
    """

    def __init__(self, shards: Sequence[ShardState], epochs: Set[int]) -> None:
        self._shards, self._epochs = shards, epochs
        self.newest: dict[Channel, Counters] = {}
        self._deferred: Counter[int] = Counter()
        self.stops: dict[str, str] = {}
        self.notes: list[str] = []
        self.budget_reached = False

    def of(self, channel: Channel) -> Counters:
        """Return the newest counters of a channel, or empty ones."""
        return self.newest.get(channel, Counters())

    def of_batches(self, provider: str) -> BatchCounters:
        """Return the newest counters of a provider's batch engine, or empty ones."""
        counted = self.newest.get(Channel(provider, Mode.BATCH))
        return counted if isinstance(counted, BatchCounters) else BatchCounters()

    def online(self) -> list[Counters]:
        """Return the counters of online channels; a signal's thread may ask while the driver updates them."""
        return [counted for channel, counted in list(self.newest.items()) if channel.mode is Mode.ONLINE]

    def by_batch(self) -> list[BatchCounters]:
        """Return the counters of batch engines."""
        return [counted for counted in self.newest.values() if isinstance(counted, BatchCounters)]

    @property
    def is_collecting(self) -> bool:
        """Whether a batch has ended at its vendor, or may have, and its results are not all in the store."""
        return any(counted.ending for counted in self.by_batch())

    def update(self, channel: Channel, counted: Counters) -> None:
        """Replace a channel's counters, and update its shards: they need not wait for their dispatch to end."""
        if isinstance(counted, BatchCounters):
            self.notes.extend(counted.notes)
            self._deferred += counted.deferred - self.of_batches(channel.provider).deferred
        self.newest[channel] = counted
        for model, reason in counted.stops.items():
            self.stops.setdefault(f"{channel} {model}".strip(), reason)
        for row in counted.open:
            if row.kind is OpenKind.STOPPED:
                continue
            self._shards[row.shard].given_up[row.row_id] = row.reason
            self.budget_reached |= row.kind is OpenKind.BUDGET
        for state in self._shards:
            if state.channel == channel:
                state.update(counted)

    def write_off(self, channel: Channel) -> None:
        """Count the calls in flight of a channel that did not end cleanly as spent."""
        self.newest[channel] = self.of(channel).written_off()

    def outages(self) -> Mapping[str, str]:
        """Return the present outages by channel."""
        return {str(channel): str(counted.outage) for channel, counted in self.newest.items() if counted.outage}

    def was_deferred(self, state: ShardState) -> bool:
        """Return whether a full queue has returned rows of a shard since the last call."""
        return self._deferred.pop(state.number, 0) > 0

    def draining(self, left_s: float) -> Draining:
        """Return the calls and money in flight while the run ends, with `left_s` seconds left."""
        online = self.online()
        creating = [counted.creating_nanousd for counted in self.by_batch()]
        return Draining(
            left_s=left_s,
            calls=sum(sum(counted.in_flight.values()) for counted in online) + sum(map(bool, creating)),
            nanousd=sum(counted.reserved_nanousd for counted in online) + sum(creating),
        )

    def batches(self) -> tuple[BatchProgress, ...]:
        """Return the open batches, also those that other runs pay for."""
        return tuple(map(batch_progress, self._open_batches()))

    def own_batches(self) -> tuple[BatchProgress, ...]:
        """Return the open batches that this run pays for."""
        return tuple(batch_progress(one) for one in self._open_batches() if one.epoch in self._epochs)

    def _open_batches(self) -> Iterator[Batch]:
        return (batch for counted in self.by_batch() for batch in counted.batches)
