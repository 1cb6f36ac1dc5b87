"""What headers tell: waits, limits, durations."""

import pytest

from hab_ray.providers.base import Allowance, RateLimits
from hab_ray.providers.http import allowance, duration_s, retry_after_s
from tests.providers.conftest import Connect, Script, send

DATE = "Sat, 21 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12ms", 0.012),
        ("1.5s", 1.5),
        ("6m0s", 360.0),
        ("1h2m3s", 3723.0),
        ("250µs", 0.00025),
        ("17s", 17.0),
        ("0s", 0.0),
        ("60", 60.0),
        ("", None),
        (None, None),
        ("soon", None),
        ("5s later", None),
        ("nan", None),
        ("1e30", None),
        ("-5s", None),
        ("9" * 400 + "h", None),
    ],
)
def test_durations(text: str | None, seconds: float | None) -> None:
    assert duration_s(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "?", "retry-after": "2"}, 2.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Sat, 21 Nov 2026 12:01:30 GMT", "date": DATE}, 90.0),
        ({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT", "date": DATE}, 0.0),
        ({"retry-after": "Sat, 21 Nov 2026 12:01:30 GMT"}, None),
        ({"retry-after": f"Sat, 21 Nov {'9' * 30} 12:00:00 GMT", "date": DATE}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_waits(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


@pytest.mark.parametrize(
    ("limit", "remaining", "told"),
    [
        ("500", "499", Allowance(500, 499, 1.0)),
        ("500", "0", Allowance(500, 0, 1.0)),
        ("500", "-1", Allowance(500, None, 1.0)),
        ("500", None, Allowance(500, None, 1.0)),
        ("0", "0", None),
        ("-1", "-1", None),
        ("500", "1e30", Allowance(500, None, 1.0)),
        (None, "3", None),
        *((limit, "3", None) for limit in ("many", "0.5", "1e30", "nan", "inf", "9" * 400)),
    ],
)
def test_an_allowance_is_positive_or_not_told(limit: str | None, remaining: str | None, told: Allowance | None) -> None:
    assert allowance(limit, remaining, 1.0) == told


OPENAI = {
    "x_ratelimit_limit_requests": "500",
    "x_ratelimit_remaining_requests": "499",
    "x_ratelimit_reset_requests": "120ms",
    "x_ratelimit_limit_tokens": "30000",
    "x_ratelimit_remaining_tokens": "29000",
    "x_ratelimit_reset_tokens": "6m0s",
}
MISTRAL = {
    "x_ratelimit_limit_req_minute": "60",
    "x_ratelimit_remaining_req_minute": "59",
    "x_ratelimit_limit_tokens_minute": "100000",
    "x_ratelimit_remaining_tokens_minute": "99000",
    "x_ratelimit_tokens_query_cost": "1000",
}
ANTHROPIC = {
    "date": DATE,
    "anthropic_ratelimit_requests_limit": "50",
    "anthropic_ratelimit_requests_remaining": "49",
    "anthropic_ratelimit_requests_reset": "2026-11-21T12:00:01Z",
    "anthropic_ratelimit_input_tokens_limit": "20000",
    "anthropic_ratelimit_input_tokens_remaining": "19000",
    "anthropic_ratelimit_input_tokens_reset": "2026-11-21T12:00:30Z",
}
ALL_TOKENS = {
    "anthropic_ratelimit_tokens_limit": "24000",
    "anthropic_ratelimit_tokens_remaining": "20000",
    "anthropic_ratelimit_tokens_reset": "2026-11-21T12:01:00+00:00",
}


@pytest.mark.parametrize(
    ("kind", "headers", "limits"),
    [
        ("openai", OPENAI, RateLimits(Allowance(500, 499, 0.12), Allowance(30000, 29000, 360.0))),
        ("openai", {"x_ratelimit_limit_tokens": "-1", "x_ratelimit_remaining_tokens": "-1"}, None),
        ("openai", MISTRAL, RateLimits(Allowance(60, 59, None), Allowance(100_000, 99_000, None))),
        ("anthropic", ANTHROPIC, RateLimits(Allowance(50, 49, 1.0), Allowance(20000, 19000, 30.0))),
        ("anthropic", ANTHROPIC | ALL_TOKENS, RateLimits(Allowance(50, 49, 1.0), Allowance(24000, 20000, 60.0))),
        ("google", OPENAI, None),
    ],
)
async def test_limits_are_learnt_from_a_whole_exchange(
    kind: str, headers: dict[str, str], limits: RateLimits | None, script: Script, provider_of: Connect
) -> None:
    provider = provider_of(kind, script.url)
    script.says(200, {"some": "answer"}, **headers)
    exchange = await send(provider)
    assert exchange.body == {"some": "answer"}
    assert exchange.limits == limits
