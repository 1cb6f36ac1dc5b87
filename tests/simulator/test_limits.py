"""Token buckets, by a clock of the test's own."""

from datetime import UTC, datetime
from math import inf

from hab_simulator.accounts import SimulatedModel
from hab_simulator.limits import RateLimits, Verdict
from tests.storage.conftest import Clock


def limiter(clock: Clock) -> RateLimits:
    return RateLimits(clock, lambda: datetime(2026, 11, 21, tzinfo=UTC))


def take(bucket: RateLimits, model: SimulatedModel, tokens: int, name: str = "m") -> Verdict:
    verdict = bucket.take("openai", name, model, tokens)
    assert verdict is not None
    return verdict


def test_a_model_without_limits_is_never_asked() -> None:
    assert limiter(Clock()).take("openai", "m", SimulatedModel(), 10**9) is None


def test_requests_refill_over_the_minute() -> None:
    clock, model = Clock(), SimulatedModel(requests_per_minute=30)
    bucket = limiter(clock)
    assert all(take(bucket, model, 1).allowed for _ in range(30))
    refused = take(bucket, model, 1)
    assert (refused.allowed, refused.wait_s, refused.short) == (False, 2.0, "requests")
    clock.now += 2.0
    assert take(bucket, model, 1).allowed and not take(bucket, model, 1).allowed
    clock.now += 600
    full = take(bucket, model, 1)
    assert full.requests is not None and (full.requests.remaining, full.requests.reset_s) == (29, 2.0)


def test_tokens_run_out_apart_and_a_refusal_takes_nothing() -> None:
    clock, model = Clock(), SimulatedModel(requests_per_minute=10, tokens_per_minute=6000)
    bucket = limiter(clock)
    assert take(bucket, model, 5500).allowed
    refused = take(bucket, model, 1500)
    assert (refused.short, refused.wait_s) == ("tokens", 10.0)
    assert refused.requests is not None and refused.requests.remaining == 9
    assert take(bucket, model, 500).allowed
    assert take(bucket, model, 6001).wait_s == inf


def test_models_do_not_share_a_bucket() -> None:
    bucket, model = limiter(Clock()), SimulatedModel(requests_per_minute=1)
    assert take(bucket, model, 1).allowed and take(bucket, model, 1, "other").allowed
    assert not take(bucket, model, 1).allowed
