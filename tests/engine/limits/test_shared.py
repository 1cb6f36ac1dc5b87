"""Several engines on one limiter, under a clock that the test controls."""

from math import inf

from hab_ray.catalog.models import Limits
from hab_ray.engine.limits.protocol import Grant, LimiterReply, PermitRequest, Report
from hab_ray.engine.limits.shared import LOST_AFTER_S, Enrolment, SharedLimiter


def enrolled(*engines: str, in_flight: int = 0) -> SharedLimiter:
    limiter = SharedLimiter()
    for engine in engines:
        limiter.enrol(Enrolment(engine, {"m": Limits(concurrent=10)}, 30.0, {"m": in_flight}), 0.0)
    return limiter


def ask(limiter: SharedLimiter, engine: str, count: int, now: float, *reports: Report) -> Grant:
    reply = limiter.exchange(engine, reports, [PermitRequest("m", (1,) * count)], now)
    assert isinstance(reply, LimiterReply)
    return reply.grants["m"]


def test_shared_concurrency() -> None:
    """Engines share the number of calls that the account may have in flight."""
    limiter = enrolled("x", "y")
    assert ask(limiter, "x", 7, 0.0) == Grant(7, 0.0)
    assert ask(limiter, "y", 7, 0.0) == Grant(3, inf)
    assert ask(limiter, "y", 7, 1.0) == Grant(0, inf)
    assert ask(limiter, "x", 0, 2.0, Report("m", finished=5, answered=5)) == Grant(0, 0.0)
    assert ask(limiter, "y", 7, 2.0) == Grant(5, inf)


def test_shared_stop() -> None:
    """A stop reported by one engine applies to all."""
    limiter = enrolled("x", "y")
    ask(limiter, "x", 1, 0.0, Report("m", finished=1, stop_provider="no quota"))
    assert ask(limiter, "y", 1, 0.0) == Grant(0, None, "no quota")


def test_leaving_and_silence() -> None:
    """The calls of an engine that leaves or falls silent count as ended."""
    limiter = enrolled("x", "y", "z")
    ask(limiter, "x", 4, 0.0)
    ask(limiter, "y", 4, 0.0)
    limiter.leave("x", 1.0)
    assert ask(limiter, "z", 20, 1.0).count == 6
    limiter.drop_silent(LOST_AFTER_S + 0.5)
    assert ask(limiter, "z", 20, LOST_AFTER_S + 0.5).count == 4
    assert limiter.exchange("y", [], [], 40.0) is None
    limiter.drop_silent(100.0)
    assert limiter.is_empty


def test_replaced_limiter() -> None:
    """A limiter that replaces a lost one learns what is in flight and starts without a burst."""
    limiter = SharedLimiter()
    limits = {"m": Limits(concurrent=10, requests_per_minute=60_000)}
    assert limiter.exchange("x", [], [], 0.0) is None
    limiter.enrol(Enrolment("x", limits, 30.0, {"m": 8}), 0.0)
    assert ask(limiter, "x", 5, 0.0).count == 1
    assert ask(limiter, "x", 5, 0.1).count == 1
    assert ask(limiter, "x", 5, 0.2) == Grant(0, inf)
