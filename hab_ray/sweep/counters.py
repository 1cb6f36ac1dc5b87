"""What the lanes and batch engines of a run have done so far: taken in, added up, and noted at the shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.jobs import Counters, OpenKind
from hab_ray.progress import BatchProgress, Draining
from hab_ray.sweep.tracks import Track


class RunCounters:
    """The newest tally of each lane, in nano-dollars where it is money. `tracks` are the shards, by number.

    `stops` says why a lane or one of its models was stopped, and `notes` what else the user should know.
    """

    def __init__(self, tracks: Sequence[Track]) -> None:
        self._tracks = tracks
        self._tallies: dict[str, Counters] = {}
        self._deferred: Counter[int] = Counter()
        self.stops: dict[str, str] = {}
        self.notes: list[str] = []
        self.budget_reached = False

    @property
    def tallies(self) -> Mapping[str, Counters]:
        """The newest tallies, by lane."""
        return self._tallies

    def of(self, lane: str) -> Counters:
        """The newest tally of a lane; an empty one before its first."""
        return self._tallies.get(lane, Counters())

    def online(self) -> list[Counters]:
        """The tallies of lanes."""
        return [tally for tally in self._tallies.values() if not isinstance(tally, BatchCounters)]

    def by_batch(self) -> list[BatchCounters]:
        """The tallies of batch engines."""
        return [tally for tally in self._tallies.values() if isinstance(tally, BatchCounters)]

    def take_in(self, lane: str, tally: Counters) -> None:
        """Note what a lane has done; a shard whose jobs are all finished need not wait for its pass to end."""
        if isinstance(tally, BatchCounters):
            self.notes.extend(tally.notes)
            before = self._tallies.get(lane)
            self._deferred += tally.deferred - (before.deferred if isinstance(before, BatchCounters) else Counter())
        self._tallies[lane] = tally
        for model, reason in tally.stops.items():
            self.stops[f"{lane} {model}".strip()] = reason
        for row in tally.open:
            if row.kind is OpenKind.STOPPED:
                continue
            self._tracks[row.shard].given_up[row.row_id] = row.reason
            self.budget_reached |= row.kind is OpenKind.BUDGET
        for track in self._tracks:
            if track.lane == lane:
                track.note(tally.finished[track.number], tally.failed[track.number])

    def was_deferred(self, track: Track) -> bool:
        """Whether a full queue has sent back rows of a shard since this was asked last."""
        return self._deferred.pop(track.number, 0) > 0

    def stopped(self, lane: str, model: str) -> str | None:
        """Why a lane sends nothing more to a model; None where it does."""
        stops = self.of(lane).stops
        return stops.get(model) or stops.get("")

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
