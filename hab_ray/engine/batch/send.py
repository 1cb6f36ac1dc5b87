"""Sends the one request that creates a batch, and writes the ledger events before and after it."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from hab_ray.engine.batch import transitions
from hab_ray.engine.batch.components import Components
from hab_ray.engine.batch.decisions import ATTEMPTS
from hab_ray.engine.batch.rows import BatchInFlight, Request
from hab_ray.engine.batch.search import with_retries
from hab_ray.engine.batch.states import AtVendor, Closed, CreateFailed, OutcomeUnknown, Submitting
from hab_ray.engine.ledger import Batch, Lines, Phase, Submitted
from hab_ray.errors import (
    CallError,
    FailureKind,
    Intercepted,
    Interrupted,
    LeaseStale,
    Overloaded,
    RateLimited,
    TransientError,
)
from hab_ray.providers.batching import BatchJob, NoBatchApi, PageNotFound
from hab_ray.providers.write_check import WriteCheck
from hab_ray.storage.lease.watches import until_held
from hab_ray.visible import usd

_NO_ANSWER = frozenset({FailureKind.TIMEOUT, FailureKind.CONNECTION})


@dataclass(frozen=True)
class OpenCreate:
    """A create request without an answer yet, and the task that waits for it."""

    task: asyncio.Task[Any] | None
    nanousd: int


class Sender:
    """Sends create requests to one provider account. `creating` is the open one."""

    def __init__(self, components: Components) -> None:
        self._components, self._context = components, components.context
        self._has_list = False
        self.creating: OpenCreate | None = None

    async def send(self, batch: BatchInFlight, state: Submitting, request: Request) -> AtVendor | CreateFailed:
        """Write the intent of a batch and have the vendor create it.

        Raises:
            LeaseLost: another driver has the store.
            Interrupted: the user stops the run; the batch is closed if its create request was not sent.
        """
        api, note = self._components.api, self._components.note
        try:
            newest = await with_retries(api.newest, note)
            owner = await with_retries(api.owner, note)
            self._has_list = True
        except CallError as error:
            # These requests used up all attempts.
            if _may_lack_batches(error) and not await self._has_batches():
                error = NoBatchApi(f"{error}: asked {ATTEMPTS} times, the endpoint never listed its batches")
            return CreateFailed(state.record, ATTEMPTS, error, state.is_recovered)
        await until_held(self._context.guard)
        context = self._context
        facts = {"epoch": context.epoch, "at": context.today(), "fingerprint": context.fingerprint}
        intent = request.intent.model_copy(update={**facts, "owner": owner, "newest": newest})
        record = self._components.ledger.add(state.record, intent)
        if not state.record.events:
            self._components.budget.commit(record.intent.nanousd)
        batch.state = state = replace(state, record=record)
        try:
            batch_id = await self._create(batch, record, request.lines)
        except CallError as error:
            return CreateFailed(record, state.attempt, error, state.is_recovered)
        return self.submitted(state, batch_id, adopted=False, certain=True)

    def submitted(self, state: Submitting | OutcomeUnknown, batch_id: str, *, adopted: bool, certain: bool) -> AtVendor:
        """Record in the ledger that the vendor has the batch under this id."""
        context, components = self._context, self._components
        event = Submitted(epoch=context.epoch, at=context.today(), batch_id=batch_id, adopted=adopted, certain=certain)
        record = components.ledger.add(state.record, event)
        return transitions.submitted(record, event, context.clock(), components.policy, state.is_recovered)

    async def _has_batches(self) -> bool:
        """Return whether the account has batches: it has shown its list to this process, or may have created one."""
        if self._has_list or self._context.is_vendors:
            return True
        records = await asyncio.to_thread(self._components.ledger.read)
        return any(record.submitted or record.phase is Phase.IN_DOUBT for record in records)

    async def _create(self, batch: BatchInFlight, record: Batch, lines: Lines) -> str:
        """Upload the lines and send the create request; `creating` is set while that request is open."""
        intent = record.intent

        def before_create() -> None:
            self._context.guard()
            self.creating = OpenCreate(asyncio.current_task(), intent.nanousd)

        job = BatchJob(intent.tag, intent.wire, intent.path, intent.version, lines.requests, intent.rows, before_create)
        try:
            return await self._submitted(job)
        except (Interrupted, asyncio.CancelledError):
            if self.creating:
                self._components.counters.notes.append(
                    f"the request to create batch {record.name} ({intent.rows} rows of {intent.model}, at most "
                    f"{usd(intent.most)}) was cut off: the same command looks for the batch at the vendor"
                )
            else:
                self._withdraw(batch, record)
            raise
        finally:
            self.creating = None

    async def _submitted(self, job: BatchJob) -> str:
        """Submit a job; start over if the lease was stale when the create request was due, so that it was not sent."""
        while True:
            await until_held(self._context.guard)
            write = WriteCheck(self._context.guard)
            try:
                with write.asked():
                    return await self._components.api.submit(job)
            except LeaseStale:
                self.creating = None
            except BaseException:
                if write.refusal is not None:
                    self.creating = None
                raise

    def _withdraw(self, batch: BatchInFlight, record: Batch) -> None:
        """Close a batch whose create request was never sent; its upload may have been cut off."""
        problem = f"stopped before it was made; the vendor may keep its file {record.intent.tag}.jsonl for a while"
        self._components.counters.notes.append(
            f"batch {record.name}: {problem}. Nothing is charged for that, and the next run sends its rows again"
        )
        self._components.close_unmade(batch, record, "not made", problem)
        batch.state = Closed()


def _may_lack_batches(error: CallError) -> bool:
    """Whether a server without batches may answer so: Ollama sends the same page as a proxy whose API is down.

    A server that refuses, or does not answer, may have them.
    """
    may_have = error.kind in _NO_ANSWER or isinstance(error, RateLimited | Overloaded | Intercepted)
    return isinstance(error, PageNotFound) or (isinstance(error, TransientError) and not may_have)
