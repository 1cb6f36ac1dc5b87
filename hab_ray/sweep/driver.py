"""The driver: one idempotent loop over the shards of a run.

Start, resume, collect after a detach and retry after an outage are this loop run again: nothing is kept but the
store, the ledger in it, and the views.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hab_ray.calls import Call
from hab_ray.engine.budget import Money as BudgetMoney
from hab_ray.errors import Exit, Interrupted
from hab_ray.prices import NANO, Mode
from hab_ray.progress import Progress, RunEnd
from hab_ray.resolve import read_record
from hab_ray.rows import ChosenTest
from hab_ray.serving import Endpoints
from hab_ray.stopping import DRAIN_S, LATE_S, Stop
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease import UNCLEAN_WAIT_S, LocalLease
from hab_ray.storage.registry import Registry
from hab_ray.storage.store import Store
from hab_ray.sweep.batches import Batches, BatchSetup, lane_name
from hab_ray.sweep.budget import RunBudget
from hab_ray.sweep.counters import RunCounters
from hab_ray.sweep.ending import Ending, written_off
from hab_ray.sweep.reporting import Reporter
from hab_ray.sweep.tracks import Phase, Track
from hab_ray.work import Shard, StageName, Work, tests_file

if TYPE_CHECKING:
    from hab_ray.cluster.lanes import Lanes, LaneSetup

POLL_S = 0.25
GATHER_S = 3.0


@dataclass
class _Pass:
    """A dataset on its way through a lane."""

    stage: StageName
    provider: str
    tracks: list[Track]
    end: Any


@dataclass(frozen=True)
class Options:
    """How a run is driven. `retry_failed` sends stored permanent failures again; `watch` sees every progress.

    `detach` ends the run once all that can be sent by batch is at the vendors. Once `stop` is requested, what is in
    flight has `drain_s` seconds.
    """

    retry_failed: bool = False
    detach: bool = False
    verbose: bool = False
    watch: Callable[[Progress], None] = lambda _: None
    stop: Stop = field(default_factory=Stop)
    drain_s: float = DRAIN_S


def drive(work: Work, lease: LocalLease, options: Options) -> RunEnd:
    """Run a sweep as far as it goes, under a lease that the caller holds.

    Raises:
        HabError: the run cannot go on (lease lost, a key missing, a damaged file, a process of Ray that died); what
            was in flight is in the store.
    """
    with ExitStack() as stack:
        driver = _Driver(work, lease, options, stack)
        return driver.run()


class _Driver:
    def __init__(self, work: Work, lease: LocalLease, options: Options, stack: ExitStack) -> None:
        self._work, self._lease, self._options, self._stack = work, lease, options, stack
        self._store_path = work.sweep.store.absolute()
        self._failures_since = lease.epoch if options.retry_failed else 0
        self._store = Store(open_folder(self._store_path), self._failures_since)
        self._tracks = {shard: Track(n, shard) for n, shard in enumerate(work.shards())}
        self._numbered = list(self._tracks.values())
        self._passes: list[_Pass] = []
        self._choosing: dict[Any, Track] = {}
        self._lanes: Lanes | None = None
        self._counters = RunCounters(self._numbered)
        self._budget = RunBudget(work.sweep.budget_usd, self._store.folder, self._store_path, lease)
        registry = Registry(self._store.folder, self._store_path)
        self._epochs = registry.epochs(work.run_id, work.run_path) | {lease.epoch}
        self._released_up_to = registry.released_up_to(work.run_id)
        self._endpoints = Endpoints(work, stack)
        self._reporter = Reporter(work, self._numbered, self._counters, self._budget, options.watch)
        self._not_before = 0.0 if lease.clean else time.time() + UNCLEAN_WAIT_S
        self._batches = Batches(
            BatchSetup(
                work=work,
                store=self._store_path,
                epoch=lease.epoch,
                epochs=self._epochs,
                failures_since=self._failures_since,
                deadline=self._deadline(),
                url=self._url,
                money=self._money_for_batches,
                may_send=options.stop.check,
            )
        )

    def _url(self, provider: str) -> str:
        """Where a provider is. A local model server takes up to a minute to start, which a signal ends."""
        with self._options.stop.immediate():
            return self._endpoints.url(provider)

    def _deadline(self) -> datetime | None:
        record, limit = read_record(self._work.run_path), self._work.sweep.time_limit
        return record.started + limit if record and limit else None

    def _money_for_batches(self) -> BudgetMoney:
        """The budget that batches draw from: one for all providers, shared with the lanes where there are any."""
        if not self._budget.is_limited or self._is_wholly_by_batch():
            return self._budget.local()
        self._ensure_ray()
        return self._budget.shared()

    def _is_wholly_by_batch(self) -> bool:
        """Whether no call of this run can go online, so that nobody else draws from its budget."""
        work = self._work
        return all(work.mode(s) == "batch" and work.model(s).entry.batch is not None for s in self._tracks)

    def _open_books(self) -> None:
        """Learn what the run has spent, and say what of it may be released."""
        earlier = self._epochs - {self._lease.epoch}
        stranded = self._budget.open_books(earlier, self._released_up_to, self._work.models)
        if stranded:
            self._counters.notes.append(
                f"${stranded / NANO:.4f} of what counts as spent was granted before an unclean end and "
                f"is not accounted for; if the vendors' bills show that it was not spent: `hab budget release "
                f"{self._work.run_path}`"
            )

    def run(self) -> RunEnd:
        """Reconcile, then end: on the first signal after the drain, without compaction and settling."""
        stop = self._options.stop
        with stop.last_words(self._write_off), stop.deferred(self._send_nothing_more, self._options.drain_s + LATE_S):
            try:
                self._place_given_tests()
                self._open_books()
                self._batches.take_up()
                self._reconcile()
            except (Interrupted, KeyboardInterrupt):
                self._drain()
                return self._reporter.end(Exit.INTERRUPTED)
            except Exception as error:
                self._drain()
                self._reporter.report_last()
                ours = self._as_ours(error)
                if ours is error:
                    raise
                raise ours from error
            self._drain()
        if stop.requested:
            return self._reporter.end(Exit.INTERRUPTED)
        try:
            for track in self._numbered:
                if track.phase is Phase.RUNNING:
                    self._settle(track)
            self._compact()
            return self._reporter.end(self._reporter.exit())
        except KeyboardInterrupt:
            return self._reporter.end(Exit.INTERRUPTED)

    def _as_ours(self, error: Exception) -> Exception:
        if self._lanes is None:
            return error
        from hab_ray.cluster.session import named

        return named(error)

    def _send_nothing_more(self) -> None:
        """Have lanes and batches begin no further request. For any thread."""
        self._batches.stop(self._options.drain_s)
        if self._lanes:
            self._lanes.stop(self._options.drain_s)

    def _drain(self) -> None:
        """Wait for what is in flight, as long as the drain allows, and keep it; write off what does not come."""
        self._send_nothing_more()
        drain_s = max(0.0, self._options.drain_s - self._options.stop.since_s)
        ends_at = time.monotonic() + drain_s
        ending = Ending(self._lanes, self._batches, drain_s)
        for told in ending.tallies():
            for lane, tally in told.items():
                self._counters.take_in(lane, tally)
            at_stake = self._counters.at_stake(max(0.0, ends_at - time.monotonic()))
            self._reporter.report(at_stake if at_stake.calls else None)
        for lane in ending.left_behind:
            self._counters.take_in(lane, written_off(self._counters.of(lane)))
        self._budget.keep_lost(self._counters)

    def _write_off(self) -> None:
        self._budget.write_off(self._counters)

    def _place_given_tests(self) -> None:
        if self._work.sweep.tests is None:
            return
        for dimension, tests in self._work.given_tests().items():
            self._work.run.write(ChosenTest, tests_file(dimension), tests)

    def _reconcile(self) -> None:
        while True:
            self._advance()
            self._options.stop.check()
            self._start_passes()
            if not self._is_under_way() or self._may_detach():
                return
            self._watch()

    def _is_under_way(self) -> bool:
        """Whether something will end; a pass whose shards are all done still keeps others of its kind waiting."""
        running = any(track.phase is Phase.RUNNING for track in self._numbered)
        return running or bool(self._passes) or bool(self._choosing)

    def _may_detach(self) -> bool:
        """Whether the user wants to leave and nothing is left to do but to wait for the vendors."""
        return self._options.detach and not self._passes and not self._choosing and self._batches.is_settled

    def _advance(self) -> None:
        """Settle every waiting shard whose inputs are there, in the order of the method."""
        for track in self._numbered:
            if track.phase is Phase.WAITING and self._has_inputs(track.shard):
                self._options.stop.check()
                self._settle(track)

    def _has_inputs(self, shard: Shard) -> bool:
        source = self._work.inputs(shard)
        if source is None:
            return True
        phase = self._tracks[source].phase
        partial = shard.stage is StageName.JUDGE and phase is Phase.STALLED
        return phase is Phase.COMPLETE or partial

    def _settle(self, track: Track) -> None:
        """Take a shard as far as the store has it, write its view, and say what is left."""
        work, shard = self._work, track.shard
        tasks = work.tasks(shard)
        track.total = len(tasks)
        if self._is_done(track):
            track.phase, track.settled = Phase.COMPLETE, track.total
            return
        settled = work.settled(shard, tasks, self._store)
        work.write(shard, settled.rows)
        track.settled = len(settled.rows)
        self._decide_mode(track, settled.open)
        track.open = sum(row_id not in track.given_up for row_id, _ in settled.open)
        if track.open:
            track.phase = Phase.READY
        elif settled.open:
            track.phase = Phase.STALLED
        elif shard.stage is StageName.SELECT:
            self._start_choosing(track)
        else:
            track.phase = Phase.COMPLETE

    def _decide_mode(self, track: Track, calls: Sequence[tuple[str, Call]]) -> None:
        """How a shard's open calls go out, or why they do not."""
        if not calls:
            return
        came_back = track.lane == lane_name(self._provider(track)) and len(calls) >= track.open > 0
        track.barren = track.barren + 1 if came_back and not self._counters.was_deferred(track) else 0
        ready = [t for t in self._numbered if t.phase is Phase.READY and self._alike(t, track)]
        together = len(calls) + sum(t.open for t in ready)
        route = self._batches.route(track, (call.key for _, call in calls), together)
        track.mode = route.mode
        reason = self._stopped(track) or route.refusal
        if reason:
            track.given_up.update((row_id, reason) for row_id, _ in calls)

    def _alike(self, one: Track, other: Track) -> bool:
        same_stage = one.shard.stage is other.shard.stage
        return same_stage and self._work.model(one.shard).name == self._work.model(other.shard).name

    def _stopped(self, track: Track) -> str | None:
        """Why nothing more is sent to a shard's model by batch."""
        return self._counters.stopped(lane_name(self._provider(track)), self._work.model(track.shard).name)

    def _is_done(self, track: Track) -> bool:
        run, shard = self._work.run, track.shard
        if shard.stage is StageName.SELECT:
            return run.has(shard.file)
        return not self._options.retry_failed and run.count(shard.file) == track.total

    def _start_choosing(self, track: Track) -> None:
        self._ensure_ray()
        from hab_ray.cluster.clustering import start_choosing

        track.phase = Phase.CHOOSING
        self._choosing[start_choosing(self._work, track.shard, self._store_path)] = track

    def _start_passes(self) -> None:
        """One dataset for each stage and provider that has ready shards and none under way."""
        busy = {(p.stage, p.provider) for p in self._passes}
        ready: dict[tuple[StageName, str], list[Track]] = defaultdict(list)
        batched: dict[tuple[StageName, str], list[Track]] = defaultdict(list)
        for track in self._numbered:
            if track.phase is Phase.READY and track.mode is Mode.BATCH:
                batched[track.shard.stage, self._work.model(track.shard).name].append(track)
            elif track.phase is Phase.READY:
                ready[track.shard.stage, self._provider(track)].append(track)
        for (stage, _), tracks in batched.items():
            if self._gathered(stage, tracks):
                self._batches.start(tracks)
        for (stage, provider), tracks in ready.items():
            if (stage, provider) not in busy and self._gathered(stage, tracks):
                self._start_pass(stage, provider, tracks)

    def _gathered(self, stage: StageName, tracks: list[Track]) -> bool:
        """Whether a pass is worth its start: nothing more is about to be ready, or the first has waited enough."""
        now = time.monotonic()
        for track in tracks:
            track.ready_since = min(track.ready_since, now)
        sources = {self._work.inputs(t.shard) for t in self._numbered if t.shard.stage is stage}
        coming = any(self._tracks[s].phase in (Phase.RUNNING, Phase.CHOOSING) for s in sources if s)
        return not coming or now - min(t.ready_since for t in tracks) >= GATHER_S

    def _provider(self, track: Track) -> str:
        return self._work.model(track.shard).entry.provider

    def _start_pass(self, stage: StageName, provider: str, tracks: list[Track]) -> None:
        lane = self._ensure_ray().get(provider, lambda: self._setup(provider))
        from hab_ray.cluster.pipelines import OpenShard, open_calls

        shards = [OpenShard(t.number, t.shard, frozenset(t.given_up)) for t in tracks]
        done_before = self._counters.of(provider).finished
        for track in tracks:
            track.start(provider, done_before[track.number], track.open)
        calls = open_calls(self._work, shards, self._store_path, self._failures_since)
        self._passes.append(_Pass(stage, provider, tracks, lane.complete.remote(calls)))

    def _ensure_ray(self) -> Lanes:
        if self._lanes is None:
            from hab_ray.cluster.lanes import Lanes
            from hab_ray.cluster.session import ray_session

            with self._options.stop.immediate():
                self._stack.enter_context(ray_session(self._options.verbose))
            self._lanes = Lanes()
            self._budget.start_actor()
            for provider in self._needed():
                self._lanes.start(provider, self._setup(provider))
        return self._lanes

    def _needed(self) -> list[str]:
        """The providers of what may go online, those that `hab` serves itself last: their server has to start."""
        open_tracks = (t for t in self._numbered if t.phase is not Phase.COMPLETE)
        providers = {self._provider(t) for t in open_tracks if self._work.mode(t.shard) != "batch"}
        return sorted(providers, key=lambda name: (self._work.catalog.providers[name].serve, name))

    def _setup(self, provider: str) -> LaneSetup:
        from hab_ray.cluster.lanes import LaneSetup

        return LaneSetup(
            provider=provider,
            entry=self._work.catalog.providers[provider],
            url=self._url(provider),
            models={m.name: m.entry for m in self._work.models.values() if m.entry.provider == provider},
            store=self._store_path,
            epoch=self._lease.epoch,
            failures_since=self._failures_since,
            not_before=self._not_before,
            budget=self._budget.actor,
        )

    def _watch(self) -> None:
        """Wait a little, then take in what lanes, batches, passes and clusterings say.

        Raises:
            Interrupted: the user stops the run.
            EngineBroke: a process of Ray died.
        """
        ended = self._wait()
        self._take_in_tallies()
        for running in [p for p in self._passes if p.end in ended]:
            self._passes.remove(running)
            for track in running.tracks:
                track.phase = Phase.WAITING if track.phase is Phase.RUNNING else track.phase
        for ref in [ref for ref in self._choosing if ref in ended]:
            self._keep_tests(self._choosing.pop(ref), *ended[ref])
        self._reporter.report()

    def _wait(self) -> dict[Any, Any]:
        """What Ray has ended meanwhile, and what came of it."""
        providers = {p.end: f"the worker that calls {p.provider}" for p in self._passes}
        under_way = [*providers, *self._choosing]
        if not under_way:
            time.sleep(POLL_S)
            self._options.stop.check()
            return {}
        from hab_ray.cluster.session import finished, must_be_alive, result

        must_be_alive()
        ended = finished(under_way, POLL_S)
        self._options.stop.check()
        return {ref: result(ref, providers.get(ref, "a worker that chooses tests")) for ref in ended}

    def _take_in_tallies(self) -> None:
        lanes = self._lanes.tallies() if self._lanes else {}
        for lane, tally in (*lanes.items(), *self._batches.tallies().items()):
            self._counters.take_in(lane, tally)
        self._budget.keep_lost(self._counters)

    def _keep_tests(self, track: Track, tests: list[ChosenTest], note: str) -> None:
        """Freeze a dimension's tests: they are never chosen again."""
        if note:
            self._counters.notes.append(f"{track.shard.dimension}: {note}")
        self._work.run.write(ChosenTest, track.shard.file, tests)
        track.phase = Phase.COMPLETE

    def _compact(self) -> None:
        for model in self._work.models:
            self._store.compact(model, self._lease.epoch)
