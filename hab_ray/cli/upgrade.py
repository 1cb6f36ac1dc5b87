"""What a newer version does with a run that an older one has started."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console

from hab_ray.resolve import read_record
from hab_ray.stages.replies.reading import READER_VERSION
from hab_ray.storage.folder import open_folder
from hab_ray.storage.store import Store
from hab_ray.sweep.reread import reread
from hab_ray.visible import log_json, one_line
from hab_ray.work import Work

REREAD = "log/reread.jsonl"
_SHOWN = 10


def needs_rereading(work: Work) -> bool:
    """Whether the run's verdicts were read by other rules than the present: an earlier reader's, or a later one's."""
    record = read_record(work.run_path)
    return record is not None and record.reader_version != READER_VERSION


def reread_verdicts(work: Work, console: Console) -> None:
    """Read the run's verdicts again from the store and show which scores change; for the lease's holder.

    The run's record is still to be written: until then, this is done again.
    """
    changed = reread(work, Store(open_folder(work.sweep.store)))
    console.print(
        f"verdicts were read again by the rules of reader {READER_VERSION}, without a call: {len(changed)} changed",
        markup=False,
        soft_wrap=True,
    )
    if not changed:
        return
    lines = "".join(log_json(asdict(one)) + "\n" for one in changed)
    work.run.folder.put(REREAD, lines.encode())
    for one in changed[:_SHOWN]:
        console.print(f"  {one_line(str(one))}", markup=False, soft_wrap=True)
    console.print(one_line(f"all of them: {work.run_path / REREAD}"), markup=False, soft_wrap=True)
