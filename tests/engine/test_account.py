"""Several lanes on one account, under a clock that the test turns."""

from __future__ import annotations

from math import inf

from hab_ray.catalog import Limits
from hab_ray.engine.account import LOST_AFTER_S, Account, Enrolment
from hab_ray.engine.permits import Ask, Granted, Lease, Report


def enrolled(*lanes: str, in_flight: int = 0) -> Account:
    account = Account()
    for lane in lanes:
        account.enrol(Enrolment(lane, {"m": Limits(concurrent=10)}, 30.0, {"m": in_flight}), 0.0)
    return account


def ask(account: Account, lane: str, count: int, now: float, *reports: Report) -> Lease:
    granted = account.exchange(lane, reports, [Ask("m", (1,) * count)], now)
    assert isinstance(granted, Granted)
    return granted.leases["m"]


def test_lanes_share_what_the_account_may_have_in_flight() -> None:
    account = enrolled("x", "y")
    assert ask(account, "x", 7, 0.0) == Lease(7, 0.0)
    assert ask(account, "y", 7, 0.0) == Lease(3, inf)
    assert ask(account, "y", 7, 1.0) == Lease(0, inf)
    assert ask(account, "x", 0, 2.0, Report("m", finished=5, answered=5)) == Lease(0, 0.0)
    assert ask(account, "y", 7, 2.0) == Lease(5, inf)


def test_what_one_lane_is_told_holds_for_all() -> None:
    account = enrolled("x", "y")
    ask(account, "x", 1, 0.0, Report("m", finished=1, stop_provider="no quota"))
    assert ask(account, "y", 1, 0.0) == Lease(0, None, "no quota")


def test_a_lane_that_ends_or_falls_silent_gives_up_its_calls() -> None:
    account = enrolled("x", "y", "z")
    ask(account, "x", 4, 0.0)
    ask(account, "y", 4, 0.0)
    account.leave("x", 1.0)
    assert ask(account, "z", 20, 1.0).count == 6
    account.drop_silent(LOST_AFTER_S + 0.5)
    assert ask(account, "z", 20, LOST_AFTER_S + 0.5).count == 4
    assert account.exchange("y", [], [], 40.0) is None
    account.drop_silent(100.0)
    assert account.is_empty


def test_an_account_made_anew_knows_what_is_in_flight_and_starts_without_a_burst() -> None:
    account = Account()
    limits = {"m": Limits(concurrent=10, requests_per_minute=60_000)}
    assert account.exchange("x", [], [], 0.0) is None
    account.enrol(Enrolment("x", limits, 30.0, {"m": 8}), 0.0)
    assert ask(account, "x", 5, 0.0).count == 1
    assert ask(account, "x", 5, 0.1).count == 1
    assert ask(account, "x", 5, 0.2) == Lease(0, inf)
