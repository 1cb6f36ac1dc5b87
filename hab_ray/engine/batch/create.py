"""Creates batches at the vendor, each once, whatever breaks on the way.

Performs the actions between a funded batch and one at the vendor; see the package's table. The intent is in the
ledger before the one create request is sent, so that a crash in between leaves a batch that the next run looks for.
"""

from __future__ import annotations

import asyncio

from hab_ray.engine.batch import transitions
from hab_ray.engine.batch.actions import (
    Adopt,
    AskOwner,
    GiveBack,
    LeaveInDoubt,
    Look,
    LookFor,
    Refuse,
    RefuseOwner,
    Requeue,
    Retry,
    Split,
    StoreLines,
    Submit,
    Wait,
)
from hab_ray.engine.batch.collect import Results
from hab_ray.engine.batch.components import Components
from hab_ray.engine.batch.decisions import next_action
from hab_ray.engine.batch.enqueued import QUEUE_PATIENCE_S
from hab_ray.engine.batch.in_flight import BatchInFlight
from hab_ray.engine.batch.patience import patiently
from hab_ray.engine.batch.search import Search
from hab_ray.engine.batch.send import Request, Sender
from hab_ray.engine.batch.states import (
    Abandoned,
    AtVendor,
    BatchState,
    Closed,
    CreateFailed,
    Funded,
    LookFailed,
    Malformed,
    OutcomeUnknown,
    Requeued,
    Submitting,
    Unsettled,
)
from hab_ray.engine.ledger import Batch, Phase
from hab_ray.errors import CallError, ConfigError, Interrupted, RateLimited
from hab_ray.providers.batching import BadRows, BatchRefused

_NO_ROOM = "no batch of it is open, and the vendor makes none (429)"


