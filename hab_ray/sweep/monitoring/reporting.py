"""Reports a run's progress and end to the user, the run folder and the metrics."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import pyarrow.compute as pc

from hab_ray.catalog.models import IF_SUBSTITUTED
from hab_ray.cluster.metrics import RunMetrics
from hab_ray.engine.jobs import Counters, billing_notes
from hab_ray.errors import Exit
from hab_ray.executors.budget import RunBudget
from hab_ray.executors.protocol import Channel
from hab_ray.progress import (
    PROGRESS,
    Draining,
    FailedRows,
    LastEnd,
    Progress,
    RowReason,
    RunEnd,
    StageProgress,
    read_progress,
)
from hab_ray.rows import State
from hab_ray.stages import wiring
from hab_ray.stages.graph import Shard
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.manifest import write_manifest
from hab_ray.storage.replies.parts import part_columns
from hab_ray.storage.replies.records import RecordKind, prefix_of
from hab_ray.storage.replies.store import Store, failed_keys
from hab_ray.storage.run import FAILED, UNANSWERED
from hab_ray.sweep.monitoring.announcing import Announcer
from hab_ray.sweep.monitoring.counters import RunCounters
from hab_ray.sweep.monitoring.log import RunLog
from hab_ray.sweep.shards import Shards, ShardState, ShardStatus
from hab_ray.visible import log_json
from hab_ray.work import Work, call_stage, serves_frozen

REASONS_SHOWN = 3
_IDS = ("id", "candidate_id", "test_id", "sample", "replicate")


@dataclass
class _Rows:
    """Row counts of a stage and model, or of a stage on one subject: by state in the views, and failures by reason.

    `substitutes` are the reasons of the `substituted` rows. `final` failures are not worth sending again.
    """

    states: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    substitutes: Counter[str] = field(default_factory=Counter)
    final: int = 0


@dataclass(frozen=True)
class FailureReport:
    """Permanently failed `rows`, their counts by stage and model, and messages on groups without a usable row."""

    rows: tuple[RowReason, ...] = ()
    failed: tuple[FailedRows, ...] = ()
    without_ok: tuple[str, ...] = ()


def failure_report(work: Work) -> FailureReport:
    """Read the states of all rows that come from calls: in the views, and in the store for embeddings, which have none.

    Raises:
        DamagedFile: a view or a file of the store cannot be read.
    """
    by_model: dict[tuple[str, str], _Rows] = defaultdict(_Rows)
    by_subject: dict[tuple[str, str], _Rows] = defaultdict(_Rows)
    failed_rows: list[RowReason] = []
    for shard, states, failed, substitutes in chain(_in_views(work), _without_view(work)):
        failed_rows += [RowReason(shard.file, _row_id(row), row["reason"]) for row in failed]
        by_model[shard.stage, shard.name].final += len(failed) if failed and serves_frozen(work, shard) else 0
        for rows in (by_model[shard.stage, shard.name], by_subject[shard.stage, shard.subject]):
            rows.states += states
            rows.reasons.update(row["reason"] for row in failed)
            rows.substitutes += substitutes
    groups = [(stage, f"of {name}", rows) for (stage, name), rows in by_model.items()]
    groups += [(stage, f"on {subject}", rows) for (stage, subject), rows in by_subject.items() if subject]
    return FailureReport(
        rows=tuple(failed_rows),
        failed=tuple(
            FailedRows(stage, name, rows.reasons.total(), tuple(rows.reasons.most_common(REASONS_SHOWN)), rows.final)
            for (stage, name), rows in by_model.items()
            if rows.reasons
        ),
        without_ok=tuple(_without_ok(*group) for group in groups if group[2].states and not group[2].states[State.OK]),
    )


# The rows of a shard by state, those that failed, and the reasons of those that another model answered.
_Found = tuple[Shard, Counter[str], list[dict[str, Any]], Counter[str]]


def _in_views(work: Work) -> Iterator[_Found]:
    folder = work.run.folder
    for shard in work.shards():
        if shard.spec.makes_calls and shard.spec.has_view and folder.exists(shard.file):
            table = part_columns(folder, shard.file, ["state", "reason", *_IDS])
            failed, substituted = (
                table.filter(pc.equal(table["state"], state.value)) for state in (State.FAILED, State.SUBSTITUTED)
            )
            states, substitutes = Counter(table["state"].to_pylist()), Counter(substituted["reason"].to_pylist())
            yield shard, states, failed.to_pylist(), substitutes


def _without_view(work: Work) -> Iterator[_Found]:
    """Yield the failed rows of shards without a view, whose other rows stay unread in the store."""
    folder = open_folder(work.sweep.store)
    store = Store(folder)
    for shard in work.shards():
        if not shard.spec.makes_calls or shard.spec.has_view:
            continue
        model = work.model(shard).name
        if folder.list(prefix_of(RecordKind.FAILURES, model)):
            tasks = work.tasks(shard)
            keys = [call.key for _, call in call_stage(work, shard).requests(tasks)]
            failing = failed_keys(folder, model, keys, since=0)
            asked = [task for task, key in zip(tasks, keys, strict=True) if key in failing]
            rows = work.settled(shard, asked, store).rows if asked else []
            yield shard, Counter(), [asdict(row) for row in rows if row.state is State.FAILED], Counter()


def _row_id(row: Mapping[str, Any]) -> str:
    return "#".join(str(row[name]) for name in _IDS if name in row and (name != "replicate" or row[name]))


def _without_ok(stage: str, of_or_on: str, rows: _Rows) -> str:
    states = ", ".join(f"{count} {state}" for state, count in rows.states.most_common())
    unusable = f"{stage}: none of the {rows.states.total():,} rows {of_or_on} can be used ({states})"
    if not rows.substitutes:
        return unusable
    ((answered, _),) = rows.substitutes.most_common(1)
    if answered.startswith("answered by ,"):
        return (
            f"{unusable}: the replies name no model, which only earlier versions of hab refused; another `run:` with "
            "the same `store:` uses these replies, and pays for none of them again"
        )
    return f"{unusable}: {answered}; {IF_SUBSTITUTED}"


SHOW_EVERY_S, PROGRESS_EVERY_S = 0.1, 5.0


class Reporter:
    """Reports on one run, whose time it counts from its construction.

    `announcer` shows progress and writes `log` entries at most every `SHOW_EVERY_S`; `metrics` are updated with it. The
    run folder gets the progress every `PROGRESS_EVERY_S`.
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
        self._shown = self._written = float("-inf")
        self._reported_before = _reported_before(work.run.folder)

    def report(self, draining: Draining | None = None) -> None:
        """Show the progress at most every `SHOW_EVERY_S`, and write it every `PROGRESS_EVERY_S`.

        `draining` holds the calls that a stopping run waits for.
        """
        if time.monotonic() - self._shown < SHOW_EVERY_S:
            return
        self._shown = time.monotonic()
        progress = self._progress(draining)
        self._show(progress)
        is_known = any(stage.total for stage in progress.stages)  # until then the last process's report says more
        if is_known and time.monotonic() - self._written >= PROGRESS_EVERY_S:
            self._write(progress)

    def report_last(self, exit: Exit) -> None:
        """Show and write the final progress with the exit status."""
        progress = replace(self._progress(None), end=LastEnd.by(exit))
        self._show(progress)
        self._write(progress)

    def _show(self, progress: Progress) -> None:
        self._announcer.announce(progress, self._log.entries(progress))
        self._metrics.report(self._counters.newest, progress, is_last=progress.end is not None)

    def end(self, exit: Exit) -> RunEnd:
        """Report a last time, write the lists of unanswered and failed rows and of files, and summarise the run.

        A run is not complete if a model, subject or judge has rows but no usable one.
        """
        failures = FailureReport() if exit is Exit.INTERRUPTED else failure_report(self._work)
        if exit is Exit.COMPLETE and failures.without_ok:
            exit = Exit.UNANSWERED
        self.report_last(exit)
        unanswered = self._unanswered()
        self._write_rows(UNANSWERED, unanswered)
        if failures.rows:
            self._write_rows(FAILED, failures.rows)
        elif exit is not Exit.INTERRUPTED:
            self._work.run.folder.delete(FAILED)
        if exit is not Exit.INTERRUPTED:
            write_manifest(self._work.run.folder)
        counters = self._counters
        newest = counters.newest.values()
        return RunEnd(
            exit=exit,
            unanswered=unanswered,
            stops=dict(counters.stops),
            notes=(*counters.notes, *billing_notes(newest)),
            calls=sum(t.calls for t in newest),
            cost_nanousd=sum(t.cost_nanousd for t in newest),
            lost_nanousd=sum(t.lost_nanousd for t in newest),
            money=self._budget.status(newest),
            batches=counters.own_batches(),
            cut=sum((t.cut for t in newest), Counter()),
            cut_nanousd=sum(t.cut_nanousd for t in newest),
            failed=failures.failed,
            without_ok=failures.without_ok,
        )

    def exit(self) -> Exit:
        """Return the exit status of a run that can do nothing more."""
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
        paid_before = self._budget.paid_before
        choosing, computing = being_computed(self._shards)
        return Progress(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            elapsed_s=round(time.monotonic() - self._started, 1),
            stages=tuple(_stages(self._work, self._shards, counters.newest)),
            calls=sum(t.calls for t in newest),
            retries=sum(t.retries for t in newest),
            cost_nanousd=sum(t.cost_nanousd for t in newest),
            notes=(*counters.notes, *(f"{who} stopped: {why}" for who, why in counters.stops.items())),
            money=self._budget.status(newest),
            batches=counters.batches(),
            draining=draining,
            driver_cpu_s=round(time.thread_time() - self._cpu_started, 2),
            store=str(self._work.sweep.store),
            computed=tuple(_computed(self._shards)),
            outages=counters.outages(),
            earlier_nanousd=self._reported_before if paid_before is None else paid_before,
            choosing=choosing,
            computing=computing,
        )

    def _write_rows(self, file: str, rows: Iterable[RowReason]) -> None:
        self._work.run.folder.put(file, "".join(log_json(asdict(row)) + "\n" for row in rows).encode())

    def _write(self, progress: Progress) -> None:
        self._written = time.monotonic()
        self._work.run.folder.put(PROGRESS, progress.to_json())


