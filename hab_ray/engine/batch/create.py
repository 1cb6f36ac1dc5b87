"""Creates each batch at the vendor exactly once, whatever breaks on the way.

Performs the actions between a funded batch and one at the vendor; see the package's table. The intent is in the
ledger before the one create request is sent, so that after a crash in between, the next run searches for the batch.
"""

import asyncio
from dataclasses import replace

from hab_ray.engine.batch import actions as do
from hab_ray.engine.batch import transitions
from hab_ray.engine.batch.components import Components, UnexpectedAction
from hab_ray.engine.batch.rows import BatchInFlight
from hab_ray.engine.batch.search import Search, with_retries
from hab_ray.engine.batch.send import Sender
from hab_ray.engine.batch.states import (
    Abandoned,
    AtVendor,
    BatchState,
    Closed,
    CreateFailed,
    Funded,
    Malformed,
    OutcomeUnknown,
    Submitting,
    Unsettled,
)
from hab_ray.engine.ledger import Batch
from hab_ray.errors import CallError, Interrupted, RateLimited
from hab_ray.providers.batching import BadRows

_NO_ROOM = "none of its batches is open, and the vendor creates none (429)"


class Creator:
    """Creates the batches of one provider account, one at a time."""

    states: tuple[type[Unsettled], ...] = Funded, Submitting, CreateFailed, OutcomeUnknown

    def __init__(self, components: Components, sender: Sender) -> None:
        self._components, self._policy, self._sender = components, components.policy, sender
        self._search = Search(components.api, components.ledger, components.note)
        self._one_at_a_time = asyncio.Lock()
        self._doubts_settled = asyncio.Event()
        self._next_number = 1

    def register(self, record: Batch) -> None:
        """Register a batch of the ledger: its number is taken, and its id at the vendor is ours."""
        self._next_number = record.number + 1
        if record.batch_id:
            self._search.add_own(record.batch_id)

    def allow_new(self) -> None:
        """Allow new batches, once those that earlier processes left in doubt are settled or abandoned."""
        self._doubts_settled.set()

    async def create(self, batch: BatchInFlight) -> None:
        """Create a funded batch, or return its money if this process will not create it.

        Only one batch of the account is created at a time.

        Raises:
            LeaseLost: another driver has the store.
            Interrupted: the user stops the run.
            ConfigError: the API key may belong to another account than the one the batch was sent to.
        """
        try:
            await self._doubts_settled.wait()
            await self.settle(batch)
        except (Interrupted, asyncio.CancelledError):
            if isinstance(batch.state, Funded):
                self._components.budget.release(batch.nanousd)
            elif isinstance(batch.state, Submitting | CreateFailed):
                self._release_unsent(batch, batch.state.record)
            raise

    async def settle(self, batch: BatchInFlight) -> None:
        """Do the same for a batch that an earlier process left in doubt; new batches wait for it."""
        async with self._one_at_a_time:
            await self._components.advance(batch, self)
        batch.request = None

    async def perform(self, batch: BatchInFlight, state: Unsettled, action: do.Action) -> BatchState:
        components = self._components
        match state, action:
            case Funded(), do.StoreLines() if batch.request:
                record, self._next_number = Batch(components.ledger.provider, self._next_number), self._next_number + 1
                await asyncio.to_thread(components.ledger.keep, record.number, batch.request.lines)
                return Submitting(record)
            case Funded(), do.GiveBack():
                components.budget.release(batch.nanousd)
                return Closed()
            case Submitting(), do.GiveBack():
                components.close_unmade(batch, state.record, "not made", "the run sends its model no more batches")
                return Closed()
            case Submitting(), do.Submit() if batch.request:
                sent = await self._sender.send(batch, state, batch.request)
                if isinstance(sent, AtVendor):
                    self._search.add_own(sent.batch_id)
                return sent
            case Submitting() | OutcomeUnknown(), do.Wait(until):
                await asyncio.sleep(max(0.0, until - components.context.clock()))
                return state
            case CreateFailed(), do.Retry(after_s):
                return transitions.retried(state, components.context.clock() + after_s)
            case CreateFailed(), do.Requeue(error):
                self._close_refused(batch, state.record, error)
                return batch.packed()
            case CreateFailed(), do.Split(error):
                self._close_refused(batch, state.record, error)
                return Malformed(error)
            case CreateFailed(), do.Refuse(error):
                self._close_refused(batch, state.record, error)
                return Closed()
            case CreateFailed(), do.LookFor(error):
                components.counters.notes.append(
                    f"batch {state.record.name}: the request to create it got no clear answer ({error}); searching "
                    "for it at the vendor"
                )
                return OutcomeUnknown(state.record, state.attempt, state.is_recovered, since=components.context.clock())
            case OutcomeUnknown(), do.AskOwner() | do.Look():
                return await self._ask(state, action)
            case OutcomeUnknown(), do.Adopt(batch_id, certain):
                self._search.add_own(batch_id)
                return self._sender.submitted(state, batch_id, adopted=True, certain=certain)
            case OutcomeUnknown(), do.Retry():
                components.require_account(state.record, state.owner or "")
                return transitions.retried(state, components.context.clock())
            case OutcomeUnknown(), do.RefuseOwner(owner):
                components.require_account(state.record, owner)
            case Submitting() | CreateFailed() | OutcomeUnknown(), do.LeaveInDoubt(reason):
                if reason:
                    components.stop_provider(reason)
                self._release_unsent(batch, state.record)
                return Abandoned(state.record)
        raise UnexpectedAction(state, action)

    async def _ask(self, state: OutcomeUnknown, question: do.AskOwner | do.Look) -> OutcomeUnknown:
        components = self._components
        try:
            if isinstance(question, do.AskOwner):
                return replace(state, owner=await with_retries(components.api.owner, components.note))
            sighting, foreign = await self._search.look(state)
        except CallError as error:
            return replace(state, error=error)
        return transitions.looked(state, sighting, foreign, components.context.clock(), self._policy)

    def _close_refused(self, batch: BatchInFlight, record: Batch, error: CallError) -> None:
        """Close a batch that the vendor refused, and apply the error to its queue, model or account."""
        self._components.close_unmade(batch, record, "refused", str(error))
        if isinstance(error, RateLimited):
            _note_full_queue(self._components, batch.model, error)
        elif not isinstance(error, BadRows):
            self._components.apply_error(batch.model, error)

    def _release_unsent(self, batch: BatchInFlight, record: Batch) -> None:
        if not record.events:
            self._components.budget.release(batch.nanousd)


def _note_full_queue(components: Components, model: str, error: RateLimited) -> None:
    """Pause a model whose queue is full; refuse it if none of our batches has filled it for too long."""
    components.limits.pause(model, error)
    if components.rows.enqueued(model):
        return components.limits.note_accepted(model)
    components.apply_refusal(model, components.limits.note_refusal(model), _NO_ROOM, error)