class Creator:
    """Creates the batches of one vendor account, one at a time."""

    def __init__(self, components: Components, sender: Sender) -> None:
        self._components, self._policy, self._sender = components, components.policy, sender
        self._search = Search(components.api, components.ledger, components.context.lease.today)
        self._one_at_a_time = asyncio.Lock()
        self._doubts_settled = asyncio.Event()
        self._next_number = 1

    def know(self, record: Batch) -> None:
        """Note a batch of the ledger: its number is taken, and its id at the vendor is ours."""
        self._next_number = record.number + 1
        if record.batch_id:
            self._search.know(record.batch_id)

    def let_create(self) -> None:
        """Let new batches be created: those that earlier processes left in doubt are settled or abandoned."""
        self._doubts_settled.set()

    async def create(self, batch: BatchInFlight, request: Request) -> None:
        """Carry a funded batch on until the vendor has it, or it is clear that this process will not create it.

        Money that no batch needs is returned. At most one batch of the account is on its way at any time.

        Raises:
            LeaseLost: another driver has the store.
            Interrupted: the user stops the run.
            ConfigError: the key belongs to another organisation than the one the batch was sent to.
        """
        try:
            await self._doubts_settled.wait()
            await self.settle(batch, request)
        except (Interrupted, asyncio.CancelledError):
            if isinstance(batch.state, Funded):
                self._components.budget.release(batch.nanousd)
            elif isinstance(batch.state, Submitting | CreateFailed):
                self._free(batch, batch.state.record)
            raise

    async def settle(self, batch: BatchInFlight, request: Request) -> None:
        """The same for a batch of an earlier process, before which no new one may be created."""
        async with self._one_at_a_time:
            while isinstance(batch.state, Unsettled):
                batch.state = await self._step(batch, batch.state, request)

    async def _step(self, batch: BatchInFlight, state: Unsettled, request: Request) -> BatchState:
        match state:
            case Funded():
                return await self._begin(batch, state, request)
            case Submitting():
                return await self._submit(batch, state, request)
            case CreateFailed():
                return self._heed_failure(batch, state)
            case OutcomeUnknown():
                return await self._settle_doubt(batch, state)
            case LookFailed():
                action = next_action(state, self._components.now(batch.model), self._policy)
                return self._abandon(batch, state.record, action)

    async def _begin(self, batch: BatchInFlight, state: Funded, request: Request) -> Submitting | Closed:
        components = self._components
        match next_action(state, components.now(batch.model), self._policy):
            case StoreLines():
                record, self._next_number = Batch(components.ledger.provider, self._next_number), self._next_number + 1
                await asyncio.to_thread(components.ledger.keep, record.number, request.lines)
                return Submitting(record)
            case GiveBack():
                components.budget.release(batch.nanousd)
                return Closed()

    async def _submit(self, batch: BatchInFlight, state: Submitting, request: Request) -> BatchState:
        match next_action(state, self._components.now(batch.model), self._policy):
            case Submit():
                sent = await self._sender.send(batch, state, request)
                if isinstance(sent, AtVendor):
                    self._search.know(sent.batch_id)
                return sent
            case Wait(until):
                await self._sleep(until)
                return state
            case LeaveInDoubt() as action:
                return self._abandon(batch, state.record, action)

    def _heed_failure(self, batch: BatchInFlight, state: CreateFailed) -> BatchState:
        components, record = self._components, state.record
        match next_action(state, components.now(batch.model), self._policy):
            case Retry(after_s):
                return transitions.retried(state, components.context.clock() + after_s)
            case Requeue(error):
                self._close_refused(batch, record, error)
                return Requeued()
            case Split(error):
                self._close_refused(batch, record, error)
                return Malformed(error)
            case Refuse(error):
                self._close_refused(batch, record, error)
                return Closed()
            case LookFor(error):
                components.counters.notes.append(
                    f"batch {record.name}: the request to make it got no clear answer ({error}); looking for it"
                )
                return OutcomeUnknown(record, state.attempt, state.is_recovered)
            case LeaveInDoubt() as action:
                return self._abandon(batch, record, action)

    async def _settle_doubt(self, batch: BatchInFlight, state: OutcomeUnknown) -> BatchState:
        components = self._components
        match next_action(state, components.now(batch.model), self._policy):
            case AskOwner() | Look() as question:
                return await self._asked(state, question)
            case Wait(until):
                await self._sleep(until)
                return state
            case Adopt(batch_id, certain):
                self._search.know(batch_id)
                return self._sender.submitted(state, batch_id, adopted=True, certain=certain)
            case Retry(after_s):
                return transitions.retried(state, components.context.clock() + after_s)
            case RefuseOwner(owner):
                raise ConfigError(
                    f"provider {state.record.provider}: batch {state.record.name} was sent to organisation "
                    f"{state.record.intent.owner}, and the key now belongs to {owner}; use a key of the first one "
                    "until its batches are harvested"
                )
            case LeaveInDoubt() as action:
                return self._abandon(batch, state.record, action)

    async def _asked(self, state: OutcomeUnknown, question: AskOwner | Look) -> OutcomeUnknown | LookFailed:
        components = self._components
        try:
            if isinstance(question, AskOwner):
                return transitions.owner_known(state, await patiently(components.api.owner))
            sighting, foreign = await self._search.look(state)
        except CallError as error:
            return LookFailed(state.record, error)
        return transitions.looked(state, sighting, foreign, components.context.clock(), self._policy)

    async def _sleep(self, until: float) -> None:
        await asyncio.sleep(max(0.0, until - self._components.context.clock()))

    def _abandon(self, batch: BatchInFlight, record: Batch, action: LeaveInDoubt) -> Abandoned:
        if action.reason:
            self._components.stop_provider(action.reason)
        self._free(batch, record)
        return Abandoned(record)

    def _close_refused(self, batch: BatchInFlight, record: Batch, error: CallError) -> None:
        """Close a batch that the vendor did not make, and draw the consequences for its queue, model or account."""
        if record.events:
            record = self._components.closed(record, "refused", str(error), Results())
        self._free(batch, record)
        if isinstance(error, RateLimited):
            _await_queue(self._components, batch.model, error)
        elif not isinstance(error, BadRows):
            self._components.heed(batch.model, error)

    def _free(self, batch: BatchInFlight, record: Batch) -> None:
        """Return the money of a batch that was not made; while that is in doubt, none."""
        if not record.events:
            self._components.budget.release(batch.nanousd)
        elif record.phase is Phase.DONE:
            self._components.budget.collect(batch.nanousd, cost=0, lost=0)


def _await_queue(components: Components, model: str, error: RateLimited) -> None:
    """Wait for room in the vendor's queue, where no batch of ours fills it for `QUEUE_PATIENCE_S` at most."""
    components.limits.wait(model, error)
    if components.rows.enqueued(model):
        return components.limits.made(model)
    refusals, minutes = components.limits.refused(model), round(QUEUE_PATIENCE_S / 60)
    if refusals.is_last:
        components.heed(model, BatchRefused(f"{_NO_ROOM} for {minutes} minutes, or asks to wait longer: {error}"))
    elif refusals.is_first:
        components.counters.notes.append(f"{model}: {_NO_ROOM}, and is asked again for {minutes} minutes: {error}")
