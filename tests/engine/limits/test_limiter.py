"""The limiter under a clock that the test controls."""

from collections.abc import Iterator
from math import inf

import pytest

from hab_ray.catalog.models import Limits
from hab_ray.engine.limits.buckets import FIRST_WINDOW
from hab_ray.engine.limits.limiter import SLOWEST_PROBE_S, Limiter
from hab_ray.engine.limits.protocol import Grant, Report
from hab_ray.providers.base import Allowance, RateLimits


def limiter(concurrent: int = 2, patience_s: float = 30.0, **limits: int) -> Limiter:
    one = Limits(concurrent=concurrent, **limits)
    return Limiter({"a": one, "b": one}, patience_s)


def ask(tested: Limiter, model: str, now: float) -> Grant:
    return tested.grant(model, [1], now)


def end(tested: Limiter, model: str, now: float, **what: object) -> None:
    tested.report(Report(model, finished=1, **what), now)  # type: ignore[arg-type]


def refuse(tested: Limiter, model: str, retry_after_s: float | None, now: float) -> None:
    end(tested, model, now, refused="too fast", retry_after_s=retry_after_s)


def test_concurrency() -> None:
    """No more calls are in flight than allowed."""
    tested = limiter(concurrent=2)
    assert tested.grant("a", [1, 1, 1], 0.0) == Grant(2, inf)
    assert ask(tested, "a", 0.0) == Grant(0, inf)
    assert ask(tested, "b", 0.0) == Grant(1, 0.0)
    end(tested, "a", 0.0)
    assert ask(tested, "a", 0.0) == Grant(1, 0.0)


def test_retry_after() -> None:
    """A wait requested by the vendor pauses only that model."""
    tested = limiter()
    ask(tested, "a", 0.0)
    refuse(tested, "a", 7.5, 0.0)
    assert ask(tested, "a", 2.5) == Grant(0, 5.0)
    assert ask(tested, "b", 2.5) == Grant(1, 0.0)
    assert ask(tested, "a", 7.5) == Grant(1, 0.0)


@pytest.mark.parametrize("asked", [None, 0.0])
def test_growing_pauses(asked: float | None) -> None:
    """Pauses grow from refusal to refusal if the vendor names no wait, or one that is over."""
    tested, now, waits = limiter(patience_s=1000), 0.0, []
    for _ in range(8):
        assert ask(tested, "a", now).count == 1
        refuse(tested, "a", asked, now)
        wait = ask(tested, "a", now).wait_s
        assert wait is not None
        waits.append(wait)
        now += wait
    assert waits == sorted(waits) and waits[0] < 2 and waits[-1] == SLOWEST_PROBE_S


def test_refused_too_long() -> None:
    """A model whose calls are all refused is stopped when patience runs out."""
    tested = limiter(patience_s=30)
    refuse(tested, "a", 20.0, 0.0)
    refuse(tested, "a", 20.0, 20.0)
    assert ask(tested, "a", 40.0).count == 1
    refuse(tested, "a", 20.0, 40.0)
    assert ask(tested, "a", 100.0).wait_s is None
    assert ask(tested, "b", 100.0).count == 1


def test_wait_beyond_patience() -> None:
    """A wait longer than patience stops the model at once."""
    tested = limiter(patience_s=600)
    ask(tested, "a", 0.0)
    refuse(tested, "a", 3600.0, 0.0)
    assert "too fast (the vendor asks to wait 3600 s" in ask(tested, "a", 0.1).reason
    assert ask(tested, "b", 0.1).count == 1


def test_probing() -> None:
    """An unreachable endpoint is probed by one call at a time, until one succeeds."""
    tested = limiter(concurrent=50)
    end(tested, "a", 0.0, unreachable="refused")
    assert ask(tested, "a", 0.0) == Grant(0, 0.5)
    assert tested.grant("a", [1] * 10, 0.5).count == 1
    assert (ask(tested, "b", 0.5).wait_s or 0) > 0
    end(tested, "a", 0.6, answered=1)
    assert tested.grant("b", [1] * 5, 0.6) == Grant(5, 0.0)


