"""Error bodies and what follows from them."""

from __future__ import annotations

from typing import Any

import pytest

from hab_ray.errors import (
    CallError,
    FailureKind,
    ModelError,
    Overloaded,
    ProviderError,
    RateLimited,
    RowError,
    TransientError,
)
from hab_ray.providers.anthropic import errors as anthropic_errors
from hab_ray.providers.google import errors as google_errors
from hab_ray.providers.openai import errors as openai_errors
from tests.providers.conftest import Connect, Script, Simulate, chat_call, entry

Kind = FailureKind
RPC = "type.googleapis.com/google.rpc"


def openai(message: str, code: str | int | None = None, kind: str = "invalid_request_error", **more: Any) -> Any:
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **more}}


def anthropic(kind: str, message: str = "words", error_code: str | None = None) -> Any:
    details = {} if error_code is None else {"details": {"error_code": error_code}}
    return {"type": "error", "error": {"type": kind, "message": message, **details}, "request_id": "req_1"}


def google(code: int, status: str, message: str = "words", *details: Any) -> Any:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def reason(name: str) -> Any:
    return {"@type": f"{RPC}.ErrorInfo", "reason": name, "domain": "googleapis.com"}


def quota(name: str, size: str = "50") -> Any:
    return {"@type": f"{RPC}.QuotaFailure", "violations": [{"quotaId": name, "quotaValue": size}]}


RETRY_17 = {"@type": f"{RPC}.RetryInfo", "retryDelay": "17s"}
PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
PER_DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
PROJECT_PER_DAY = "GenerateRequestsPerDayPerProject"

