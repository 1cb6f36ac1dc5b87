"""The results of a batch that has ended: what was done goes into its files and on the bill, the rest is told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from hab_simulator.batch.clock import Pacer
from hab_simulator.batch.dialect import Dialect
from hab_simulator.batch.jobs import BatchState, Job
from hab_simulator.batch.spool import BUFFER_BYTES, Entry, Spool
from hab_simulator.truth.draws import unit

_BROKEN = 500


async def deliver(
    job: Job, dialect: Dialect, spool: Spool, state: BatchState, done: float, seed: int, charge: Callable[[Entry], None]
) -> None:
    """Write the results of a batch that ends in this state with this share done; `charge` what succeeded."""
    count = len(spool.draws)
    order = sorted(range(count), key=spool.draws.__getitem__) if job.settings.shuffled else range(count)
    foreign = job.settings.lines.foreign
    partial = done < 1
    pacer = Pacer()
    with ExitStack() as files:
        results = failures = files.enter_context((job.folder / "output").open("wb", BUFFER_BYTES))
        if dialect.error_file:
            failures = files.enter_context((job.folder / "errors").open("wb", BUFFER_BYTES))
        for number, (draw, entry) in enumerate(spool.read(order)):
            if partial and draw >= done:
                job.tally.undone += 1
                failures.write(dialect.undone(entry.handle, state) + b"\n")
            elif entry.bill is not None:
                job.tally.succeeded += 1
                job.tally.charge(entry.bill.usage)
                results.write((entry.line + b"\n") * entry.times)
                charge(entry)
            elif entry.times:
                job.tally.failed += 1
                failures.write((entry.line + b"\n") * entry.times)
            else:
                job.tally.missing += 1
            if foreign and unit(seed, "foreign", job.id, number) < foreign:
                failures.write(
                    dialect.result(dialect.stranger(job.order, number), dialect.vendor.fault(_BROKEN, None)) + b"\n"
                )
            await pacer.pause()
    keep(job, dialect)


def keep(job: Job, dialect: Dialect) -> None:
    """Remember the files that hold anything."""
    output, errors = job.folder / "output", job.folder / "errors"
    job.output = output if _holds(output) or not dialect.error_file else None
    job.errors = errors if _holds(errors) else None


def _holds(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