def test_an_outage_is_told_from_its_first_try() -> None:
    tested = limiter(patience_s=600.0)
    assert tested.outage(0.0) is None
    for model, now, tries in (("a", 10.0, 1), ("b", 100.0, 14)):
        ask(tested, model, now)
        end(tested, model, now, unreachable="connection refused at 127.0.0.1:9", tries=tries)
        told = tested.outage(now)
        assert told is not None
    assert str(told) == "connection refused at 127.0.0.1:9, 15 tries, giving up in 8 min"
    end(tested, "a", 120.0, answered=1)
    assert tested.outage(120.0) is None
    end(tested, "a", 130.0, unreachable="refused", tries=1)
    assert str(tested.outage(650.0)) == "refused, 1 try, giving up in 80 s"
    end(tested, "a", 731.0, unreachable="refused", tries=1)
    assert tested.outage(731.0) is None and "not reachable for 600 s" in str(tested.stops)


def test_stopped_model() -> None:
    """A stop of a model leaves the others running; a stop of the provider does not."""
    tested = limiter()
    tested.report(Report("a", stop="retired"), 0.0)
    assert ask(tested, "a", 0.0).reason == "retired"
    assert ask(tested, "b", 0.0).count == 1
    tested.report(Report("a", stop_provider="no quota"), 0.0)
    assert ask(tested, "b", 0.0).reason == "no quota"
    assert tested.stops == {"": "no quota"}


def exchanges(
    tested: Limiter, cost: int, start: float, end_s: float, late_s: float = 0.0
) -> Iterator[tuple[float, int]]:
    """Yield how many always-waiting calls pass when, each answered at once; requests come `late_s` late."""
    now = start
    while now < end_s:
        lease = tested.grant("a", [cost] * 128, now)
        yield now, lease.count
        tested.report(Report("a", finished=lease.count, answered=lease.count), now)
        assert lease.wait_s is not None
        now += 0.0 if lease.wait_s == inf else lease.wait_s + late_s


def pull(tested: Limiter, cost: int, start: float, end_s: float, late_s: float = 0.0) -> list[float]:
    """The times at which calls pass."""
    return [now for now, count in exchanges(tested, cost, start, end_s, late_s) for _ in range(count)]


def busiest_minute(passed: list[float]) -> int:
    """Return the most calls in any 60 s."""
    first, most = 0, 0
    for last, at in enumerate(passed):
        while at - passed[first] >= 60:
            first += 1
        most = max(most, last - first + 1)
    return most


@pytest.mark.parametrize("per_minute", [3, 50, 1200, 15000])
@pytest.mark.parametrize("late_s", [0.0, 0.2])
def test_request_limit(per_minute: int, late_s: float) -> None:
    """A limit on requests is reached and never exceeded."""
    tested = limiter(concurrent=5000, requests_per_minute=per_minute)
    passed = pull(tested, 1, 0.0, 240.0, late_s)
    reached = sum(at >= 60 for at in passed) / (per_minute * 3)
    assert (0.9 if per_minute < 10 else 0.975) <= reached <= 1.0
    assert busiest_minute(passed) <= per_minute + 1


@pytest.mark.parametrize("cost", [100, 1500, 40_000])
def test_token_limit(cost: int) -> None:
    """A limit on tokens is reached and never exceeded, even by calls larger than a second's share."""
    tested = limiter(concurrent=5000, tokens_per_minute=200_000)
    passed = pull(tested, cost, 0.0, 1200.0)
    assert 0.97 <= sum(at >= 60 for at in passed) * cost / (200_000 * 19) <= 1.0
    assert busiest_minute(passed) * cost <= 200_000 + cost


def test_chunks() -> None:
    """Permits come in chunks, so that few exchanges are needed."""
    counts = [count for _, count in exchanges(limiter(concurrent=5000, requests_per_minute=15_000), 1, 0.0, 60.0)]
    assert sum(counts) / len(counts) > 50


def test_independent_models() -> None:
    """Models with different rates do not disturb each other."""
    rates = {"slow": 60, "middle": 1200, "fast": 15_000}
    tested = Limiter({m: Limits(concurrent=5000, requests_per_minute=n) for m, n in rates.items()}, 30.0)
    due = dict.fromkeys(rates, 0.0)
    passed = dict.fromkeys(rates, 0)
    while min(due.values()) < 120:
        model = min(due, key=lambda m: due[m])
        now = due[model]
        lease = tested.grant(model, [1] * 128, now)
        passed[model] += lease.count if now >= 60 else 0
        tested.report(Report(model, finished=lease.count, answered=lease.count), now)
        if model == "slow" and lease.count:
            tested.report(Report("slow", refused="too fast", retry_after_s=2.0), now)
        assert lease.wait_s is not None
        due[model] = now + (0.0 if lease.wait_s == inf else lease.wait_s)
    assert passed["middle"] / 1200 >= 0.97 and passed["fast"] / 15_000 >= 0.97
    assert 20 <= passed["slow"] <= 31


