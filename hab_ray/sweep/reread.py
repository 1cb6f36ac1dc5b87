"""Re-reads a run's verdicts from stored replies when the reader's version has changed. Makes no calls."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from hab_ray.rows import State, Verdict
from hab_ray.stages.replies.reading import READER_VERSION
from hab_ray.storage.folder import open_folder
from hab_ray.storage.record import read_record
from hab_ray.storage.replies.store import Store
from hab_ray.sweep.session import Say
from hab_ray.visible import log_json
from hab_ray.work import Shard, Work, is_current

REREAD = "log/reread.jsonl"
_MAX_SHOWN = 10


@dataclass(frozen=True)
class Changed:
    """A verdict that is read differently now. A score of None: it is unreadable, and is asked for again."""

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
    """Read a view's verdicts again and write it; verdicts whose reply the store has lost stay as they are."""
    tasks = work.tasks(shard)
    before = {(v.test_id, v.sample, v.replicate): v for v in work.run.read(Verdict, shard.file)}
    settled = work.settled(shard, tasks, store)
    lost = {call.key for _, call in settled.open}
    after = {place: v for place, v in before.items() if v.state is State.OK and v.reply_key in lost}
    after |= {(v.test_id, v.sample, v.replicate): v for v in settled.rows}
    places = ((task.test.id, task.response.sample, task.replicate) for task in tasks)
    work.write(shard, [after[place] for place in places if place in after])
    for (test_id, sample, replicate), verdict in before.items():
        old, new = _score(verdict), _score(after.get((test_id, sample, replicate)))
        if old != new:
            yield Changed(shard.file, test_id, sample, replicate, old, new)


def _score(verdict: Verdict | None) -> float | None:
    return verdict.score if verdict and verdict.state is State.OK else None


def _is_current(work: Work, shard: Shard) -> bool:
    """Return whether a view and those it reads are current; if not, the run derives it again, by the present rules."""
    sources = (source.shard for source in work.inputs(shard) if source.shard.spec.makes_calls)
    return all(is_current(work, one) for one in (shard, *sources))


def needs_rereading(work: Work) -> bool:
    """Whether another version of the reader, earlier or later, read the run's verdicts."""
    record = read_record(work.run_path)
    return record is not None and record.reader_version != READER_VERSION


def reread_verdicts(work: Work, say: Say) -> None:
    """Re-read the run's verdicts from the store and report changed scores. The caller must hold the store's lease.

    The caller then writes the run's record; if it fails to, the next start re-reads again.
    """
    store = Store(open_folder(work.sweep.store))
    judged = [shard for shard in work.shards() if shard.spec.row is Verdict and _is_current(work, shard)]
    changes = [change for shard in judged for change in _reread(work, shard, store)]
    say(f"verdicts were read again by the rules of reader {READER_VERSION}, without a call: {len(changes)} changed")
    if not changes:
        return
    lines = "".join(log_json(asdict(change)) + "\n" for change in changes)
    work.run.folder.put(REREAD, lines.encode())
    for change in changes[:_MAX_SHOWN]:
        say(f"  {change}")
    say(f"all of them: {work.run_path / REREAD}")
