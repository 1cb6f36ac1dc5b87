"""Decides what to do next about a batch: a pure function of its state, the time and the account's policy."""

from dataclasses import dataclass
from datetime import datetime
from math import inf

from hab_ray.catalog.models import BatchPolicy
from hab_ray.engine.batch import actions as do
from hab_ray.engine.batch.states import (
    Active,
    AtVendor,
    Collected,
    CreateFailed,
    Ended,
    Funded,
    OutcomeUnknown,
    Packed,
    Polls,
    Sighting,
    Submitting,
)
from hab_ray.errors import ProviderError, RateLimited, TransientError
from hab_ray.providers.batch_http import same_owner
from hab_ray.providers.batching import BadRows, BatchStatus, InDoubt, ResultsGone

ATTEMPTS = 8
FIRST_BACKOFF_S = 1.0
MAX_BACKOFF_S = 60.0
EMPTY_LISTINGS = 2
UNKNOWN_S = 300.0
FAILING_S = 600.0
LATE_POLLS, SOME_LATE_POLLS = 60, 10


@dataclass(frozen=True, slots=True)
class Now:
    """What a decision depends on besides the batch itself.

    `clock` is monotonic seconds, `today` wall time in UTC. It `is_late` after the run's deadline, and `is_stopping`
    once the user stops the run. If `is_closed`, no batch may be sent to the model; if `is_provider_stopped`, no request
    to its provider. `has_room` is the vendor queue's; `budget_left` is nano-dollars, None without a budget.
    """

    clock: float
    today: datetime
    is_late: bool = False
    is_stopping: bool = False
    is_closed: bool = False
    is_provider_stopped: bool = False
    has_room: bool = True
    budget_left: int | None = None

    @property
    def takes_batches(self) -> bool:
        """Whether another batch may be created."""
        return not (self.is_stopping or self.is_late or self.is_closed)


def next_action(state: Active, now: Now, policy: BatchPolicy) -> do.Action:
    """Return the next action on a batch."""
    match state:
        case Packed():
            return _for_packed(state, now)
        case Funded():
            return do.StoreLines() if now.takes_batches else do.GiveBack()
        case Submitting() if now.is_stopping:
            return do.LeaveInDoubt(None)
        case Submitting() if not now.takes_batches:  # the vendor has no batch of it
            return do.GiveBack()
        case Submitting():
            return do.Wait(state.at) if now.clock < state.at else do.Submit()
        case CreateFailed():
            return _for_failed_create(state, now)
        case OutcomeUnknown():
            return _for_unknown_outcome(state, now, policy)
        case AtVendor() | Ended():
            return _for_sent(state, now, policy)
        case Collected():
            return do.CleanUp() if state.may_be_deleted and not now.is_stopping else do.Close()


def backoff_s(error: TransientError, attempt: int) -> float:
    """Return the seconds to wait after the given attempt (from 1): as the vendor says, or doubling each time.

    A wait of 0 s, as from a date in the past, would use up all attempts at once.
    """
    asked = error.retry_after_s if isinstance(error, RateLimited) else None
    return asked or min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (attempt - 1))


def _for_packed(state: Packed, now: Now) -> do.PackedAction:
    if not state.rows or not now.takes_batches:
        return do.GiveBack()
    if state.refusal is None:
        return do.Reserve() if now.has_room else do.AwaitRoom()
    if now.budget_left is None or state.nanousd <= now.budget_left:
        return do.Reserve()
    return do.FitToBudget(now.budget_left, state.refusal)


def _for_failed_create(state: CreateFailed, now: Now) -> do.CreateFailedAction:
    """Free the rows only if the vendor clearly refused the batch; otherwise it may exist."""
    match state.error:
        case InDoubt() as error:
            return _leave_in_doubt(str(error)) if now.is_stopping else do.LookFor(error)
        case RateLimited() as error if not state.is_recovered:
            return do.Requeue(error)
        case RateLimited() as error:
            return do.Refuse(error)
        case TransientError() as error if now.is_stopping or state.attempt >= ATTEMPTS:
            return _leave_in_doubt(str(error))
        case TransientError() as error:
            return do.Retry(backoff_s(error, state.attempt))
        case BadRows() as error if not state.is_recovered:
            return do.Split(error)
        case error:
            return do.Refuse(error)


