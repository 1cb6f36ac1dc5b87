"""The driver's batches: which shards go to a vendor's batch API, and the desk that brings them there."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime

from hab_ray.catalog import BatchHabits
from hab_ray.engine.batch import BatchEngine
from hab_ray.engine.budget import Money
from hab_ray.engine.desk import Desk
from hab_ray.engine.homes import BatchSurroundings, BatchTally
from hab_ray.engine.jobs import Job
from hab_ray.engine.ledger import Ledger, Phase
from hab_ray.engine.placing import Watch
from hab_ray.location import Location
from hab_ray.prices import Mode
from hab_ray.providers import connect, connect_batch
from hab_ray.providers.access import endpoint_of
from hab_ray.providers.base import Endpoint
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease import LeaseWatch
from hab_ray.storage.store import Store, StoreWriter
from hab_ray.sweep.tracks import Track
from hab_ray.work import Shard, Work

BARREN_BATCHES = 3


@dataclass(frozen=True)
class BatchSetup:
    """What the run gives its batches. `epochs` are the run's own, the present one included.

    `url` finds an endpoint, `money` the run's budget when the first is needed; `may_send` raises Interrupted once the
    user stops the run.
    """

    work: Work
    store: Location
    epoch: int
    epochs: frozenset[int]
    failures_since: int
    deadline: datetime | None
    url: Callable[[str], str]
    money: Callable[[], Money]
    may_send: Callable[[], None]


@dataclass(frozen=True)
class Route:
    """How a shard's calls go out, or why they do not."""

    mode: Mode
    refusal: str | None = None


@dataclass(frozen=True)
class _Pass:
    """Shards whose calls are being brought to a vendor; how many there are is known at its end."""

    lane: str
    tracks: Sequence[Track]
    offered_before: Mapping[int, int]
    end: Future[None]


