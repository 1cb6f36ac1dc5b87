"""The next action for every state and every relevant fact, without network, processes or sleeps."""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from math import inf
from typing import Any, get_args

import pytest

from hab_ray.catalog.models import BatchPolicy
from hab_ray.engine import batch
from hab_ray.engine.batch import actions as do
from hab_ray.engine.batch import create, poll, submit
from hab_ray.engine.batch.decisions import ATTEMPTS, LATE_POLLS, UNKNOWN_S, Now, backoff_s, next_action
from hab_ray.engine.batch.states import (
    AtVendor,
    Collected,
    CreateFailed,
    Ended,
    Funded,
    OutcomeUnknown,
    Packed,
    Polls,
    Sent,
    Sighting,
    Submitting,
    Unsettled,
)
from hab_ray.engine.ledger import Batch
from hab_ray.errors import CallError, FailureKind, ModelError, ProviderError, RateLimited, TransientError
from hab_ray.providers.batching import BadRows, BatchRefused, BatchStatus, ResultsGone
from tests.engine.batch.fakes import ENDED, START, broken, intent, submitted

Deciding = Packed | Unsettled | Sent

POLICY = BatchPolicy(in_doubt_s=600.0, longest_s=1000.0, still_s=60.0)
CLOCK = 5000.0
NOW = Now(CLOCK, START + timedelta(seconds=10))
OVERDUE = Now(CLOCK, START + timedelta(seconds=1001))
NEW = Batch("acme", 1)
MEANT = Batch("acme", 1, (intent(),))
SURE = Batch("acme", 1, (intent(), submitted()))
UNSURE = Batch("acme", 1, (intent(), submitted(certain=False)))
DONE = Batch("acme", 1, (intent(), submitted(), ENDED))

DOUBT = broken()
FULL = RateLimited("too many batches", 30.0)
BUSY = TransientError(FailureKind.SERVER, "overloaded")
BAD_ROWS = BadRows("row 2 is malformed", (1,))
NO_BATCHES = BatchRefused("no batches of this model")
RETIRED = ModelError(FailureKind.MODEL_RETIRED, "retired")
NO_KEY = ProviderError(FailureKind.BAD_KEY, "no such key")
GONE = ResultsGone("no such batch")

FINAL = BatchStatus("b-1", "completed", ended=True)
COUNTED = BatchStatus("b-1", "completed", ended=True, counters=(2, 0))
LATE = BatchStatus("b-1", "completed", ended=True, counters=(2, 0), lacks_results=True)


def polls(since: float = 0.0, due: float = 0.0, at: float = CLOCK, **facts: Any) -> Polls:
    return Polls(since=since, due=due, at=at, **facts)


def unknown(**facts: Any) -> OutcomeUnknown:
    usual: dict[str, Any] = {"owner": "org", "is_recovered": True}
    return OutcomeUnknown(MEANT, **(usual | facts))


def at_vendor(record: Batch = SURE, **facts: Any) -> AtVendor:
    return AtVendor(record, "b-1", polls(**facts))


def left(why: str) -> do.LeaveInDoubt:
    return do.LeaveInDoubt(f"{why}; its batches are looked for when the same command is given again")


EARLY: dict[str, Any] = {"since": 0.0, "looked_at": 599.0}
LONG_AFTER: dict[str, Any] = {"since": 0.0, "looked_at": 600.0}

CASES: dict[str, tuple[Deciding, Now, object]] = {  # those that no test of the engine tells apart
    "one empty listing": (unknown(sighting=Sighting(), empty_listings=1, **LONG_AFTER), NOW, do.Look()),
    "the last attempt left nothing at the vendor": (
        unknown(sighting=Sighting(), empty_listings=2, attempt=ATTEMPTS, **LONG_AFTER),
        NOW,
        left("batch acme/000001: 8 requests to create it got no clear answer"),
    ),
    "the last attempt failed": (CreateFailed(MEANT, ATTEMPTS, BUSY), NOW, left("overloaded")),
    "two candidates": (unknown(sighting=Sighting(unproven=("b-7", "b-8")), **LONG_AFTER), NOW, do.Look()),
    "too old and cancelled": (replace(at_vendor(), is_cancelled=True), OVERDUE, do.Poll()),
    "too old, ended, its counters may change": (at_vendor(ended=COUNTED, still_since=CLOCK - 59), OVERDUE, do.Poll()),
    "ended, its counters still": (
        at_vendor(ended=COUNTED, counters=(2, 0), still_since=CLOCK - 60),
        NOW,
        do.RecordEnd(COUNTED),
    ),
    "unknown to the vendor for a short time": (
        at_vendor(error=GONE, unknown_since=CLOCK - UNKNOWN_S, due=CLOCK + 1),
        NOW,
        do.Wait(CLOCK + 1),
    ),
    "the budget refused more than is left": (
        Packed(2, 10, 100, "budget reached"),
        replace(NOW, budget_left=99),
        do.FitToBudget(99, "budget reached"),
    ),
    "ended, its results not shown for many quick polls": (
        at_vendor(ended=LATE, still_since=CLOCK - 59, still_count=LATE_POLLS),
        NOW,
        do.Poll(),
    ),
}


@pytest.mark.parametrize(("state", "now", "expected"), CASES.values(), ids=CASES)
def test_next_action(state: Deciding, now: Now, expected: object) -> None:
    assert next_action(state, now, POLICY) == expected


