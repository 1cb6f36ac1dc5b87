"""What the channels of a run have done so far: taken in, added up, and noted at the shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.jobs import Counters, OpenKind
from hab_ray.executors.protocol import Channel
from hab_ray.prices import Mode
from hab_ray.progress import BatchProgress, Draining
from hab_ray.sweep.shards import ShardState


class RunCounters:
    """The newest counters of each channel, in nano-dollars where it is money. `shards` are in order of their numbers.

    `stops` says why a channel or one of its models was stopped, and `notes` what else the user should know.
    """

    def __init__(self, shards: Sequence[ShardState]) -> None:
        self._shards = shards
        self._tallies: dict[Channel, Counters] = {}
        self._deferred: Counter[int] = Counter()
        self.stops: dict[str, str] = {}
        self.notes: list[str] = []
        self.budget_reached = False

    @property
    def tallies(self) -> Mapping[Channel, Counters]:
        """The newest counters, by channel."""
        return self._tallies

    def of(self, channel: Channel) -> Counters:
        """The newest counters of a channel; empty ones before its first."""
        return self._tallies.get(channel, Counters())

    def of_batches(self, provider: str) -> BatchCounters:
        """The newest counters of a provider's batches."""
        tally = self._tallies.get(Channel(provider, Mode.BATCH))
        return tally if isinstance(tally, BatchCounters) else BatchCounters()

    def online(self) -> list[Counters]:
        """The counters of online channels."""
        return [tally for channel, tally in self._tallies.items() if channel.mode is Mode.ONLINE]

    def by_batch(self) -> list[BatchCounters]:
        """The counters of batch engines."""
        return [tally for tally in self._tallies.values() if isinstance(tally, BatchCounters)]

    def take_in(self, channel: Channel, tally: Counters) -> None:
        """Note what a channel has done; a shard whose calls are all through need not wait for its dispatch to end."""
        if isinstance(tally, BatchCounters):
            self.notes.extend(tally.notes)
            self._deferred += tally.deferred - self.of_batches(channel.provider).deferred
        self._tallies[channel] = tally
        for model, reason in tally.stops.items():
            self.stops[f"{channel} {model}".strip()] = reason
        for row in tally.open:
            if row.kind is OpenKind.STOPPED:
                continue
            self._shards[row.shard].given_up[row.row_id] = row.reason
            self.budget_reached |= row.kind is OpenKind.BUDGET
        for state in self._shards:
            if state.channel == channel:
                state.note(tally)

    def write_off(self, channel: Channel) -> None:
        """A channel did not end as it should: what it had in flight is cut off and counts as spent.

        Nobody will learn what those calls cost.
        """
        tally = self.of(channel)
        self._tallies[channel] = replace(
            tally,
            open=[],
            in_flight=Counter(),
            reserved_nanousd=0,
            lost_nanousd=tally.lost_nanousd + tally.reserved_nanousd,
            spent_nanousd=tally.spent_nanousd + tally.reserved_nanousd,
            cut=tally.cut + tally.in_flight,
            cut_nanousd=tally.cut_nanousd + tally.reserved_nanousd,
        )

    def was_deferred(self, state: ShardState) -> bool:
        """Whether a full queue has sent back rows of a shard since this was asked last."""
        return self._deferred.pop(state.number, 0) > 0

    def at_stake(self, left_s: float) -> Draining:
        """What is in flight while the run ends, for which so many seconds are left."""
        online = self.online()
        creating = [tally.creating_nanousd for tally in self.by_batch()]
        return Draining(
            left_s=left_s,
            calls=sum(sum(tally.in_flight.values()) for tally in online) + sum(map(bool, creating)),
            nanousd=sum(tally.reserved_nanousd for tally in online) + sum(creating),
        )

    def batches(self) -> tuple[BatchProgress, ...]:
        """The open batches."""
        return tuple(
            BatchProgress(
                name=batch.name,
                id=batch.batch_id,
                model=batch.intent.model,
                rows=batch.intent.rows,
                nanousd=batch.intent.nanousd,
                since=batch.since.isoformat(timespec="seconds"),
                state=batch.phase,
            )
            for tally in self.by_batch()
            for batch in tally.batches
        )
