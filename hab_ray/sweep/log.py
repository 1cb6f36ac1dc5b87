"""What happens in a run as records of the logger `hab_ray.run`, for `--log-format json`.

Each record has `fields`: `run`, and where it is about one `shard` (its file in the run folder), `stage`, `model` and
`dimension`, or `batch` and `model`. Nothing is put together where nobody listens at INFO.
"""

from __future__ import annotations

import logging

from hab_ray.progress import BatchProgress, Progress
from hab_ray.sweep.shards import Shards, ShardState, ShardStatus

LOG = logging.getLogger("hab_ray.run")
TOLD = frozenset({ShardStatus.RUNNING, ShardStatus.COMPLETE, ShardStatus.STALLED})
PROGRESS_EVERY_S = 5.0


class RunLog:
    """Logs what has changed in one run since it was asked last."""

    def __init__(self, run: str, shards: Shards) -> None:
        self._run, self._shards = run, shards
        self._statuses: dict[int, ShardStatus] = {}
        self._batches: dict[str, BatchProgress] = {}
        self._told: set[str] = set()
        self._progress_at = float("-inf")

    def report(self, progress: Progress) -> None:
        """Log shards and batches that stand elsewhere, new notes, and now and then how far the run is."""
        if not LOG.isEnabledFor(logging.INFO):
            return
        for state in self._shards.all:
            if state.status in TOLD and self._statuses.get(state.number) is not state.status:
                self._statuses[state.number] = state.status
                self._tell(logging.INFO, f"shard {state.status}", **_of_shard(state))
        self._tell_batches(progress)
        for note in progress.notes:
            if note not in self._told:
                self._told.add(note)
                self._tell(logging.WARNING, note)
        if progress.end or progress.elapsed_s - self._progress_at >= PROGRESS_EVERY_S:
            self._progress_at = progress.elapsed_s
            self._tell_progress(progress)

    def _tell_batches(self, progress: Progress) -> None:
        open_now = {batch.name: batch for batch in progress.batches}
        for name, batch in open_now.items():
            before = self._batches.get(name)
            if before is None or (before.state, before.id) != (batch.state, batch.id):
                self._tell(logging.INFO, f"batch {batch.state}", **_of_batch(batch))
        for name, batch in self._batches.items():
            if name not in open_now:
                self._tell(logging.INFO, "batch closed", **_of_batch(batch))
        self._batches = open_now

    def _tell_progress(self, progress: Progress) -> None:
        for stage in progress.stages:
            if stage.total and (progress.end or stage.done < stage.total):
                self._tell(
                    logging.INFO,
                    "progress",
                    stage=stage.stage,
                    model=stage.model,
                    done=stage.done,
                    known=stage.total,
                    failed=stage.failed,
                    in_flight=stage.in_flight,
                )
        if progress.end:
            self._tell(logging.INFO, f"ended: {progress.end.meaning}", status=progress.end.status)

    def _tell(self, level: int, message: str, **fields: str | int | None) -> None:
        LOG.log(level, "%s", message, extra={"fields": {"run": self._run, **fields}})


def _of_shard(state: ShardState) -> dict[str, str | int | None]:
    shard = state.shard
    counts = {"done": state.settled, "known": state.total}
    return {"shard": shard.file, "stage": shard.stage, "model": shard.name, "dimension": shard.dimension, **counts}


def _of_batch(batch: BatchProgress) -> dict[str, str | int | None]:
    return {"batch": batch.name, "id": batch.id, "model": batch.model, "rows": batch.rows, "since": batch.since}
