"""Events of a run as records of the logger `hab_ray.run`, for `--log-format json`.

Each record has `fields`: `run`, and for a shard `shard` (its file in the run folder), `stage`, `model` and `dimension`,
or for a batch `batch` and `model`. No records are built unless the logger is enabled for INFO.
"""

import logging
from collections.abc import Iterator, Mapping

from hab_ray.progress import BatchProgress, Progress
from hab_ray.sweep.shards import Shards, ShardStatus

LOG = logging.getLogger("hab_ray.run")
LOGGED = frozenset({ShardStatus.RUNNING, ShardStatus.COMPLETE, ShardStatus.STALLED})
PROGRESS_EVERY_S = 5.0
Fields = Mapping[str, str | int | None]


class RunLog:
    """Finds the changes in one run since the last call of `entries`."""

    def __init__(self, run: str, shards: Shards) -> None:
        self._run, self._shards = run, shards
        self._statuses: dict[int, ShardStatus] = {}
        self._batches: dict[str, BatchProgress] = {}
        self._logged_notes: set[str] = set()
        self._progress_at = float("-inf")

    def entries(self, progress: Progress) -> list[logging.LogRecord]:
        """Return status changes of shards and batches, new notes, and every `PROGRESS_EVERY_S` the progress."""
        if not LOG.isEnabledFor(logging.INFO):
            return []
        events = [*self._of_shards(), *self._of_batches(progress), *self._of_notes(progress)]
        if progress.end or progress.elapsed_s - self._progress_at >= PROGRESS_EVERY_S:
            self._progress_at = progress.elapsed_s
            events += _of_progress(progress)
        return [self._record(*event) for event in events]

    def _record(self, level: int, message: str, fields: Fields) -> logging.LogRecord:
        extra = {"fields": {"run": self._run, **fields}}
        return LOG.makeRecord(LOG.name, level, __file__, 0, "%s", (message,), None, extra=extra)

    def _of_shards(self) -> Iterator[tuple[int, str, Fields]]:
        for state in self._shards.all:
            if state.status in LOGGED and self._statuses.get(state.number) is not state.status:
                self._statuses[state.number] = state.status
                shard, counts = state.shard, {"done": state.settled, "known": state.total}
                names = {"shard": shard.file, "stage": shard.stage, "model": shard.name, "dimension": shard.dimension}
                yield logging.INFO, f"shard {state.status}", {**names, **counts}

    def _of_batches(self, progress: Progress) -> Iterator[tuple[int, str, Fields]]:
        open_now = {batch.name: batch for batch in progress.batches}
        for name, batch in open_now.items():
            before = self._batches.get(name)
            if before is None or (before.state, before.id) != (batch.state, batch.id):
                yield logging.INFO, f"batch {batch.state}", _of_batch(batch)
        for name, batch in self._batches.items():
            if name not in open_now:
                yield logging.INFO, "batch closed", _of_batch(batch)
        self._batches = open_now

    def _of_notes(self, progress: Progress) -> Iterator[tuple[int, str, Fields]]:
        for note in progress.notes:
            if note not in self._logged_notes:
                self._logged_notes.add(note)
                yield logging.WARNING, note, {}


def _of_progress(progress: Progress) -> Iterator[tuple[int, str, Fields]]:
    for stage in progress.stages:
        if stage.total and (progress.end or stage.done < stage.total):
            counts = {"done": stage.done, "known": stage.total, "failed": stage.failed, "in_flight": stage.in_flight}
            yield logging.INFO, "progress", {"stage": stage.stage, "model": stage.model, **counts}
    if progress.end:
        yield logging.INFO, f"ended: {progress.end.meaning}", {"status": progress.end.status}


def _of_batch(batch: BatchProgress) -> Fields:
    return {"batch": batch.name, "id": batch.id, "model": batch.model, "rows": batch.rows, "since": batch.since}
