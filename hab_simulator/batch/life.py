"""The life of a batch: checked, answered, kept until its time has come or somebody ends it, delivered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from hab_simulator.accounts import ByBatch, SimulatedAccount
from hab_simulator.batch.clock import VendorClock
from hab_simulator.batch.delivery import deliver, keep
from hab_simulator.batch.dialect import Dialect
from hab_simulator.batch.faults import CancelledByVendor, Expired, Invalid, Stuck
from hab_simulator.batch.jobs import BatchProblem, BatchState, Job
from hab_simulator.batch.settings import LineFaults
from hab_simulator.batch.spool import Entry, Lines, Spool
from hab_simulator.batch.work import Answerer, check, count_tokens
from hab_simulator.truth.answers import Mind

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
            await deliver(job, dialect, spool, state, done, self.mind.seed, lambda entry: self.charge(job, entry))
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
        keep(job, dialect)
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
