"""Turns the outcome of an action into the batch's next state. All functions are pure; `clock` is monotonic seconds."""

from dataclasses import replace
from math import inf
from typing import TypeVar

from hab_ray.catalog.models import BatchPolicy
from hab_ray.engine.batch.states import (
    AtVendor,
    Closed,
    CreateFailed,
    Ended,
    OutcomeUnknown,
    Polls,
    Sighting,
    Submitting,
)
from hab_ray.engine.clock import jitter
from hab_ray.engine.ledger import Batch, Submitted
from hab_ray.errors import CallError
from hab_ray.providers.batching import BatchStatus, ResultsGone

Polled = TypeVar("Polled", bound=AtVendor | Ended)


def recovered(record: Batch, clock: float) -> OutcomeUnknown | AtVendor | Ended | Closed:
    """Return the state of a batch that an earlier process left in the ledger; Closed if it was never created.

    A doubt is as old as this process's first look: the create request may be younger than the intent by a long upload.
    """
    if record.submitted:
        polls = Polls(since=clock, due=clock)
        state = Ended if record.ended else AtVendor
        return state(record, record.submitted.batch_id, polls)
    if record.ended:
        return Closed()
    return OutcomeUnknown(record, is_recovered=True)


def retried(state: CreateFailed | OutcomeUnknown, at: float) -> Submitting:
    """Return the state of a batch to be created again at `at`."""
    return Submitting(state.record, state.attempt + 1, at, state.is_recovered)


def looked(
    state: OutcomeUnknown, sighting: Sighting, foreign: frozenset[str], clock: float, policy: BatchPolicy
) -> OutcomeUnknown:
    """Return the state after a look at the vendor's list; `foreign` are all ids known not to be ours."""
    return replace(
        state,
        sighting=sighting,
        foreign=foreign,
        empty_listings=0 if sighting.unproven else state.empty_listings + 1,
        look_at=clock + min(policy.poll_s, policy.in_doubt_s / 4),
        since=min(state.since, clock),
        looked_at=clock,
    )


def submitted(record: Batch, event: Submitted, clock: float, policy: BatchPolicy, is_recovered: bool) -> AtVendor:
    """Return the state of a batch that the vendor has. A recovered one may have ended long ago: poll it at once."""
    first = Polls(since=clock, due=clock)
    return AtVendor(record, event.batch_id, first if is_recovered else _scheduled(first, record, clock, policy))


def polled(state: Polled, status: BatchStatus, clock: float, policy: BatchPolicy) -> Polled:
    """Return the state after a poll. That the vendor knows an ended batch does not mean that it has its results."""
    before = state.polls
    is_new = status.ended and status.counters is not None and status.counters != before.counters
    polls = replace(
        before,
        at=clock,
        count=before.count + 1,
        ended=status if status.ended else None,
        counters=status.counters if is_new else before.counters,
        still_since=clock if is_new else before.still_since,
        still_count=(0 if is_new else before.still_count) + 1 if status.ended else 0,
        error=None,
        unknown_since=before.unknown_since if isinstance(state, Ended) else inf,
        failing_since=before.failing_since if isinstance(state, Ended) else inf,
        is_shown=True,
    )
    return replace(state, polls=_scheduled(polls, state.record, clock, policy))


def poll_failed(state: Polled, error: CallError, clock: float, policy: BatchPolicy) -> Polled:
    """Return the state after a request for status or results failed; the next poll tries again."""
    before = state.polls
    unknown_since = min(before.unknown_since, clock) if isinstance(error, ResultsGone) else inf
    failing_since = min(before.failing_since, clock)
    polls = replace(
        before,
        at=clock,
        count=before.count + 1,
        ended=None,
        error=error,
        unknown_since=unknown_since,
        failing_since=failing_since,
    )
    return replace(state, polls=_scheduled(polls, state.record, clock, policy))


def cancelled(state: AtVendor, clock: float) -> AtVendor:
    """Return the state after a cancel request was accepted; poll at once to see its effect."""
    return replace(state, is_cancelled=True, polls=replace(state.polls, due=clock))


def cancel_failed(state: AtVendor, error: CallError, clock: float, policy: BatchPolicy) -> AtVendor:
    """Return the state after a cancel request failed."""
    polls = replace(state.polls, at=clock, error=error)
    return replace(state, polls=polls, cancel_at=clock + _interval_s(polls, state.record, clock, policy))


def _scheduled(polls: Polls, record: Batch, clock: float, policy: BatchPolicy) -> Polls:
    return replace(polls, due=clock + _interval_s(polls, record, clock, policy))


def _interval_s(polls: Polls, record: Batch, clock: float, policy: BatchPolicy) -> float:
    """Return the poll interval: a tenth of the batch's age, between `poll_s` and `longest_poll_s`.

    Batches with counters are polled at least every `still_s`. The jitter depends only on the batch and the poll number.
    """
    longest_s = policy.longest_poll_s if polls.counters is None else policy.still_s
    wait_s = max(policy.poll_s, min(longest_s, (clock - polls.since) / 10))
    return wait_s * (0.9 + 0.2 * jitter(record.name, polls.count))