OPENAI = [
    (429, openai("You exceeded your current quota", "insufficient_quota"), ProviderError, Kind.NO_QUOTA),
    (429, openai("Over quota", None, "insufficient_quota"), ProviderError, Kind.NO_QUOTA),
    (400, openai("Billing hard limit", "billing_hard_limit_reached"), ProviderError, Kind.NO_QUOTA),
    (402, openai("Insufficient credits", 402), ProviderError, Kind.NO_QUOTA),
    (401, openai("Incorrect API key provided: sk-x", "invalid_api_key"), ProviderError, Kind.BAD_KEY),
    (401, openai("You didn't provide an API key"), ProviderError, Kind.BAD_KEY),
    (400, {"code": "bad argument", "error": "Incorrect API key provided: x***y."}, ProviderError, Kind.BAD_KEY),
    (403, openai("Country not supported", "unsupported_country_region_territory"), ProviderError, Kind.BAD_KEY),
    (404, openai("The model `m` does not exist", "model_not_found"), ModelError, Kind.MODEL_UNKNOWN),
    (404, openai("The model `m` has been deprecated", "model_not_found"), ModelError, Kind.MODEL_RETIRED),
    (400, openai("m is not a valid model ID", 400), ModelError, Kind.MODEL_UNKNOWN),
    (404, {"object": "error", "message": "The model `m` does not exist.", "code": 404}, ModelError, Kind.MODEL_UNKNOWN),
    (403, openai("Your plan has no access to this model"), ModelError, Kind.MODEL_UNKNOWN),
    (400, openai("'max_tokens' is not supported", "unsupported_parameter"), ModelError, Kind.BAD_REQUEST),
    (400, openai("'temperature' does not support 0", "unsupported_value"), ModelError, Kind.BAD_REQUEST),
    (400, openai("max_tokens is too large: 99999.", "invalid_value"), ModelError, Kind.BAD_REQUEST),
    (400, openai("8192 tokens", "context_length_exceeded"), RowError, Kind.TOO_LONG),
    (429, openai("Request too large for m on TPM: Limit 30000", "rate_limit_exceeded"), RowError, Kind.TOO_LONG),
    (413, "<html>too large</html>", RowError, Kind.TOO_LONG),
    (400, openai("'$.input' is invalid"), RowError, Kind.BAD_REQUEST),
    (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, RowError, Kind.BAD_REQUEST),
    (429, openai("Rate limit reached", "rate_limit_exceeded"), RateLimited, Kind.RATE_LIMITED),
    (408, openai("Timeout"), TransientError, Kind.TIMEOUT),
    (409, openai("Locked"), TransientError, Kind.SERVER),
    (500, openai("The model `m` does not exist on this replica", None, "server_error"), TransientError, Kind.SERVER),
    (503, openai("Loading model", None, "unavailable_error"), Overloaded, Kind.OVERLOADED),
    (503, openai("Slow down", "slow_down"), Overloaded, Kind.OVERLOADED),
    (504, "upstream timed out", TransientError, Kind.TIMEOUT),
    (522, "cloud", TransientError, Kind.SERVER),
]
ANTHROPIC = [
    (401, anthropic("authentication_error", "invalid x-api-key"), ProviderError, Kind.BAD_KEY),
    (402, anthropic("billing_error"), ProviderError, Kind.NO_QUOTA),
    (400, anthropic("invalid_request_error", "Your credit balance is too low to"), ProviderError, Kind.NO_QUOTA),
    (429, anthropic("rate_limit_error", "x", "enforced_spend_limit_reached"), ProviderError, Kind.NO_QUOTA),
    (429, anthropic("rate_limit_error", "x", "contract_spend_limit_reached"), ProviderError, Kind.NO_QUOTA),
    (429, anthropic("rate_limit_error", "x", "ramp_limit_exceeded"), RateLimited, Kind.RATE_LIMITED),
    (429, anthropic("rate_limit_error"), RateLimited, Kind.RATE_LIMITED),
    (400, anthropic("invalid_request_error", "on hold", "organization_on_hold"), ProviderError, Kind.BAD_KEY),
    (403, anthropic("permission_error"), ModelError, Kind.MODEL_UNKNOWN),
    (404, anthropic("not_found_error", "model: claude-3-opus"), ModelError, Kind.MODEL_UNKNOWN),
    (404, anthropic("not_found_error", "model: x was retired on 2026-01-05"), ModelError, Kind.MODEL_RETIRED),
    (400, anthropic("invalid_request_error", "`top_p` is deprecated for this model."), ModelError, Kind.BAD_REQUEST),
    (400, anthropic("invalid_request_error", "top_k: Extra inputs are not permitted"), ModelError, Kind.BAD_REQUEST),
    (400, anthropic("invalid_request_error", "prompt is too long: 9 > 8 maximum"), RowError, Kind.TOO_LONG),
    (413, anthropic("request_too_large"), RowError, Kind.TOO_LONG),
    (400, anthropic("invalid_request_error", "messages: at least one"), RowError, Kind.BAD_REQUEST),
    (500, anthropic("api_error"), TransientError, Kind.SERVER),
    (504, anthropic("timeout_error"), TransientError, Kind.TIMEOUT),
    (529, anthropic("overloaded_error"), Overloaded, Kind.OVERLOADED),
    (529, "overloaded", Overloaded, Kind.OVERLOADED),
]
GOOGLE = [
    (400, google(400, "INVALID_ARGUMENT", "x", reason("API_KEY_INVALID")), ProviderError, Kind.BAD_KEY),
    (400, google(400, "INVALID_ARGUMENT", "API key expired. Please renew"), ProviderError, Kind.BAD_KEY),
    (403, google(403, "PERMISSION_DENIED"), ProviderError, Kind.BAD_KEY),
    (400, google(400, "FAILED_PRECONDITION", "User location is not supported"), ProviderError, Kind.BAD_KEY),
    (400, google(400, "FAILED_PRECONDITION", "please enable billing"), ProviderError, Kind.NO_QUOTA),
    (404, google(404, "NOT_FOUND", "models/m is not found for API version v1"), ModelError, Kind.MODEL_UNKNOWN),
    (404, google(404, "NOT_FOUND", "m is no longer available"), ModelError, Kind.MODEL_RETIRED),
    (429, google(429, "RESOURCE_EXHAUSTED", "x", quota(PER_MINUTE), RETRY_17), RateLimited, Kind.RATE_LIMITED),
    (429, google(429, "RESOURCE_EXHAUSTED", "check quota"), RateLimited, Kind.RATE_LIMITED),
    (429, google(429, "RESOURCE_EXHAUSTED", "x", quota(PER_DAY), RETRY_17), ModelError, Kind.NO_QUOTA),
    (429, google(429, "RESOURCE_EXHAUSTED", "x", quota(PER_MINUTE, "0")), ModelError, Kind.NO_QUOTA),
    (429, google(429, "RESOURCE_EXHAUSTED", "limit: 0, model: m", quota(PER_MINUTE)), ModelError, Kind.NO_QUOTA),
    (429, google(429, "RESOURCE_EXHAUSTED", "x", quota(PROJECT_PER_DAY)), ProviderError, Kind.NO_QUOTA),
    (429, google(429, "RESOURCE_EXHAUSTED", "limit: 0"), ProviderError, Kind.NO_QUOTA),
    (400, google(400, "INVALID_ARGUMENT", "exceeds the maximum number of tokens"), RowError, Kind.TOO_LONG),
    (400, google(400, "INVALID_ARGUMENT", "topP is not supported for this model."), ModelError, Kind.BAD_REQUEST),
    (400, google(400, "INVALID_ARGUMENT", "* contents: empty"), RowError, Kind.BAD_REQUEST),
    (500, google(500, "INTERNAL"), TransientError, Kind.SERVER),
    (503, google(503, "UNAVAILABLE", "The model is overloaded"), Overloaded, Kind.OVERLOADED),
    (504, google(504, "DEADLINE_EXCEEDED"), TransientError, Kind.TIMEOUT),
    (502, "<html>", TransientError, Kind.SERVER),
]
TABLE = [
    (kind, *row) for kind, rows in (("openai", OPENAI), ("anthropic", ANTHROPIC), ("google", GOOGLE)) for row in rows
]


