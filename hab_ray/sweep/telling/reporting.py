"""Tells the user, and the run folder, how far a run is and how it ended."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime

from hab_ray.catalog.prices import NANO
from hab_ray.cluster.metrics import RunMetrics
from hab_ray.engine.billing import billing_notes
from hab_ray.engine.jobs import Counters
from hab_ray.errors import Exit
from hab_ray.executors.protocol import Channel
from hab_ray.progress import PROGRESS, Draining, LastEnd, Progress, RowReason, RunEnd, StageProgress, read_progress
from hab_ray.stages import wiring
from hab_ray.storage.folder import Folder
from hab_ray.storage.run import FAILED, UNANSWERED
from hab_ray.sweep.budget import RunBudget
from hab_ray.sweep.shards import Shards, ShardState, ShardStatus
from hab_ray.sweep.telling.announcing import Announcer
from hab_ray.sweep.telling.counters import RunCounters
from hab_ray.sweep.telling.failed import FailureReport, failure_report
from hab_ray.sweep.telling.log import RunLog
from hab_ray.visible import log_json
from hab_ray.work import Work

SHOW_EVERY_S, PROGRESS_EVERY_S = 0.1, 5.0


class Reporter:
    """Reports on one run from the moment it is made.

    `announcer` shows a progress every `SHOW_EVERY_S` at most, with what is new for the `log`; the run folder has one
    in a while, and `metrics` report to others.
    """

    def __init__(
        self,
        work: Work,
        shards: Shards,
        counters: RunCounters,
        budget: RunBudget,
        announcer: Announcer,
        metrics: RunMetrics,
        log: RunLog,
    ) -> None:
        self._work, self._shards, self._counters, self._budget = work, shards, counters, budget
        self._announcer, self._metrics, self._log = announcer, metrics, log
        self._started, self._cpu_started = time.monotonic(), time.thread_time()
        self._shown = self._kept = float("-inf")
        self._earlier_nanousd = _paid_before(work.run.folder)

    def report(self, draining: Draining | None = None) -> None:
        """Show how far the run is, at most every `SHOW_EVERY_S`, and keep that every `PROGRESS_EVERY_S`.

        `draining` is what a stop waits for.
        """
        if time.monotonic() - self._shown < SHOW_EVERY_S:
            return
        self._shown = time.monotonic()
        progress = self._progress(draining)
        self._show(progress)
        if time.monotonic() - self._kept >= PROGRESS_EVERY_S:
            self._keep(progress)

    def report_last(self, exit: Exit) -> None:
        """Show and keep how far the run came, and how it ended."""
        progress = replace(self._progress(None), end=LastEnd.by(exit))
        self._show(progress)
        self._keep(progress)

    def _show(self, progress: Progress) -> None:
        self._announcer.announce(progress, self._log.entries(progress))
        self._metrics.report(self._counters.newest, progress, is_last=progress.end is not None)

    def end(self, exit: Exit) -> RunEnd:
        """Report for the last time, keep which rows have no answer and which have failed, and sum up.

        A run with a model, subject or judge that has rows, but none that can be used, is not complete.
        """
        found = FailureReport() if exit is Exit.INTERRUPTED else failure_report(self._work)
        if exit is Exit.COMPLETE and found.without_ok:
            exit = Exit.UNANSWERED
        self.report_last(exit)
        unanswered = self._unanswered()
        self._keep_rows(UNANSWERED, unanswered)
        if found.rows:
            self._keep_rows(FAILED, found.rows)
        elif exit is not Exit.INTERRUPTED:
            self._work.run.folder.delete(FAILED)
        counters = self._counters
        money = self._budget.money(counters)
        if counters.budget_reached and money:
            key = "budget.usd" if self._work.sweep.budget else "budget_usd"
            counters.notes.append(
                f"budget reached: ${money.spent / NANO:.4f} of ${money.budget / NANO:.4f} spent by this run; "
                f"raise {key} and give the same command again"
            )
        newest = counters.newest.values()
        return RunEnd(
            exit=exit,
            unanswered=unanswered,
            stops=dict(counters.stops),
            notes=(*counters.notes, *billing_notes(one.billing for one in newest)),
            calls=sum(t.calls for t in newest),
            cost_nanousd=sum(t.cost_nanousd for t in newest),
            money=money,
            batches=counters.batches(),
            cut=sum((t.cut for t in newest), Counter()),
            cut_nanousd=sum(t.cut_nanousd for t in newest),
            failed=found.failed,
            without_ok=found.without_ok,
        )

    def exit(self) -> Exit:
        """The exit status of a run that went as far as it goes."""
        if all(state.status is ShardStatus.COMPLETE for state in self._shards.all):
            return Exit.COMPLETE
        if self._counters.budget_reached:
            return Exit.BUDGET
        waits = self._counters.batches() and not any(state.given_up for state in self._shards.all)
        return Exit.PENDING if waits else Exit.UNANSWERED

    def _unanswered(self) -> tuple[RowReason, ...]:
        return tuple(
            RowReason(state.shard.file, row_id, reason)
            for state in self._shards.all
            if state.status is not ShardStatus.COMPLETE
            for row_id, reason in sorted(state.given_up.items())
        )

    def _progress(self, draining: Draining | None) -> Progress:
        counters = self._counters
        newest = counters.newest.values()
        return Progress(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            elapsed_s=round(time.monotonic() - self._started, 1),
            stages=tuple(_stages(self._work, self._shards, counters.newest)),
            calls=sum(t.calls for t in newest),
            retries=sum(t.retries for t in newest),
            cost_nanousd=sum(t.cost_nanousd for t in newest),
            notes=(*counters.notes, *(f"{who} stopped: {why}" for who, why in counters.stops.items())),
            money=self._budget.money(counters),
            batches=counters.batches(),
            draining=draining,
            driver_cpu_s=round(time.thread_time() - self._cpu_started, 2),
            store=str(self._work.sweep.store),
            computed=tuple(_computed(self._shards)),
            outages=counters.outages(),
            earlier_nanousd=self._earlier_nanousd,
        )

    def _keep_rows(self, file: str, rows: Iterable[RowReason]) -> None:
        self._work.run.folder.put(file, "".join(log_json(asdict(row)) + "\n" for row in rows).encode())

    def _keep(self, progress: Progress) -> None:
        self._kept = time.monotonic()
        self._work.run.folder.put(PROGRESS, progress.to_json())


def _paid_before(run: Folder) -> int:
    """What the run's earlier processes have paid, in nano-dollars, as the last of them reported."""
    try:
        last = read_progress(run.get(PROGRESS))
    except (FileNotFoundError, ValueError):
        return 0
    return last.cost_nanousd + last.earlier_nanousd


