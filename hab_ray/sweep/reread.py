"""Verdicts of a run from before the present reader, read again from the stored replies. No call is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from hab_ray.rows import State, Verdict
from hab_ray.stages.replies.reading import READER_VERSION
from hab_ray.storage.folder import open_folder
from hab_ray.storage.record import read_record
from hab_ray.storage.replies.store import Store
from hab_ray.sweep.session import Say
from hab_ray.visible import log_json
from hab_ray.work import Shard, Work

REREAD = "log/reread.jsonl"
_SHOWN = 10


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


def _reread(work: Work, shard: Shard, store: Store) -> Iterator[Changed]:
    """Replace a view of verdicts by what the present reader finds, and say what has changed."""
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


def needs_rereading(work: Work) -> bool:
    """Whether the run's verdicts were read by other rules than the present: an earlier reader's, or a later one's."""
    record = read_record(work.run_path)
    return record is not None and record.reader_version != READER_VERSION


def reread_verdicts(work: Work, say: Say) -> None:
    """Read the run's verdicts again from the store and show which scores change; for the lease's holder.

    The run's record is still to be written: until then, this is done again.
    """
    store = Store(open_folder(work.sweep.store))
    judged = [shard for shard in work.shards() if shard.spec.row is Verdict and work.run.has(shard.file)]
    changed = [one for shard in judged for one in _reread(work, shard, store)]
    say(f"verdicts were read again by the rules of reader {READER_VERSION}, without a call: {len(changed)} changed")
    if not changed:
        return
    lines = "".join(log_json(asdict(one)) + "\n" for one in changed)
    work.run.folder.put(REREAD, lines.encode())
    for one in changed[:_SHOWN]:
        say(f"  {one}")
    say(f"all of them: {work.run_path / REREAD}")