class Batches:
    """All batches of a run. Engines start at the first need, or where the ledger has an open batch."""

    def __init__(self, setup: BatchSetup) -> None:
        self._setup = setup
        self._desk: Desk | None = None
        self._opened: set[str] = set()
        self._passes: list[_Pass] = []
        self._tallies: Mapping[str, BatchTally] = {}

    def take_up(self) -> None:
        """Wait for what earlier processes left open at the vendors."""
        folder = open_folder(self._setup.store)
        for provider in {m.entry.provider for m in self._setup.work.models.values()}:
            if any(batch.phase is not Phase.DONE for batch in Ledger(folder, provider).read()):
                self._open(provider)

    @property
    def _is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self._setup.deadline is not None and datetime.now(UTC) >= self._setup.deadline

    def route(self, track: Track, keys: Iterable[str], together: int) -> Route:
        """How a shard's open calls go out; `together` counts those of the same stage and model that are ready.

        Calls of which one is in an open batch wait for that. `auto` sends online what may not go by batch.
        """
        work = self._setup.work
        if self._desk and self._desk.holds(work.model(track.shard).entry.provider, keys):
            return Route(Mode.BATCH)
        if not work.wants_batch(track.shard, together):
            return Route(Mode.ONLINE)
        refusal = self._why_not(track)
        if refusal and work.mode(track.shard) == "auto":
            return Route(Mode.ONLINE)
        return Route(Mode.BATCH, refusal)

    def _why_not(self, track: Track) -> str | None:
        """Why nothing of a shard may be sent by batch any more; None where it may."""
        model = self._setup.work.model(track.shard)
        tally = self._tallies.get(lane_name(model.entry.provider), BatchTally())
        if refused := tally.why_refused(model.name):
            return f"{model.name} cannot be asked by batch: {refused}; give it `mode: auto` or `mode: online`"
        if self._is_late:
            return "the deadline has passed; give `mode: auto` or a later `deadline:`"
        if track.barren >= BARREN_BATCHES:
            return f"{BARREN_BATCHES} batches in a row brought no answer"
        return None

    def start(self, tracks: Sequence[Track]) -> None:
        """Send off the open calls of shards of one stage and model."""
        model = self._setup.work.model(tracks[0].shard)
        provider = model.entry.provider
        desk, lane = self._open(provider), lane_name(provider)
        before = self._tallies.get(lane, BatchTally())
        for track in tracks:
            track.start(lane, before.finished[track.number], offered=None)
        jobs = self._jobs([(t.number, t.shard, frozenset(t.given_up)) for t in tracks])
        offered_before = {t.number: before.offered[t.number] for t in tracks}
        self._passes.append(_Pass(lane, tracks, offered_before, desk.complete(provider, model.name, jobs)))

    def _jobs(self, shards: Sequence[tuple[int, Shard, frozenset[str]]]) -> Iterator[Job]:
        work = self._setup.work
        store = Store(open_folder(self._setup.store), self._setup.failures_since)
        for number, shard, skip in shards:
            for row_id, call in work.settled(shard, work.tasks(shard), store).open:
                if row_id not in skip:
                    yield Job(number, row_id, call)

    def tallies(self) -> Mapping[str, BatchTally]:
        """What has been done, by lane.

        Raises:
            HabError: an engine had to end.
        """
        ended = [p for p in self._passes if p.end.done()]
        if self._desk:
            self._tallies = _by_lane(self._desk.tallies())
        for one in ended:
            self._passes.remove(one)
            one.end.result()
            for track in one.tracks:
                track.offered = self._tallies[one.lane].offered[track.number] - one.offered_before[track.number]
        return self._tallies

    @property
    def is_settled(self) -> bool:
        """Whether all that can be sent is at the vendors."""
        tallies = self._tallies.values()
        return len(self._passes) == sum(t.stuck for t in tallies) and not any(t.doubts for t in tallies)

    def stop(self, drain_s: float) -> None:
        """Send nothing more; an open request that makes a batch has so many seconds. For any thread."""
        if self._desk:
            self._desk.stop(drain_s)

    def end(self) -> Future[None] | None:
        """Begin to end, where anything was begun; what is at the vendors stays there."""
        return self._desk.end() if self._desk else None

    def last_tallies(self) -> Mapping[str, BatchTally]:
        """What has been done, by lane, also where an engine had to end."""
        return _by_lane(self._desk.last_tallies()) if self._desk else {}

    def close(self) -> None:
        """Let go, once what `end` gave has ended."""
        if self._desk:
            self._desk.close()

    def _open(self, provider: str) -> Desk:
        self._desk = self._desk or Desk()
        if provider not in self._opened:
            entry = self._setup.work.catalog.providers[provider]
            endpoint = endpoint_of(provider, entry, self._setup.url(provider))
            money = self._setup.money()
            self._desk.open(provider, lambda: self._engine(endpoint, entry.batches, money))
            self._opened.add(provider)
        return self._desk

    def _engine(self, endpoint: Endpoint, habits: BatchHabits, money: Money) -> BatchEngine:
        setup, work, provider = self._setup, self._setup.work, endpoint.name
        folder = open_folder(setup.store)
        lease = LeaseWatch(folder, setup.epoch, time.monotonic)

        def guard() -> None:
            setup.may_send()
            lease.check()

        return BatchEngine(
            provider=connect(endpoint),
            api=connect_batch(endpoint),
            models={m.name: m.entry for m in work.models.values() if m.entry.provider == provider},
            ledger=Ledger(folder, provider),
            store=Store(folder, setup.failures_since),
            writer=StoreWriter(folder, setup.epoch, f"{provider}-batches", Mode.BATCH),
            habits=habits,
            world=BatchSurroundings(
                clock=time.monotonic,
                watch=Watch(lambda: datetime.now(UTC), guard, setup.epoch),
                money=money,
                token=lambda: f"hab-{secrets.token_hex(12)}",
                run=work.run_name,
                epochs=setup.epochs,
                deadline=setup.deadline,
            ),
        )


def _by_lane(tallies: Mapping[str, BatchTally]) -> Mapping[str, BatchTally]:
    return {lane_name(provider): tally for provider, tally in tallies.items()}


def lane_name(provider: str) -> str:
    """The name that a provider's batches have among the lanes."""
    return f"{provider} batches"