def _stages(work: Work, shards: Shards, counters: Mapping[Channel, Counters]) -> Iterator[StageProgress]:
    """How far each model is at each stage, in the order of the method."""
    cells: dict[tuple[str, str], list[ShardState]] = defaultdict(list)
    for state in (state for state in shards.all if state.shard.spec.makes_calls):
        cells[state.shard.stage, state.shard.name].append(state)
    for stage, name in sorted(cells, key=lambda c: list(wiring.stages()).index(c[0])):
        mine = cells[stage, name]
        model = work.model(mine[0].shard).name
        running = {s.channel for s in mine if s.status is ShardStatus.RUNNING and s.channel}
        yield StageProgress(
            stage=stage,
            model=name,
            total=sum(s.total or 0 for s in mine),
            done=sum(min(s.total or 0, s.settled + s.just_finished) for s in mine),
            failed=sum(s.failed for s in mine),
            in_flight=sum(counters[c].in_flight[model] for c in running & counters.keys()),
            answered=sum(one.finished[s.number] for s in mine for one in counters.values()),
        )


def _computed(shards: Shards) -> Iterator[StageProgress]:
    """The rows of the stages that make no calls, as far as this process has made them: it counts no frozen ones."""
    rows: Counter[tuple[str, str]] = Counter()
    for state in (state for state in shards.all if not state.shard.spec.makes_calls):
        rows[state.shard.stage, state.shard.name] += max(state.total or 0, state.settled)
    for (stage, name), made in (+rows).items():
        yield StageProgress(stage=stage, model=name, total=made, done=made, failed=0, in_flight=0)
