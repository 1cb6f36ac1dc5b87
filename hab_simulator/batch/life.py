"""The life of a batch: checked, answered, kept until its time has come or somebody ends it, delivered."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from hab_simulator.accounts import ByBatch, SimulatedAccount
from hab_simulator.batch.clock import Pacer, VendorClock
from hab_simulator.batch.dialect import Dialect
from hab_simulator.batch.faults import CancelledByVendor, Expired, Invalid, Stuck
from hab_simulator.batch.jobs import BatchProblem, BatchState, Job
from hab_simulator.batch.settings import LineFaults
from hab_simulator.batch.spool import BUFFER_BYTES, Entry, Lines, Spool
from hab_simulator.batch.work import Answerer, check, count_tokens
from hab_simulator.truth.answers import Mind
from hab_simulator.truth.draws import unit

_BROKEN = 500


@dataclass(slots=True)
class Life:
    """What all batches share while they live.

    `account` gives an account with its batch prices; `over_quota` the problem if a model's queue has no room for
    so many tokens; `charge` is told of every line that is charged and delivered.
    """

    mind: Mind
    clock: VendorClock
    account: Callable[[str], SimulatedAccount]
    over_quota: Callable[[str, Mapping[str, int]], BatchProblem | None]
    charge: Callable[[Job, Entry], None]
    _attempts: Counter[bytes] = field(default_factory=Counter)
    _working: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def live(self, job: Job, dialect: Dialect) -> None:
        """The life of a batch made by a client."""
        spool = await self._answered(job, dialect)
        if spool is None:
            job.enter(BatchState.FAILED, self.clock.now())
            return
        state, done = await self._until_end(job) if not job.problems else (BatchState.CANCELLED, 0.0)
        if state is not BatchState.CANCELLED:
            job.enter(BatchState.FINALIZING, self.clock.now())
        if state is BatchState.COMPLETED or dialect.keeps_partial:
            await _deliver(job, dialect, spool, state, done, self.mind.seed, lambda entry: self.charge(job, entry))
        else:
            job.tally.undone = job.rows
        spool.remove()
        job.enter(state, self.clock.now())

    async def live_foreign(self, job: Job, dialect: Dialect) -> None:
        """The life of a batch made by somebody else: all its lines fail when its time has come."""
        job.enter(BatchState.RUNNING, self.clock.now())
        state, _ = await self._until_end(job)
        failure = dialect.vendor.fault(_BROKEN, None)
        with (job.folder / ("errors" if dialect.error_file else "output")).open("wb") as file:
            for number in range(job.rows):
                file.write(dialect.result(dialect.stranger(job.order, number), failure) + b"\n")
        job.tally.failed = job.rows
        _keep(job, dialect)
        job.enter(state, self.clock.now())

    async def _answered(self, job: Job, dialect: Dialect) -> Spool | None:
        """All lines answered, or None where the batch has problems."""
        source = job.folder / "input"
        lines = Lines(source)
        await self._check(job, dialect, lines)
        model = self.account(job.account).model(job.model)
        if not job.problems:
            job.rows = len(lines)
            if job.state is BatchState.VALIDATING:
                job.enter(BatchState.RUNNING, self.clock.now())
            mind = replace(self.mind, service_tier="batch", separators=job.settings.separators, ahead=Counter())
            answerer = Answerer(mind, self.account(job.account), self._attempts)
            async with self._working:
                spool = await answerer.answer(job, dialect, lines)
        source.unlink()
        if job.problems:
            return None
        if model and model.by_batch is ByBatch.CANCELLED:
            job.problems = (
                BatchProblem("model_not_found", f"Model {job.model} is not supported for batch processing."),
            )
        return spool

    async def _check(self, job: Job, dialect: Dialect, lines: Lines) -> None:
        await check(job, dialect, lines)
        if job.struck.find(Invalid) and not dialect.fails_whole:
            job.settings = job.settings.model_copy(update={"lines": LineFaults(refused=1)})
        elif job.struck.find(Invalid):
            job.problems = (BatchProblem("invalid_json_line", "This line is not parseable as valid JSON.", 1),)
        model = self.account(job.account).model(job.model)
        if model and model.by_batch is ByBatch.REFUSED and not job.problems:
            message = f"The provided model '{job.model}' is not supported by the Batch API."
            job.problems = (BatchProblem("model_not_found", message, 1, "body.model"),)
        if job.problems:
            return
        if job.tokens is None:
            tokens = await count_tokens(dialect, self.account(job.account), job.order, lines)
            problem = self.over_quota(job.account, tokens)
            if problem:
                job.problems = (problem,)
            else:
                job.tokens = tokens

    async def _until_end(self, job: Job) -> tuple[BatchState, float]:
        """Wait until the batch ends; how it does, and the share of its lines that is done."""
        stuck, expired = job.struck.find(Stuck), job.struck.find(Expired)
        cancelled = job.struck.find(CancelledByVendor)
        if await self.clock.until(inf if stuck else job.due, job.stop):
            if expired:
                return BatchState.EXPIRED, expired.done
            return (BatchState.CANCELLED, cancelled.done) if cancelled else (BatchState.COMPLETED, 1.0)
        begun = job.times[BatchState.CANCELLING]
        await self.clock.until(begun + job.settings.cancelling_s, asyncio.Event())
        return BatchState.CANCELLED, stuck.done if stuck else job.progress(begun)


async def _deliver(
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
    _keep(job, dialect)


def _keep(job: Job, dialect: Dialect) -> None:
    """Remember the files that hold anything."""
    output, errors = job.folder / "output", job.folder / "errors"
    job.output = output if _holds(output) or not dialect.error_file else None
    job.errors = errors if _holds(errors) else None


def _holds(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