@pytest.mark.parametrize(
    ("error", "attempt", "wait_s"),
    [(BUSY, 1, 1.0), (BUSY, 4, 8.0), (BUSY, 7, 60.0), (FULL, 1, 30.0), (RateLimited("past", 0.0), 2, 2.0)],
)
def test_backoff_doubles_unless_the_vendor_says(error: TransientError, attempt: int, wait_s: float) -> None:
    assert backoff_s(error, attempt) == wait_s


QUIET = (do.GiveBack, do.Requeue, do.Split, do.Refuse, do.Wait, do.LeaveInDoubt, do.Close)
NOWS = [
    Now(CLOCK, today, late, stopping, closed, stopped, room, left)
    for today in (NOW.today, OVERDUE.today)
    for late, stopping, closed, stopped, room in product((False, True), repeat=5)
    for left in (None, 0, 1000)
]
ERRORS: tuple[CallError, ...] = (DOUBT, FULL, BUSY, BAD_ROWS, NO_BATCHES, RETIRED, NO_KEY)
SOON = CLOCK + 1


def all_states() -> Iterator[Deciding]:
    """Every state with every combination of the facts that a decision could depend on."""
    yield Funded()
    yield unknown(error=NO_KEY)
    for rows, refusal in product((0, 2), (None, "budget reached")):
        yield Packed(rows, 10 * rows, 100 * rows, refusal)
    for record, at, is_recovered in product((NEW, MEANT), (-inf, SOON), (False, True)):
        yield Submitting(record, 2, at, is_recovered)
    for error, attempt, is_recovered in product(ERRORS, (1, ATTEMPTS), (False, True)):
        yield CreateFailed(MEANT, attempt, error, is_recovered)
    sightings = [Sighting(*found) for found in FOUND]
    for owner, sighting, times, empty, attempt, at in product(
        (None, "org", "rival"), (None, *sightings), (EARLY, LONG_AFTER), (0, 2), (0, ATTEMPTS), (-inf, SOON)
    ):
        yield unknown(owner=owner, sighting=sighting, empty_listings=empty, attempt=attempt, look_at=at, **times)
    for may_be_deleted in (False, True):
        yield Collected(DONE, FINAL, may_be_deleted)
    yield from states_at_vendor()


FOUND: tuple[tuple[str | None, tuple[str, ...]], ...] = (("b-7", ()), (None, ()), (None, ("b-7",)), (None, ("b", "c")))


def states_at_vendor() -> Iterator[AtVendor | Ended]:
    for since, due, still_since, ended, error in product(
        (CLOCK - 1, CLOCK - 1000), (CLOCK, SOON), (CLOCK, 0.0), (None, FINAL, COUNTED), (None, GONE, NO_KEY, BUSY)
    ):
        unknown_since = since if error is GONE else inf
        seen = polls(since, due, ended=ended, still_since=still_since, error=error, unknown_since=unknown_since)
        yield Ended(DONE, "b-1", seen)
        for record, is_cancelled, cancel_at in product((SURE, UNSURE), (False, True), (-inf, SOON)):
            yield AtVendor(record, "b-1", seen, is_cancelled, cancel_at)


def walk() -> Iterator[tuple[Deciding, Now, object]]:
    """Every state with every `Now`; room and budget do not matter for batches at the vendor."""
    for state in all_states():
        for now in NOWS[::6] if isinstance(state, AtVendor | Ended) else NOWS:
            yield state, now, next_action(state, now, POLICY)


def test_every_declared_action_is_chosen_and_no_other() -> None:
    chosen: dict[str, set[type]] = {}
    for state, now, action in walk():
        chosen.setdefault(type(state).__name__, set()).add(type(action))
        if now.is_stopping:
            assert isinstance(action, QUIET), "a stopping run begins a request"
        if isinstance(action, do.StoreLines | do.Submit):
            assert not (now.is_late or now.is_closed), "a batch is begun that may not be"
        if isinstance(action, do.Cancel):
            assert isinstance(state, AtVendor) and state.record is SURE, "somebody else's batch is cancelled"
        if isinstance(state, AtVendor | Ended) and now.is_provider_stopped:
            assert action == do.Wait(inf), "a stopped provider is asked"
        if isinstance(action, do.Retry) and isinstance(state, OutcomeUnknown):
            assert (state.sighting, state.looked_at) == (Sighting(), 600.0), "a batch is sent again that may exist"
    assert chosen == {name: set(get_args(getattr(do, f"{name}Action"))) for name in chosen}
    assert drawn() == {(name, action.__name__) for name, some in chosen.items() for action in some}


def drawn() -> set[tuple[str, str]]:
    """The states and actions of the table at the head of the package."""
    pairs, state = set(), ""
    table = (batch.__doc__ or "").partition("next state\n")[2].partition("\n\n")[0]
    for row in table.splitlines():
        state = row[4:20].strip() or state
        pairs.add((state, row[20:].split()[0]))
    return pairs


def performed() -> set[tuple[str, str]]:
    """The states and actions that the engine has a case for: each is a pair of class patterns, or of some."""
    pairs: set[tuple[str, str]] = set()
    for module in (submit, create, poll):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.match_case) and isinstance(node.pattern, ast.MatchSequence):
                states, some = (re.findall(r"\b[A-Z]\w+", ast.unparse(part)) for part in node.pattern.patterns)
                new = set(product(states, some))
                assert not new & pairs, f"two cases for {new & pairs}"
                pairs |= new
    return pairs


def test_the_engine_performs_what_the_table_has_and_nothing_else() -> None:
    assert performed() == drawn()