@pytest.mark.parametrize(("kind", "status", "body", "expected", "failure"), TABLE)
async def test_an_error_body_stops_what_it_is_about(
    kind: str,
    status: int,
    body: object,
    expected: type[CallError],
    failure: FailureKind,
    script: Script,
    provider_of: Connect,
) -> None:
    script.says(status, body)
    provider = provider_of(kind, script.url)
    with pytest.raises(CallError) as caught:
        await provider.send(provider.chat(chat_call(), entry()))
    assert (type(caught.value), caught.value.kind) == (expected, failure)
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        assert body["error"]["message"] in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "body", "headers", "seconds"),
    [
        ("openai", openai("Rate limit reached"), {"retry_after": "3", "retry_after_ms": "2500"}, 2.5),
        ("openai", openai("Rate limit reached"), {}, None),
        ("anthropic", anthropic("rate_limit_error"), {"retry_after": "41"}, 41.0),
        ("anthropic", anthropic("rate_limit_error"), {}, None),
        ("google", google(429, "RESOURCE_EXHAUSTED", "x", quota(PER_MINUTE), RETRY_17), {}, 17.0),
        ("google", google(429, "RESOURCE_EXHAUSTED", "x"), {"retry_after": "9"}, 9.0),
        ("google", google(429, "RESOURCE_EXHAUSTED", "x"), {}, None),
    ],
)
async def test_the_wait_a_vendor_asks_for_is_kept(
    kind: str,
    body: object,
    headers: dict[str, str],
    seconds: float | None,
    script: Script,
    provider_of: Connect,
) -> None:
    script.says(429, body, **headers)
    provider = provider_of(kind, script.url)
    with pytest.raises(RateLimited) as caught:
        await provider.send(provider.chat(chat_call(), entry()))
    assert caught.value.retry_after_s == seconds


@pytest.mark.parametrize(
    ("kind", "settings", "wire", "expected"),
    [
        ("openai", {"keys": ["other"]}, "gpt-4.1", ProviderError),
        ("openai", {"quota_calls": 0, "models": {"*": {}}}, "gpt-4.1", ProviderError),
        ("openai", {"models": {"gpt-4.1": {}}}, "gpt-9", ModelError),
        ("openai", {"models": {"o": {"thinking": "always"}}}, "o", ModelError),
        ("openai", {"models": {"o": {"context_tokens": 3}}}, "o", RowError),
        ("openai", {"models": {"o": {"output_tokens": 50}}}, "o", ModelError),
        ("anthropic", {"keys": ["other"]}, "claude-m", ProviderError),
        ("anthropic", {"quota_calls": 0, "models": {"*": {}}}, "claude-m", ProviderError),
        ("anthropic", {"models": {"*": {"retired": True}}}, "claude-m", ModelError),
        ("anthropic", {"models": {"*": {"context_tokens": 3}}}, "claude-m", RowError),
        ("anthropic", {"models": {"*": {"output_tokens": 50}}}, "claude-m", ModelError),
        ("google", {"keys": ["other"]}, "gemini-m", ProviderError),
        ("google", {"quota_calls": 0, "models": {"*": {}}}, "gemini-m", ModelError),
        ("google", {"models": {"*": {"retired": True}}}, "gemini-m", ModelError),
        ("google", {"models": {"*": {"context_tokens": 3}}}, "gemini-m", RowError),
        ("google", {"models": {"*": {"output_tokens": 50}}}, "gemini-m", ModelError),
    ],
)
async def test_what_the_simulated_vendors_refuse(
    kind: str,
    settings: dict[str, object],
    wire: str,
    expected: type[CallError],
    simulate: Simulate,
    provider_of: Connect,
) -> None:
    line = await simulate(accounts={kind: settings})
    provider = provider_of(kind, line.url)
    with pytest.raises(CallError) as caught:
        await provider.send(provider.chat(chat_call(), entry(wire)))
    assert type(caught.value) is expected, caught.value


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_limits_and_waits_of_the_simulated_vendors(kind: str, simulate: Simulate, provider_of: Connect) -> None:
    line = await simulate(accounts={kind: {"models": {"*": {"requests_per_minute": 2, "tokens_per_minute": 9000}}}})
    provider = provider_of(kind, line.url)
    wire = provider.chat(chat_call(), entry("m"))
    limits = [(await provider.send(wire)).limits for _ in range(2)]
    assert all(told and told.requests and told.tokens for told in limits)
    assert [told.requests.limit for told in limits if told and told.requests] == [2, 2]
    assert [told.requests.remaining for told in limits if told and told.requests] == [1, 0]
    with pytest.raises(RateLimited) as caught:
        await provider.send(wire)
    assert 20 < (caught.value.retry_after_s or 0) <= 30


def test_a_batch_line_is_classified_by_the_same_functions() -> None:
    body = openai("The model `m` has been shut down", "model_not_found")
    assert openai_errors.classify(404, body, None).kind is Kind.MODEL_RETIRED
    assert anthropic_errors.classify(400, anthropic("overloaded_error"), None).kind is Kind.OVERLOADED
    assert google_errors.classify(8, {"code": 8, "status": "RESOURCE_EXHAUSTED"}, None).kind is Kind.RATE_LIMITED


def test_messages_name_a_remedy_and_stay_short() -> None:
    error = openai_errors.classify(401, openai("no " * 1000, "invalid_api_key"), None)
    assert "key_env" in str(error)
    assert len(str(error)) < 700