def test_lower_vendor_limit() -> None:
    """The vendor's limit applies if it is lower than the configured one."""
    for ours, theirs, limit in ((6000, 600, 600), (600, 6000, 600)):
        tested = limiter(concurrent=5000, requests_per_minute=ours)
        tested.report(Report("a", limits=RateLimits(Allowance(theirs, None, None), None)), 0.0)
        assert 0.97 <= len(pull(tested, 1, 60.0, 120.0)) / limit <= 1.02
    unlimited = limiter(concurrent=5000)
    assert unlimited.grant("a", [1] * 128, 0.0).count == FIRST_WINDOW
    unlimited.report(Report("a", finished=FIRST_WINDOW, limits=RateLimits(None, Allowance(6000, None, None))), 0.0)
    assert 0.97 <= len(pull(unlimited, 10, 0.0, 60.0)) * 10 / 6000 <= 1.02


def test_remaining() -> None:
    """No more permits are granted than the vendor's remaining amount."""
    tested = limiter(concurrent=5000, requests_per_minute=6000)
    ask(tested, "a", 0.0)
    tested.report(Report("a", limits=RateLimits(Allowance(6000, 3, None), None)), 10.0)
    assert tested.grant("a", [1] * 50, 10.0).count == 3
    tested.report(Report("a", finished=4, answered=4), 11.0)
    tested.report(Report("a", limits=RateLimits(Allowance(6000, 0, 2.0), None)), 20.0)
    assert tested.grant("a", [1] * 50, 21.0) == Grant(0, 1.0)
    assert tested.grant("a", [1] * 30, 22.0).count == 30


def saturate(tested: Limiter, now: float) -> int:
    return tested.grant("a", [1] * 5000, now).count


def test_window_growth() -> None:
    """The window grows only while it is full."""
    tested = limiter(concurrent=500)
    assert saturate(tested, 0.0) == FIRST_WINDOW
    tested.report(Report("a", finished=FIRST_WINDOW, answered=FIRST_WINDOW), 1.0)
    assert saturate(tested, 1.0) == 2 * FIRST_WINDOW
    tested.report(Report("a", finished=2 * FIRST_WINDOW, answered=2 * FIRST_WINDOW), 2.0)
    for now in (3.0, 4.0, 5.0):
        assert tested.grant("a", [1] * 10, now).count == 10
        tested.report(Report("a", finished=10, answered=10), now)
    in_flight = saturate(tested, 6.0)
    assert in_flight == 4 * FIRST_WINDOW
    for now in range(7, 20):
        tested.report(Report("a", finished=in_flight, answered=in_flight), now)
        in_flight = saturate(tested, now)
    assert in_flight == 500


def test_window_shrinking() -> None:
    """Refusals narrow the window at most once per second; near the refused size it grows slowly."""
    tested = limiter(concurrent=32)
    assert saturate(tested, 0.0) == 32
    for _ in range(6):
        refuse(tested, "a", 0.0, 10.0)
    tested.report(Report("a", finished=26, answered=26), 11.0)
    assert saturate(tested, 12.0) == 22
    tested.report(Report("a", finished=22, answered=22), 13.0)
    assert saturate(tested, 14.0) == 30
    tested.report(Report("a", finished=10, answered=10), 15.0)
    assert saturate(tested, 16.0) == 11


@pytest.mark.parametrize(
    ("limits", "first"),
    [
        (Limits(concurrent=1000), FIRST_WINDOW),
        (Limits(concurrent=1000, requests_per_minute=600), FIRST_WINDOW),
        (Limits(concurrent=1000, requests_per_minute=12_000), 296),
        (Limits(concurrent=100, requests_per_minute=12_000), 100),
    ],
)
def test_first_window(limits: Limits, first: int) -> None:
    """A known rate protects the vendor, so the window begins with what is in flight at that rate after 1.5 s."""
    tested = Limiter({"a": limits}, patience_s=10.0)
    granted = [tested.grant("a", [1] * 64, tenths / 10).count for tenths in range(100)]
    assert sum(granted) == first
