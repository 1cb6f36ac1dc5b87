"""Flow: building the calls of dependents from rows of their sources as soon as these are durable.

    job, outcome ── source's stage.parse ──> row ── dependents' stage.tasks, .requests ──> calls ──> one spool per model

It runs in the process that has the outcomes, so that they need not be read from the store again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from hab_ray.calls import Outcome
from hab_ray.engine.jobs import Job
from hab_ray.errors import EngineBroke
from hab_ray.executors.protocol import Dependent, Feed, Spool
from hab_ray.executors.settling import WorkerContext
from hab_ray.resources import exits_refused
from hab_ray.stages.base import Again, Rows
from hab_ray.work import Shard, Work, call_stage


class DependentCalls:
    """The feeds of one executor. `writer` names its files and must be unique in this epoch.

    Its methods may run in any thread, one at a time.
    """

    def __init__(self, site: WorkerContext, writer: str) -> None:
        self._site, self._writer = site, writer
        self._sources: dict[int, _Source] = {}
        self._files = 0

    def follow(self, feeds: Iterable[Feed]) -> None:
        for feed in feeds:
            self._sources[feed.number] = _Source(self._site.work, feed)

    @exits_refused()
    def handle(self, durable: Sequence[tuple[Job, Outcome]]) -> list[Spool]:
        """Spool the calls that follow from outcomes in the store.

        Raises:
            DamagedFile, OSError: a file of the run cannot be read or written.
        """
        outcomes: dict[int, list[tuple[int, Outcome]]] = defaultdict(list)
        for job, outcome in durable:
            if job.shard in self._sources and job.task is not None:
                outcomes[job.shard].append((job.task, outcome))
        jobs: dict[tuple[str, str], list[Job]] = defaultdict(list)
        for number, found in outcomes.items():
            for reader in self._sources[number].readers:
                jobs[reader.stage_name, reader.model.name] += reader.jobs(self._sources[number].rows(found))
        return [self._spool(stage, model, calls) for (stage, model), calls in jobs.items() if calls]

    def _spool(self, stage: str, model: str, jobs: Sequence[Job]) -> Spool:
        self._files += 1
        work = self._site.work
        return self._site.pending.spool_flow(self._writer, self._files, stage, work.models[model], jobs)


class _Source:
    """A shard whose rows flow. It loads its tasks at the first row."""

    def __init__(self, work: Work, feed: Feed) -> None:
        self._work, self._shard = work, feed.shard
        self._stage = call_stage(work, feed.shard)
        self.readers = [_Reader(work, dependent, feed.shard) for dependent in feed.dependents]

    @cached_property
    def _tasks(self) -> Sequence[Any]:
        return self._work.tasks(self._shard)

    def _task(self, position: int) -> Any:
        if position >= len(self._tasks):
            raise EngineBroke(
                f"{self._work.run_path}: files of the run that this process has read are gone: the run was moved, "
                "deleted or unmounted. Put it back and run the same command again; what was paid for is in the store"
            )
        return self._tasks[position]

    def rows(self, outcomes: Iterable[tuple[int, Outcome]]) -> list[Any]:
        """Return the rows of tasks, given by position; tasks that need a re-ask have none."""
        parsed = (self._stage.parse(self._task(task), outcome) for task, outcome in outcomes)
        return [row for row in parsed if not isinstance(row, Again)]


class _Reader:
    """A shard that reads a source row by row. It loads its other inputs at the first row."""

    def __init__(self, work: Work, dependent: Dependent, source: Shard) -> None:
        self._work, self._number, self._shard = work, dependent.number, dependent.shard
        self._row_type = source.spec.row
        self._stage = call_stage(work, dependent.shard)
        self.stage_name, self.model = dependent.shard.stage, work.model(dependent.shard)

    @cached_property
    def _other_inputs(self) -> Rows:
        return self._work.rows_read(self._shard)

    def jobs(self, rows: Sequence[Any]) -> Iterator[Job]:
        tasks = self._stage.tasks(Rows({**self._other_inputs.by_type, self._row_type: rows}))
        for row_id, call in self._stage.requests(tasks):
            yield Job(self._number, row_id, call)