def _for_unknown_outcome(state: OutcomeUnknown, now: Now, policy: BatchPolicy) -> do.OutcomeUnknownAction:
    if state.error is not None:
        return _leave_in_doubt(str(state.error))
    if now.is_stopping:
        return do.LeaveInDoubt(None)
    if state.owner is None:
        return do.AskOwner()
    if not same_owner(state.owner, state.record.intent.owner):
        return do.RefuseOwner(state.owner)
    if state.sighting is not None and (conclusion := _conclusion(state, state.sighting, policy)):
        return conclusion
    return do.Wait(state.look_at) if now.clock < state.look_at else do.Look()


def _conclusion(
    state: OutcomeUnknown, sighting: Sighting, policy: BatchPolicy
) -> do.Adopt | do.Retry | do.LeaveInDoubt | None:
    """Return what follows from a look at the vendor's list; None if nothing does yet.

    A new batch may appear in the list late, so its absence proves nothing before `in_doubt_s`.
    """
    if sighting.proven is not None:
        return do.Adopt(sighting.proven, certain=True)
    if state.looked_at - state.since < policy.in_doubt_s:
        return None
    if len(sighting.unproven) == 1:
        return do.Adopt(sighting.unproven[0], certain=False)
    if sighting.unproven or state.empty_listings < EMPTY_LISTINGS:
        return None
    if state.attempt >= ATTEMPTS:
        return _leave_in_doubt(f"batch {state.record.name}: {ATTEMPTS} requests to create it got no clear answer")
    return do.Retry(0.0)


def _for_sent(state: AtVendor | Ended, now: Now, policy: BatchPolicy) -> do.AtVendorAction | do.EndedAction:
    polls = state.polls
    if now.is_provider_stopped or now.is_stopping:
        return do.Wait(inf)
    if isinstance(polls.error, ProviderError):
        return do.StopProvider(polls.error)
    if isinstance(polls.error, ResultsGone) and not is_asked_again(state):
        return do.GiveUp(polls.error)
    if final := _final_status(polls, policy):
        return do.RecordEnd(final) if isinstance(state, AtVendor) else do.Collect(final)
    if isinstance(state, AtVendor) and (reason := _reason_to_cancel(state, now, policy)):
        return do.Cancel(reason)
    return do.Wait(polls.due) if now.clock < polls.due else do.Poll()


def is_asked_again(state: AtVendor | Ended) -> bool:
    """Return whether a batch or results that the vendor does not know may show late, or be missed by mistake."""
    polls = state.polls
    return state.record.is_certain and polls.at - polls.unknown_since <= UNKNOWN_S


def _final_status(polls: Polls, policy: BatchPolicy) -> BatchStatus | None:
    """Return the status of an ended batch if it has no counters, or they have not changed for long enough.

    Wait much longer for results that the vendor does not show yet: they are paid for, and waiting costs nothing.
    """
    ended = polls.ended
    if ended is None or ended.counters is None:
        return ended
    if ended.lacks_results and polls.still_count < LATE_POLLS:
        return None
    return ended if polls.at - polls.still_since >= policy.still_s else None


def _reason_to_cancel(state: AtVendor, now: Now, policy: BatchPolicy) -> str | None:
    is_open = state.polls.ended is None and not state.is_cancelled
    if not is_open or not state.record.is_certain or now.clock < state.cancel_at:
        return None
    if now.is_late:
        return "was not done by the deadline"
    age_s = (now.today - state.record.intent.at).total_seconds()
    return f"was not done after {age_s:.0f} s" if age_s > policy.longest_s else None


def _leave_in_doubt(reason: str) -> do.LeaveInDoubt:
    return do.LeaveInDoubt(f"{reason}; its batches are looked for when the same command is given again")
