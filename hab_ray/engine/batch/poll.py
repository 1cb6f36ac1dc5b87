"""Polls batches at the vendor and collects their results into the store.

Performs the actions on batches at the vendor, ended and collected; see the package's table.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache, partial
from math import inf

from hab_ray.catalog.models import IF_SUBSTITUTED, Model
from hab_ray.catalog.prices import DatedPrices
from hab_ray.engine.alike import MIN_ALIKE
from hab_ray.engine.batch import actions as do
from hab_ray.engine.batch import transitions
from hab_ray.engine.batch.collect import Collector, Results, ResultsLate, SomeResultsLate
from hab_ray.engine.batch.components import Components, UnexpectedAction
from hab_ray.engine.batch.decisions import FAILING_S, LATE_POLLS, SOME_LATE_POLLS, UNKNOWN_S, is_asked_again
from hab_ray.engine.batch.rows import BatchInFlight
from hab_ray.engine.batch.states import AtVendor, Closed, Collected, Ended, Sent
from hab_ray.engine.batch.transitions import Polled
from hab_ray.engine.ledger import Batch, body_hashes
from hab_ray.engine.ledger import Ended as EndedEvent
from hab_ray.errors import CallError, FailureKind, ModelError, ProviderError, RateLimited, TransientError
from hab_ray.providers.batching import BatchRefused, BatchStatus, ResultsGone
from hab_ray.storage.replies.store import Store

MIN_LOOK_EVERY_S, MAX_LOOK_EVERY_S = 0.02, 0.2
_FILLED = "none of its batches is open, and the vendor's queue has no room for one (other programs may fill it)"


class Poller:
    """Polls the open batches of `components.rows` and collects their results. `rates` are the batch prices."""

    states: tuple[type[Sent], ...] = AtVendor, Ended, Collected

    def __init__(self, components: Components, collector: Collector, rates: Mapping[str, DatedPrices]) -> None:
        self._components, self._policy, self._collector = components, components.policy, collector
        self._store_since, self._rates = lru_cache(maxsize=1)(partial(Store, components.ledger.folder)), rates
        self._rows, self._counters, self._context = components.rows, components.counters, components.context

    async def poll_regularly(self) -> None:
        """Advance each batch whenever an action is due, until cancelled.

        Batches take turns, because collecting two at once could exhaust the memory.

        Raises:
            LeaseLost: another driver has the store.
            ConfigError: a batch is unknown to the vendor, and the API key belongs to another account.
            OSError: the store cannot be written.
        """
        while True:
            for batch in self._rows.batches:
                await self._components.advance(batch, self)
            await asyncio.sleep(min(MAX_LOOK_EVERY_S, max(MIN_LOOK_EVERY_S, self._policy.poll_s)))

    async def perform(self, batch: BatchInFlight, state: Sent, action: do.Action) -> Sent | Closed | None:
        match state, action:
            case AtVendor() | Ended(), do.Poll():
                return await self._poll(state)
            case AtVendor() | Ended(), do.Wait():
                return None
            case AtVendor() | Ended(), do.GiveUp(error):
                return await self._give_up(batch, state, error)
            case AtVendor() | Ended(), do.StopProvider(error):
                self._components.stop_provider(str(error))
                return None
            case AtVendor(), do.Cancel(reason):
                return await self._cancel(state, reason)
            case AtVendor(), do.RecordEnd(status):
                return self._record_end(state, status)
            case Ended(), do.Collect(status):
                return await self._collect(batch, state, status)
            case Collected(), do.CleanUp():
                with suppress(CallError):
                    await self._components.api.clean_up(state.status)
                return Closed()
            case Collected(), do.Close():
                return Closed()
        raise UnexpectedAction(state, action)

    async def _poll(self, state: AtVendor | Ended) -> AtVendor | Ended:
        try:
            status = await self._components.api.poll(state.batch_id)
        except CallError as error:
            return self._failed(state, error)
        if not status.known and not state.polls.count:
            self._counters.notes.append(f"batch {state.record.name} is in an unknown state: {status.word}")
        if status.lacks_results and not (state.polls.ended and state.polls.ended.lacks_results):
            self._counters.notes.append(
                f"batch {state.record.name} has ended ({status.word}), and the vendor does not show its results yet; "
                "waiting for them"
            )
        return transitions.polled(state, status, self._context.clock(), self._policy)

    def _failed(self, state: Polled, error: CallError) -> Polled:
        """Return the state after a request for status or results failed.

        Note if the vendor does not know them, and once if no request has succeeded for long.
        """
        self._count_retry(state.record, error)
        failed = transitions.poll_failed(state, error, self._context.clock(), self._policy)
        if isinstance(error, ResultsGone) and state.polls.unknown_since == inf and is_asked_again(failed):
            until = self._context.today() + timedelta(seconds=UNKNOWN_S)
            self._counters.notes.append(
                f"batch {state.record.name}: {error}; it may show late, and is asked for until {until:%H:%M:%S} UTC. "
                "After that, unless the key may be another account's, the rest of its reservation counts as spent, and "
                "its rows are sent again"
            )
        told_at = failed.polls.failing_since + FAILING_S
        if isinstance(error, TransientError) and state.polls.at < told_at <= failed.polls.at:
            self._counters.notes.append(
                f"batch {state.record.name}: no request for its status or results succeeded in {FAILING_S / 60:.0f} "
                f"minutes, the last because: {error}. The vendor is asked until it answers; nothing is sent again"
            )
        return failed

    async def _cancel(self, state: AtVendor, reason: str) -> AtVendor:
        try:
            await self._components.api.cancel(state.batch_id)
        except CallError as error:
            self._count_retry(state.record, error)
            return transitions.cancel_failed(state, error, self._context.clock(), self._policy)
        self._counters.notes.append(f"batch {state.record.name} {reason} and is cancelled")
        return transitions.cancelled(state, self._context.clock())

    def _record_end(self, state: AtVendor, status: BatchStatus) -> Ended:
        context = self._context
        problem = str(status.problem) if status.problem else None
        event = EndedEvent(epoch=context.epoch, at=context.today(), word=status.word, problem=problem)
        return Ended(self._components.ledger.add(state.record, event), state.batch_id, state.polls)

    async def _collect(self, batch: BatchInFlight, state: Ended, status: BatchStatus) -> Ended | Collected:
        context, ledger, intent = self._context, self._components.ledger, state.record.intent
        hashes = body_hashes(await asyncio.to_thread(ledger.rows, state.record))
        results = batch.results = await self._results(batch, state.record, hashes)
        price = intent.price or self._rates[batch.model].on(context.today().date())
        try:
            try:
                await self._collector.collect(results, state.record, price, hashes, status)
            except ResultsLate as late:
                are_some = isinstance(late, SomeResultsLate)
                results.partial_reads += are_some
                results.late_reads += not are_some
                if results.late_reads == 1 and not are_some:
                    self._counters.notes.append(f"batch {state.record.name} has ended, and {late}; it is asked again")
                if (results.partial_reads < SOME_LATE_POLLS) if are_some else (state.polls.still_count < LATE_POLLS):
                    raise
                status = replace(status, lacks_results=not are_some, lacks_some=are_some)
                await self._collector.collect(results, state.record, price, hashes, status)
        except CallError as error:
            return self._failed(state, error)
        problems = (status.problem, results.stop, results.refused)
        refusal = next((problem for problem in problems if isinstance(problem, ModelError | BatchRefused)), None)
        record = ledger.add(state.record, results.event(intent.rows, context.epoch, context.today(), refusal))
        self._close(batch, hashes, results)
        self._apply_errors(batch, record, status, results)
        self._stop_if_substituted(record, results.reported)
        if results.unread:
            self._counters.notes.append(
                f"batch {record.name}: {len(results.unread)} answers of {status.id} may have been billed and cannot be "
                f"read, the first because: {next(iter(results.unread.values()))}. Their rows are failures, each booked "
                "at an equal share of the batch's reservation. Nothing was deleted at the vendor. `--retry-failed` "
                "sends these rows again and pays for them again"
            )
        if status.lacks_results and results.withheld:
            self._counters.notes.append(
                f"batch {record.name}: {status.id} ended ({status.word}; the vendor counts {status.done} answers), but "
                f"the vendor never showed its results{results.instead}: {results.withheld} rows are failures, booked "
                "at all that is left of the batch's reservation. Nothing was deleted at the vendor: ask its support "
                "for the results. `--retry-failed` sends these rows again and pays for them again"
            )
        if status.lacks_some:
            self._counters.notes.append(
                f"batch {record.name}: the vendor counts {status.done} answers of {status.id} and never showed all of "
                "them: the others may have been billed, and are booked at a share of the batch's reservation. Rows "
                "without a result are sent again. Nothing was deleted at the vendor: ask its support for the results"
            )
        is_ours = record.is_certain or bool(results.answered)
        is_read = not (results.withheld or status.lacks_results or status.lacks_some)
        return Collected(record, status, may_be_deleted=is_ours and is_read)

    async def _give_up(
        self, batch: BatchInFlight, state: AtVendor | Ended, error: ResultsGone
    ) -> AtVendor | Ended | Closed:
        """Close a batch that no longer exists with the results stored so far; the rest may have been billed.

        To a key of another account, or at another url, every batch seems not to exist: it must not be paid again. The
        key is the account's if the vendor has shown it the batch, and only then let the results expire. Raise
        ConfigError if the API key may belong to another account.
        """
        record = state.record
        try:
            if not state.polls.is_shown:
                owner = await self._components.api.owner() if record.intent.owner else ""
                self._components.require_account(record, owner)
        except TransientError as failed:
            return transitions.poll_failed(state, failed, self._context.clock(), self._policy)
        except CallError as failed:
            self._components.stop_provider(f"batch {record.name}: {error}, nor whose the key is: {failed}")
            return state
        self._counters.notes.append(f"batch {record.name} no longer exists at the vendor: {error}")
        hashes = body_hashes(await asyncio.to_thread(self._components.ledger.rows, record))
        results = await self._results(batch, record, hashes)
        results.lost_nanousd = max(0, record.intent.nanousd - results.nanousd)
        self._components.record_closed(record, "gone", str(error), results)
        self._close(batch, hashes, results)
        return Closed()

    async def _results(self, batch: BatchInFlight, record: Batch, hashes: Mapping[str, str]) -> Results:
        """Return the results of a batch stored so far, including those of an earlier process.

        Failures from before it was sent are not its results: their calls were sent again, and are paid for again.
        """
        if batch.results is not None:
            return batch.results
        if record.intent.epoch == self._context.epoch:
            return Results()

        def read_stored() -> Results:
            store = self._store_since(record.epoch)
            store.refresh(batch.model)
            return Results.resumed(store.read(batch.model, list(hashes)).values())

        return await asyncio.to_thread(read_stored)

    def _close(self, batch: BatchInFlight, keys: Iterable[str], results: Results) -> None:
        traffic = self._counters.traffic[batch.model]
        if batch.is_own:
            self._components.budget.collect(batch.nanousd, results.nanousd, results.lost_nanousd)
            self._counters.cost_nanousd += results.nanousd - results.earlier_nanousd
            traffic.cost_nanousd += results.nanousd - results.earlier_nanousd
            if batch.record:
                self._components.check_overrun(batch.record, results.nanousd + results.lost_nanousd)
        traffic.input_tokens += results.input_tokens
        traffic.output_tokens += results.output_tokens
        answered = results.answered - results.failed_earlier  # what failed earlier is offered again only to be retried
        self._rows.mark_answered(answered)
        self._rows.close(batch, set(keys) - answered)
        self._components.limits.note_end(batch.model)

    def _apply_errors(self, batch: BatchInFlight, record: Batch, status: BatchStatus, results: Results) -> None:
        """Apply errors of the whole batch or of single lines that concern the queue, the model or the account.

        Errors of a batch that an earlier process sent stop nothing: key, credit or settings may be others since. But if
        none of its answers can be read, its model is stopped: they were read now.
        """
        limits, tokens = self._components.limits, record.intent.tokens
        if isinstance(status.problem, RateLimited):
            enqueued = self._rows.enqueued(batch.model)
            refusal = limits.note_overflow(batch.model, enqueued, tokens, status.problem)
            self._counters.deferred.update(batch.waiting)
            if refusal:
                self._components.apply_refusal(batch.model, refusal, _FILLED, status.problem)
        elif status.problem is None:
            limits.note_success(batch.model, tokens)
        is_unread = results.stop is not None and results.stop.kind is FailureKind.MALFORMED
        is_of_now = record.intent.epoch == self._context.epoch or self._context.keeps_refusals or is_unread
        for problem in (status.problem, results.stop, results.refused):
            if isinstance(problem, BatchRefused) or (is_of_now and isinstance(problem, ProviderError | ModelError)):
                self._components.apply_error(batch.model, problem)
        if results.stop and not is_of_now:
            self._counters.notes.append(
                f"batch {record.name}, sent before this start, has rows without an answer, which are sent again: "
                f"{results.stop}"
            )
        if status.problem:
            self._counters.notes.append(f"batch {record.name} {status.word}: {status.problem}")

    def _stop_if_substituted(self, record: Batch, reported: Counter[str]) -> None:
        """Stop a model if another one gave all answers of a batch, by the names reported: no row can use them.

        Also if an earlier process sent the batch: further ones would cost as much, unless the endpoint was repaired.
        """
        intent = record.intent
        asked = Model(intent.model, self._components.models[intent.model])
        substitutes = [asked.substitute(name) for name in reported]
        if reported.total() >= MIN_ALIKE and all(substitutes):
            reason = f"all {reported.total()} answers of a batch were {substitutes[0]}; {IF_SUBSTITUTED}"
            if intent.epoch != self._context.epoch:
                reason += ". The batch was sent before this start: if the endpoint was repaired since, only start again"
            self._counters.stops.setdefault(intent.model, reason)

    def _count_retry(self, record: Batch, error: CallError) -> None:
        """Count a failed request that will be repeated. Errors that end the batch or provider are reported there."""
        if isinstance(error, ResultsGone | ProviderError):
            return
        self._counters.retries += 1
        if not isinstance(error, TransientError):
            self._counters.notes.append(f"batch {record.name}: {error}")
