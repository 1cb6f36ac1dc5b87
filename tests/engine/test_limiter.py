"""The limiter under a clock that the test turns."""

from __future__ import annotations

from hab_ray.catalog import Limits
from hab_ray.engine.limiter import SLOWEST_PROBE_S, Limiter


def limiter(concurrent: int = 2, patience_s: float = 30.0) -> Limiter:
    limits = Limits(concurrent=concurrent)
    return Limiter({"a": limits, "b": limits}, patience_s)


def test_no_more_calls_in_flight_than_allowed() -> None:
    gate = limiter(concurrent=2)
    assert [gate.ask("a", 0.0).wait_s for _ in range(3)] == [0.0, 0.0, float("inf")]
    assert gate.ask("b", 0.0).wait_s == 0.0
    gate.finished("a")
    assert gate.ask("a", 0.0).wait_s == 0.0


def test_a_named_wait_pauses_that_model_alone() -> None:
    gate = limiter()
    gate.ask("a", 0.0)
    gate.rate_limited("a", 7.5, 0.0)
    gate.finished("a")
    assert gate.ask("a", 2.5).wait_s == 5.0
    assert gate.ask("b", 2.5).wait_s == 0.0
    assert gate.ask("a", 7.5).wait_s == 0.0


def test_without_a_named_wait_pauses_grow() -> None:
    gate, now, waits = limiter(patience_s=1000), 0.0, []
    for _ in range(8):
        assert gate.ask("a", now).wait_s == 0.0
        gate.rate_limited("a", None, now)
        gate.finished("a")
        wait = gate.ask("a", now).wait_s
        assert wait is not None
        waits.append(wait)
        now += wait
    assert waits == sorted(waits) and waits[0] < 2 and waits[-1] == SLOWEST_PROBE_S


def test_a_model_that_is_only_ever_refused_is_stopped_when_patience_ends() -> None:
    gate = limiter(patience_s=30)
    gate.rate_limited("a", 20.0, 0.0)
    gate.rate_limited("a", 20.0, 20.0)
    assert gate.ask("a", 40.0).wait_s == 0.0
    gate.rate_limited("a", 20.0, 40.0)
    assert gate.ask("a", 100.0).wait_s is None
    assert gate.ask("b", 100.0).wait_s == 0.0


def test_an_unreachable_endpoint_is_probed_one_call_at_a_time_and_comes_back() -> None:
    gate = limiter(concurrent=50)
    gate.unreachable("refused", 0.0)
    assert gate.ask("a", 0.0).wait_s == 0.5
    assert gate.ask("a", 0.5).wait_s == 0.0
    assert (gate.ask("b", 0.5).wait_s or 0) > 0
    gate.answered("a")
    assert [gate.ask("b", 0.6).wait_s for _ in range(5)] == [0.0] * 5


def test_an_endpoint_that_stays_away_stops_the_provider() -> None:
    gate = limiter(patience_s=10)
    gate.unreachable("refused", 0.0)
    gate.unreachable("refused", 9.0)
    assert not gate.stops
    gate.unreachable("refused", 10.5)
    assert "10 s" in gate.stops[""]
    assert gate.ask("a", 11.0).wait_s is None


def test_a_stopped_model_leaves_the_others() -> None:
    gate = limiter()
    gate.stop_model("a", "retired")
    assert gate.ask("a", 0.0).reason == "retired"
    assert gate.ask("b", 0.0).wait_s == 0.0
    gate.stop("no quota")
    assert gate.ask("b", 0.0).reason == "no quota"
