"""Verdicts of a run from before the present reader, read again from the stored replies. No call is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hab_ray.rows import State, Verdict
from hab_ray.storage.store import Store
from hab_ray.work import Shard, Work


@dataclass(frozen=True)
class Changed:
    """A verdict that is read otherwise than before. A score of None: it cannot be read, and is asked for again."""

    file: str
    test_id: str
    sample: int
    replicate: int
    before: float | None
    after: float | None

    def __str__(self) -> str:
        return f"{self.file} {self.test_id}: {_shown(self.before)} before, now {_shown(self.after)}"


def _shown(score: float | None) -> str:
    return "no score" if score is None else f"score {score:g}"


def reread(work: Work, store: Store) -> list[Changed]:
    """Replace the run's views of verdicts by what the present reader finds; returns what has changed.

    For the lease's holder.
    """
    changed: list[Changed] = []
    for shard in work.shards():
        if shard.spec.row is Verdict and work.run.has(shard.file):
            changed += _reread(work, shard, store)
    return changed


def _reread(work: Work, shard: Shard, store: Store) -> Iterator[Changed]:
    before = {(v.test_id, v.sample, v.replicate): v for v in work.run.read(Verdict, shard.file)}
    rows: list[Verdict] = work.settled(shard, work.tasks(shard), store).rows
    after = {(v.test_id, v.sample, v.replicate): v for v in rows}
    work.write(shard, rows)
    for (test_id, sample, replicate), verdict in before.items():
        old, new = _score(verdict), _score(after.get((test_id, sample, replicate)))
        if old != new:
            yield Changed(shard.file, test_id, sample, replicate, old, new)


def _score(verdict: Verdict | None) -> float | None:
    return verdict.score if verdict and verdict.state is State.OK else None
