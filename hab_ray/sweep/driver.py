"""The driver: one idempotent loop over the shards of a run.

Start, resume, collect after a detach and retry after an outage are this loop run again: nothing is kept but the
store, the ledger in it, and the views.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hab_ray.calls import Call
from hab_ray.engine.billing import billing_notes
from hab_ray.engine.books import open_budget, opening
from hab_ray.engine.budget import Budget, LocalMoney, Opening, unlimited
from hab_ray.engine.budget import Money as BudgetMoney
from hab_ray.engine.homes import BatchTally
from hab_ray.engine.jobs import OpenKind, Tally
from hab_ray.errors import Exit, Interrupted
from hab_ray.prices import NANO, Mode
from hab_ray.progress import BatchProgress, Draining, Money, Progress, RunEnd, Unanswered
from hab_ray.resolve import read_record
from hab_ray.rows import ChosenTest
from hab_ray.serving import Endpoints
from hab_ray.stopping import DRAIN_S, LATE_S, Stop
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease import UNCLEAN_WAIT_S, WATCH_EVERY_S, LocalLease
from hab_ray.storage.registry import Registry
from hab_ray.storage.run import PROGRESS
from hab_ray.storage.spending import keep_lost
from hab_ray.storage.store import Store
from hab_ray.sweep.batches import Batches, BatchSetup, lane_name
from hab_ray.sweep.ending import Ending, written_off
from hab_ray.sweep.tracks import Phase, Track, stage_progress
from hab_ray.visible import log_json
from hab_ray.work import Shard, StageName, Work, tests_file

if TYPE_CHECKING:
    from hab_ray.cluster.lanes import Lanes, LaneSetup

POLL_S = 0.25
GATHER_S = 3.0
PROGRESS_EVERY_S = 5.0
UNANSWERED = "log/unanswered.jsonl"


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
        self._store_path = Path(work.sweep.store).absolute()
        self._failures_since = lease.epoch if options.retry_failed else 0
        self._store = Store(open_folder(self._store_path), self._failures_since)
        self._tracks = {shard: Track(n, shard) for n, shard in enumerate(work.shards())}
        self._numbered = list(self._tracks.values())
        self._passes: list[_Pass] = []
        self._choosing: dict[Any, Track] = {}
        self._lanes: Lanes | None = None
        self._tallies: dict[str, Tally] = {}
        self._stops: dict[str, str] = {}
        self._notes: list[str] = []
        self._budget = None if work.sweep.budget_usd is None else round(work.sweep.budget_usd * NANO)
        registry = Registry(self._store.folder, self._store_path)
        self._epochs = registry.epochs(work.run_id, work.run_path) | {lease.epoch}
        self._released_up_to = registry.released_up_to(work.run_id)
        self._before = Opening()
        self._lost = 0
        self._budget_reached = False
        self._budget_actor: Any = None
        self._own_money: LocalMoney | None = None
        self._endpoints = Endpoints(work, stack)
        self._started = time.monotonic()
        self._reported = float("-inf")
        self._draining: Draining | None = None
        self._not_before = 0.0 if lease.clean else time.time() + UNCLEAN_WAIT_S
        self._deferred: Counter[int] = Counter()
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
        if self._budget is None:
            return unlimited()
        if self._is_wholly_by_batch():
            self._own_money = self._own_money or LocalMoney(self._open_budget(self._budget))
            return self._own_money
        self._ensure_ray()
        from hab_ray.cluster.limits import SharedMoney

        return SharedMoney(self._budget_actor)

    def _is_wholly_by_batch(self) -> bool:
        """Whether no call of this run can go online, so that nobody else draws from its budget."""
        work = self._work
        return all(work.mode(s) == "batch" and work.model(s).entry.batch is not None for s in self._tracks)

    def _open_budget(self, limit: int) -> Budget:
        return open_budget(limit, self._before, self._store.folder, self._lease.epoch, time.monotonic)

    def _open_books(self) -> None:
        """Learn what the run has spent. After an unclean end, not before that process's budget grants no more."""
        if self._budget is None:
            return
        if not self._lease.clean:
            time.sleep(2 * WATCH_EVERY_S)
        earlier = self._epochs - {self._lease.epoch}
        self._before = opening(self._store.folder, earlier, self._released_up_to)
        if self._before.stranded:
            self._notes.append(
                f"${self._before.stranded / NANO:.4f} of what counts as spent was granted before an unclean end and "
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
                return self._end(Exit.INTERRUPTED)
            except Exception as error:
                self._drain()
                self._report(final=True)
                ours = self._as_ours(error)
                if ours is error:
                    raise
                raise ours from error
            self._drain()
        if stop.requested:
            return self._end(Exit.INTERRUPTED)
        try:
            for track in self._numbered:
                if track.phase is Phase.RUNNING:
                    self._settle(track)
            self._compact()
            return self._end(self._exit())
        except KeyboardInterrupt:
            return self._end(Exit.INTERRUPTED)

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
                self._take_in_any(lane, tally)
            at_stake = self._at_stake(max(0.0, ends_at - time.monotonic()))
            self._draining = at_stake if at_stake.calls else None
            self._report()
        for lane in ending.left_behind:
            self._take_in(lane, written_off(self._tallies.get(lane, Tally())))
        self._draining = None
        self._keep_lost()

    def _at_stake(self, left_s: float) -> Draining:
        online = [t for t in self._tallies.values() if not isinstance(t, BatchTally)]
        creating = [t.creating_nanousd for t in self._tallies.values() if isinstance(t, BatchTally)]
        return Draining(
            left_s=left_s,
            calls=sum(sum(t.in_flight.values()) for t in online) + sum(map(bool, creating)),
            nanousd=sum(t.reserved_nanousd for t in online) + sum(creating),
        )

    def _write_off(self) -> None:
        """Before the process is ended by force: what is in flight counts as spent."""
        online = (t for t in self._tallies.values() if not isinstance(t, BatchTally))
        lost = sum(t.lost_nanousd + t.reserved_nanousd for t in online)
        if lost:
            keep_lost(self._store.folder, self._lease.epoch, lost)

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
        track.barren = track.barren + 1 if came_back and not self._deferred.pop(track.number, 0) else 0
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
        provider, model = self._provider(track), self._work.model(track.shard).name
        tally = self._tallies.get(lane_name(provider))
        return (tally.stops.get(model) or tally.stops.get("")) if tally else None

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
        done_before = self._tallies[provider].finished if provider in self._tallies else {}
        for track in tracks:
            track.start(provider, done_before.get(track.number, 0), track.open)
        calls = open_calls(self._work, shards, self._store_path, self._failures_since)
        self._passes.append(_Pass(stage, provider, tracks, lane.complete.remote(calls)))

    def _ensure_ray(self) -> Lanes:
        if self._lanes is None:
            from hab_ray.cluster.lanes import Lanes
            from hab_ray.cluster.session import ray_session

            with self._options.stop.immediate():
                self._stack.enter_context(ray_session(self._options.verbose))
            self._lanes = Lanes()
            if self._budget is not None:
                from hab_ray.cluster.limits import BudgetSetup, budget_actor

                setup = BudgetSetup(self._budget, self._before, self._store_path, self._lease.epoch)
                self._budget_actor = budget_actor(setup)
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
            budget=self._budget_actor,
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
        self._report()

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
            self._take_in_any(lane, tally)
        self._keep_lost()

    def _take_in_any(self, lane: str, tally: Tally) -> None:
        if isinstance(tally, BatchTally):
            self._notes.extend(tally.notes)
            before = self._tallies.get(lane)
            self._deferred += tally.deferred - (before.deferred if isinstance(before, BatchTally) else Counter())
        self._take_in(lane, tally)

    def _keep_lost(self) -> None:
        lost = sum(t.lost_nanousd for t in self._tallies.values() if not isinstance(t, BatchTally))
        if lost != self._lost:
            self._lost = lost
            keep_lost(self._store.folder, self._lease.epoch, lost)

    def _take_in(self, lane: str, tally: Tally) -> None:
        """Note what a lane has done; a shard whose jobs are all finished need not wait for its pass to end."""
        self._tallies[lane] = tally
        for model, reason in tally.stops.items():
            self._stops[f"{lane} {model}".strip()] = reason
        for row in tally.open:
            if row.kind is OpenKind.STOPPED:
                continue
            self._numbered[row.shard].given_up[row.row_id] = row.reason
            self._budget_reached |= row.kind is OpenKind.BUDGET
        for track in self._numbered:
            if track.lane == lane:
                track.note(tally.finished[track.number], tally.failed[track.number])

    def _keep_tests(self, track: Track, tests: list[ChosenTest], note: str) -> None:
        """Freeze a dimension's tests: they are never chosen again."""
        if note:
            self._notes.append(f"{track.shard.dimension}: {note}")
        self._work.run.write(ChosenTest, track.shard.file, tests)
        track.phase = Phase.COMPLETE

    def _compact(self) -> None:
        for model in self._work.models:
            self._store.compact(model, self._lease.epoch)

    def _report(self, final: bool = False) -> None:
        progress = self._progress()
        self._options.watch(progress)
        now = time.monotonic()
        if final or now - self._reported >= PROGRESS_EVERY_S:
            self._reported = now
            self._work.run.folder.put(PROGRESS, progress.to_json())

    def _progress(self) -> Progress:
        tallies = self._tallies.values()
        return Progress(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            elapsed_s=round(time.monotonic() - self._started, 1),
            stages=tuple(stage_progress(self._numbered, lambda t: self._work.model(t.shard).name, self._tallies)),
            calls=sum(t.calls for t in tallies),
            retries=sum(t.retries for t in tallies),
            cost_nanousd=sum(t.cost_nanousd for t in tallies),
            notes=(*self._notes, *(f"{who} stopped: {why}" for who, why in self._stops.items())),
            money=self._money(),
            batches=self._batch_progress(),
            draining=self._draining,
        )

    def _money(self) -> Money | None:
        if self._budget is None:
            return None
        tallies = self._tallies.values()
        spent = self._before.spent + sum(t.spent_nanousd for t in tallies)
        reserved = sum(t.reserved_nanousd for t in tallies)
        return Money(spent, reserved, self._budget, self._before.stranded)

    def _batch_progress(self) -> tuple[BatchProgress, ...]:
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
            for tally in self._tallies.values()
            if isinstance(tally, BatchTally)
            for batch in tally.batches
        )

    def _end(self, exit: Exit) -> RunEnd:
        self._report(final=True)
        unanswered = tuple(
            Unanswered(track.shard.file, row_id, reason)
            for track in self._numbered
            if track.phase is not Phase.COMPLETE
            for row_id, reason in sorted(track.given_up.items())
        )
        self._work.run.folder.put(UNANSWERED, _lines(unanswered))
        money = self._money()
        if self._budget_reached and money:
            self._notes.append(
                f"budget reached: ${money.spent / NANO:.4f} of ${money.budget / NANO:.4f} spent by this run; "
                "raise budget_usd and give the same command again"
            )
        tallies = self._tallies.values()
        return RunEnd(
            exit=exit,
            unanswered=unanswered,
            stops=dict(self._stops),
            notes=(*self._notes, *billing_notes(tallies)),
            calls=sum(t.calls for t in tallies),
            cost_nanousd=sum(t.cost_nanousd for t in tallies),
            money=money,
            batches=self._batch_progress(),
            cut=sum((t.cut for t in tallies), Counter()),
            cut_nanousd=sum(t.cut_nanousd for t in tallies),
        )

    def _exit(self) -> Exit:
        if all(track.phase is Phase.COMPLETE for track in self._numbered):
            return Exit.COMPLETE
        if self._budget_reached:
            return Exit.BUDGET
        return Exit.PENDING if self._pending() else Exit.UNANSWERED

    def _pending(self) -> bool:
        """Whether rows wait for batches, and none was given up."""
        return bool(self._batch_progress()) and not any(track.given_up for track in self._numbered)


def _lines(unanswered: tuple[Unanswered, ...]) -> bytes:
    return "".join(log_json(asdict(row)) + "\n" for row in unanswered).encode()