def _reported_before(run: Folder) -> int:
    """Return what the run's earlier processes reported to have paid; one that was killed may have paid more."""
    try:
        last = read_progress(run.get(PROGRESS))
    except (FileNotFoundError, ValueError):
        return 0
    return last.cost_nanousd + last.earlier_nanousd


def _stages(work: Work, shards: Shards, counters: Mapping[Channel, Counters]) -> Iterator[StageProgress]:
    groups: dict[tuple[str, str], list[ShardState]] = defaultdict(list)
    for state in (state for state in shards.all if state.shard.spec.makes_calls):
        groups[state.shard.stage, state.shard.name].append(state)
    order = list(wiring.stages())
    for (stage, name), states in sorted(groups.items(), key=lambda group: order.index(group[0][0])):
        model = work.model(states[0].shard).name
        running = {s.channel for s in states if s.status is ShardStatus.RUNNING and s.channel}
        yield StageProgress(
            stage=stage,
            model=name,
            total=sum(s.total or 0 for s in states),
            done=sum(min(s.total or 0, s.settled + s.just_finished) for s in states),
            failed=sum(s.failed for s in states),
            in_flight=sum(counters[c].in_flight[model] for c in running & counters.keys()),
            answered=sum(one.finished[s.number] for s in states for one in counters.values()),
        )


def being_computed(shards: Shards) -> tuple[int, tuple[str, ...]]:
    """Return in how many dimensions tests are being chosen, and the stages of packages that are computing rows."""
    counts = Counter(state.shard.stage for state in shards.all if state.status is ShardStatus.COMPUTING)
    packages = wiring.packages()
    named = tuple(f"{stage!r} of the package {packages[stage]}" for stage in counts if stage in packages)
    return sum(count for stage, count in counts.items() if stage not in packages), named


def _computed(shards: Shards) -> Iterator[StageProgress]:
    """Yield the rows that stages without calls have made in this process; rows frozen earlier are not counted."""
    rows: Counter[tuple[str, str]] = Counter()
    for state in (state for state in shards.all if not state.shard.spec.makes_calls):
        rows[state.shard.stage, state.shard.name] += max(state.total or 0, state.settled)
    for (stage, name), made in (+rows).items():
        yield StageProgress(stage=stage, model=name, total=made, done=made, failed=0, in_flight=0)
