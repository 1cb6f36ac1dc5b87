"""Outcomes and the next state: poll times, unchanged counters, and states recovered after a crash."""

import pytest

from hab_ray.catalog.models import BatchPolicy
from hab_ray.engine.batch import transitions
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
from hab_ray.engine.ledger import Batch
from hab_ray.errors import FailureKind, TransientError
from hab_ray.providers.batching import BatchStatus, ResultsGone
from tests.engine.batch.fakes import ENDED, intent, submitted

POLICY = BatchPolicy(poll_s=10.0, longest_poll_s=100.0, still_s=60.0, in_doubt_s=20.0)
MEANT = Batch("acme", 1, (intent(),))
SENT = Batch("acme", 1, (intent(), submitted()))
DONE = Batch("acme", 1, (intent(), submitted(), ENDED))
RUNNING = BatchStatus("b-1", "in_progress", ended=False)
BUSY = TransientError(FailureKind.SERVER, "overloaded")


def ended_with(*counters: int) -> BatchStatus:
    return BatchStatus("b-1", "completed", ended=True, counters=counters)


def at_vendor(since: float = 0.0) -> AtVendor:
    return AtVendor(SENT, "b-1", Polls(since=since, due=since))


@pytest.mark.parametrize(("age_s", "interval_s"), [(0, 10), (99, 10), (300, 30), (999, 99.9), (86_400, 100)])
def test_the_poll_interval_is_a_tenth_of_the_age_within_bounds(age_s: float, interval_s: float) -> None:
    polls = transitions.polled(at_vendor(), RUNNING, age_s, POLICY).polls
    assert 0.9 * interval_s <= polls.due - age_s <= 1.1 * interval_s
    assert (polls.count, polls.at, polls.ended) == (1, age_s, None)


def test_batches_are_not_polled_in_step() -> None:
    first = [transitions.submitted(Batch("acme", n, SENT.events), submitted(), 0.0, POLICY, False) for n in range(9)]
    assert len({state.polls.due for state in first}) == 9
    again = transitions.submitted(SENT, submitted(), 0.0, POLICY, False)
    assert again == transitions.submitted(SENT, submitted(), 0.0, POLICY, False)


def test_a_batch_of_an_earlier_process_is_polled_at_once() -> None:
    assert transitions.submitted(SENT, submitted(), 7.0, POLICY, is_recovered=True).polls.due == 7.0


def test_counters_are_still_since_their_last_change_and_watched_closely() -> None:
    state = transitions.polled(at_vendor(), ended_with(1, 0), 2000.0, POLICY)
    assert state.polls.due <= 2000.0 + 1.1 * POLICY.still_s
    state = transitions.polled(state, ended_with(2, 0), 2050.0, POLICY)
    assert state.polls.still_since == 2050.0
    state = transitions.polled(state, RUNNING, 2100.0, POLICY)
    assert state.polls.ended is None
    state = transitions.polled(state, ended_with(2, 0), 2120.0, POLICY)
    assert (state.polls.still_since, state.polls.at, state.polls.ended) == (2050.0, 2120.0, ended_with(2, 0))


def test_a_cancelled_batch_is_polled_at_once_and_a_failed_cancel_is_repeated_later() -> None:
    state = transitions.cancelled(at_vendor(), 40.0)
    assert state.is_cancelled and state.polls.due == 40.0
    gone = ResultsGone("no such batch")
    state = transitions.cancel_failed(at_vendor(), gone, 40.0, POLICY)
    assert not state.is_cancelled and state.cancel_at > 40.0 and (state.polls.at, state.polls.error) == (40.0, gone)


def test_what_the_ledger_says_of_an_earlier_process() -> None:
    polls = Polls(since=3.0, due=3.0)
    assert transitions.recovered(MEANT, 3.0) == OutcomeUnknown(MEANT, is_recovered=True)
    assert transitions.recovered(SENT, 3.0) == AtVendor(SENT, "b-1", polls)
    assert transitions.recovered(DONE, 3.0) == Ended(DONE, "b-1", polls)
    assert transitions.recovered(Batch("acme", 1, (intent(), ENDED)), 3.0) == Closed()


def test_a_doubt_of_an_earlier_process_is_as_old_as_the_first_look_of_this_one() -> None:
    """Its intent is older than its create request, which follows the upload."""
    state = transitions.recovered(MEANT, 3.0)
    assert isinstance(state, OutcomeUnknown)
    for clock in (50.0, 90.0):
        state = transitions.looked(state, Sighting(), frozenset(), clock, POLICY)
        assert (state.since, state.looked_at) == (50.0, clock)


def test_looks_in_a_row_without_a_candidate_are_counted() -> None:
    state = OutcomeUnknown(MEANT)
    for found, empty in (((), 1), ((), 2), (("b-2",), 0), ((), 1)):
        state = transitions.looked(state, Sighting(unproven=found), frozenset({"x"}), 9.0, POLICY)
        assert (state.empty_listings, state.foreign, state.look_at) == (empty, frozenset({"x"}), 14.0)


def test_attempts_are_counted() -> None:
    failed = CreateFailed(MEANT, 3, BUSY, is_recovered=True)
    assert transitions.retried(failed, 8.0) == Submitting(MEANT, 4, 8.0, is_recovered=True)
