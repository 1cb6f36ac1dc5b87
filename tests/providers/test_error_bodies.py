"""Error bodies as vendors, gateways and servers send them, and what each says of row, model, provider and wait."""

from typing import Any

import pytest

from hab_ray.calls import Answer, Finish, Usage
from hab_ray.errors import (
    CallError,
    FailureKind,
    Intercepted,
    ModelError,
    Overloaded,
    ProviderError,
    RateLimited,
    RowError,
    TransientError,
)
from hab_ray.providers.google import errors as google_errors
from hab_ray.providers.openai.errors import classify
from tests.providers.conftest import Hear, reader

Kind = FailureKind
RETRY_17 = {"retryDelay": "17s"}
PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
PER_DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
OPENAI, ANTHROPIC, GOOGLE, XAI = "openai", "anthropic", "google", "xai"
DENIED = "The caller does not have permission to execute the specified operation"
SPENT = (
    "Your team 3f7c has either used all available credits or reached its monthly spending limit. To continue making "
    "API requests, please purchase more credits or raise your spending limit."
)
CHALLENGE = '<!DOCTYPE html><html lang="en-US"><head><title>Just a moment...</title></head><body>Wait.</body></html>'
NGINX = (
    "<html>\r\n<head><title>403 Forbidden</title></head>\r\n<body><center><h1>403 Forbidden</h1></center></body></html>"
)


def openai(message: str, code: str | int | None = None, kind: str | None = "invalid_request_error", **more: Any) -> Any:
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **more}}


def anthropic(message: str, kind: str = "invalid_request_error", code: str | None = None) -> Any:
    details = {"details": {"error_code": code}} if code else {}
    return {"type": "error", "error": {"type": kind, "message": message, **details}, "request_id": "req_011CV"}


def google(code: int, status: str, message: str, *details: Any) -> Any:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def quota(name: str, size: str = "50") -> Any:
    return {"violations": [{"quotaId": name, "quotaValue": size}]}


def exhausted(message: str, *details: Any) -> Any:
    return google(429, "RESOURCE_EXHAUSTED", message, *details)


def xai(code: str, error: str) -> Any:
    return {"code": code, "error": error}


def mistral(message: str, kind: str, code: str | None = None) -> Any:
    return {"object": "error", "message": message, "type": kind, "param": None, "code": code}


def cloudflare(message: str, code: int) -> Any:
    return {"success": False, "result": None, "errors": [{"message": message, "code": code}]}


def detail(*where: str, msg: str) -> Any:
    return {"detail": [{"type": "x", "loc": ["body", *where], "msg": msg, "input": 2}]}


def vllm(message: str, **more: Any) -> Any:
    return {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400, **more}}


def vllm_full(answer: int, context: int, asked: int) -> Any:
    return vllm(
        f"'max_tokens' or 'max_completion_tokens' is too large: {answer}. This model's maximum context length is "
        f"{context} tokens and your request has {asked} input tokens ({answer} > {context} - {asked})."
    )


ACCOUNTS = [
    (GOOGLE, 429, exhausted("Your prepayment credits are depleted. Please go to AI Studio")),
    (GOOGLE, 429, exhausted("Your project has exceeded its monthly spending cap.")),
    (GOOGLE, 403, google(403, "PERMISSION_DENIED", "billing off", {"reason": "BILLING_DISABLED"})),
    (XAI, 429, xai("Some resource has been exhausted", SPENT)),
    (XAI, 403, xai(DENIED, SPENT)),
    (XAI, 403, xai(DENIED, "Your newly created team doesn't have any credits yet. You can purchase credits on")),
    (
        OPENAI,
        403,
        openai("Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings", 403, None),
    ),
    (OPENAI, 402, openai("This request requires more credits, or fewer max_tokens.", 402, None)),
    (OPENAI, 200, openai("No credits", 402, None)),
    (OPENAI, 402, cloudflare("Insufficient credits", 2021)),
    (ANTHROPIC, 200, openai("No credits", 402, None)),
    (ANTHROPIC, 200, anthropic("Your credit balance is too low to access the Anthropic API.")),
    (OPENAI, 429, openai("Over quota", None, "insufficient_quota")),
    (OPENAI, 400, openai("Billing hard limit", "billing_hard_limit_reached")),
    (ANTHROPIC, 402, anthropic("words", "billing_error")),
    (ANTHROPIC, 429, anthropic("words", "rate_limit_error", "enforced_spend_limit_reached")),
    (GOOGLE, 400, google(400, "FAILED_PRECONDITION", "please enable billing")),
    (GOOGLE, 429, exhausted("words", quota("GenerateRequestsPerDayPerProject"))),
    (GOOGLE, 429, exhausted("limit: 0")),
    (OPENAI, 402, openai("Insufficient Balance", "invalid_request_error", "unknown_error")),
    (OPENAI, 429, openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota")),
    (OPENAI, 429, openai("No credits remain", "credit_balance_exhausted", None)),
    (OPENAI, 403, openai("The project has reached its enforced spend limit", "project_spend_limit_exceeded", None)),
    (ANTHROPIC, 400, anthropic("Your credit balance is too low to access the Anthropic API.")),
    (ANTHROPIC, 400, anthropic("You have reached your specified API usage limits.")),
    *((XAI, status, xai("personal-team-blocked:spending-limit", "Add credits")) for status in (402, 403, 429)),
    *((OPENAI, status, openai("Blocked", "personal-team-blocked:spending-limit", None)) for status in (402, 403, 429)),
    (XAI, 429, xai("Some resource has been exhausted", "Free usage quota exceeded")),
    (OPENAI, 429, openai("The usage limit has been reached", None, "usage_limit_reached")),
    (OPENAI, 429, openai("You ran out of credits. Add more to continue.", None, None)),
    (OPENAI, 429, openai("Your account is suspended, please check your plan", None, "exceeded_current_quota_error")),
    (OPENAI, 403, openai("You've reached your monthly usage limit", None, "access_terminated_error")),
    (OPENAI, 400, openai("Budget has been exceeded! Current cost: 1.2, Max budget: 1.0", "400", "budget_exceeded")),
    (OPENAI, 429, openai("All keys are used up", "terminal_quota_exhausted", None)),
    (OPENAI, 403, openai("Out of call volume quota. Quota will be replenished in 5.20:11:02.", "403", None)),
    (OPENAI, 400, openai("Authentication Error, ExceededTokenBudget: Current spend for token: 3", "400", "auth_error")),
]
CLOSED = [
    (ANTHROPIC, 400, anthropic("This organization has been disabled.")),
    (ANTHROPIC, 403, anthropic("This organization has been disabled.", "permission_error")),
    (OPENAI, 400, openai("Organization has been restricted. Please reach out to support", "organization_restricted")),
    (OPENAI, 401, openai("Your access was terminated due to violation of our policies", "access_terminated")),
    (GOOGLE, 403, google(403, "PERMISSION_DENIED", "Consumer suspended", {"reason": "CONSUMER_SUSPENDED"})),
    (XAI, 400, xai("Client specified an invalid argument", "Incorrect API key provided. You can obtain an API key")),
    (OPENAI, 401, openai("Incorrect API key provided: sk-x", "invalid_api_key")),
    (OPENAI, 401, openai("You didn't provide an API key")),
    (OPENAI, 400, openai("Authentication Error - Expired Key. Key Expiry time 2026", "400", "expired_key")),
    (OPENAI, 400, openai("Authentication Error - Expired Key. Key Expiry time 2026", "400", None)),
    (OPENAI, 400, openai("Authentication Error, Invalid proxy server token passed", "400", "token_not_found_in_db")),
    (OPENAI, 400, openai("Authentication Error, Key is blocked.", "400", "auth_error")),
    (OPENAI, 200, openai("Invalid proxy server token passed", "401", "auth_error")),
    (OPENAI, 403, openai("Your API key has expired", "403", "permission_error")),
    (OPENAI, 403, openai("Country not supported", "unsupported_country_region_territory")),
    (ANTHROPIC, 401, anthropic("invalid x-api-key", "authentication_error")),
    (ANTHROPIC, 200, anthropic("invalid x-api-key", "authentication_error")),
    (GOOGLE, 200, google(403, "PERMISSION_DENIED", "words")),
    (ANTHROPIC, 400, anthropic("on hold", code="organization_on_hold")),
    (GOOGLE, 400, google(400, "INVALID_ARGUMENT", "words", {"reason": "API_KEY_INVALID"})),
    (GOOGLE, 400, google(400, "INVALID_ARGUMENT", "API key expired. Please renew")),
    (GOOGLE, 403, google(403, "PERMISSION_DENIED", "words")),
    (GOOGLE, 400, google(400, "FAILED_PRECONDITION", "User location is not supported")),
    (ANTHROPIC, 403, anthropic("Request not allowed", "forbidden")),
    (ANTHROPIC, 403, anthropic("Access from unsupported countries or regions is not allowed.", "permission_error")),
    (OPENAI, 404, NGINX),
]
ADDRESSES = [
    (OPENAI, 404, openai("Invalid URL (POST /v1/v1/chat/completions)")),
    (OPENAI, 404, openai("Invalid URL (POST /v1/v1/chat/completions)", "invalid_url")),
]
UNKNOWN_MODELS = [
    *(
        (OPENAI, status, openai("Not for this key", str(status), f"{who}_model_access_denied"))
        for who in ("key", "team", "user", "org")
        for status in (401, 403)
    ),
    (OPENAI, 401, openai("Authentication Error, API Key not allowed to access model.", "401", "auth_error")),
    (OPENAI, 400, mistral("Invalid model: mistral-huge", "invalid_model", "1500")),
    (
        XAI,
        404,
        xai("Some requested entity was not found", "The model grok-9 does not exist or your team has no access"),
    ),
    (XAI, 400, xai("Client specified an invalid argument", "Model not found: grok-9")),
    (OPENAI, 400, openai("The model `x` has been decommissioned", "model_decommissioned")),
    (OPENAI, 400, openai("acme/x is not a valid model ID", 400, None)),
    (GOOGLE, 400, google(400, "INVALID_ARGUMENT", "* GenerateContentRequest.model: unexpected model name format")),
    (ANTHROPIC, 404, anthropic("model: claude-9", "not_found_error")),
    (OPENAI, 404, openai("The model `m` does not exist", "model_not_found")),
    (OPENAI, 404, {"object": "error", "message": "The model `m` does not exist.", "code": 404}),
    (OPENAI, 403, openai("Your plan has no access to this model")),
    (ANTHROPIC, 403, anthropic("words", "permission_error")),
    (GOOGLE, 404, google(404, "NOT_FOUND", "models/m is not found for API version v1")),
    (ANTHROPIC, 403, anthropic("The model claude-9 is not available in your region.", "permission_error")),
    (OPENAI, 400, {"detail": "Model voyage-9 is not supported. Supported models are ['voyage-3.5', 'voyage-4']."}),
]
RETIRED = [
    (OPENAI, 404, openai("The model `m` has been deprecated", "model_not_found")),
    (ANTHROPIC, 404, anthropic("model: x was retired on 2026-01-05", "not_found_error")),
    (GOOGLE, 404, google(404, "NOT_FOUND", "m is no longer available")),
]
SETTINGS = [
    (ANTHROPIC, 400, anthropic("top_k: Extra inputs are not permitted")),
    (OPENAI, 400, openai("'max_tokens' is not supported", "unsupported_parameter")),
    (OPENAI, 400, openai("max_tokens is too large: 99999.", "invalid_value")),
    (ANTHROPIC, 400, anthropic("temperature: range: 0..1")),
    (ANTHROPIC, 400, anthropic("This model does not support effort level 'xhigh'.")),
    (ANTHROPIC, 400, anthropic("max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens")),
    (ANTHROPIC, 400, anthropic("output_config.effort: Input should be 'low', 'medium' or 'high'")),
    (ANTHROPIC, 400, anthropic("`temperature` is deprecated for this model.")),
    (OPENAI, 400, vllm_full(8692, 4096, 120)),
    (OPENAI, 400, vllm_full(8692, 8192, 3000)),
    (
        OPENAI,
        400,
        vllm(
            "This model's maximum context length is 4096 tokens. However, you requested 9292 tokens (1100 in the "
            "messages, 8192 in the completion). Please reduce the length of the messages or completion."
        ),
    ),
    (
        OPENAI,
        400,
        openai(
            "This model's maximum context length is 512 tokens, however you requested 600 tokens (100 in your prompt; "
            "500 for the completion).",
            "context_length_exceeded",
        ),
    ),
    (OPENAI, 400, openai("Invalid 'max_tokens': integer above maximum value.", "integer_above_max_value")),
    (OPENAI, 400, openai("`max_tokens` must be less than or equal to `8192`", None)),
    (OPENAI, 400, openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", None)),
    (OPENAI, 400, openai("Invalid value", "invalid_value", param="temperature")),
    (OPENAI, 422, detail("temperature", msg="Input should be less than or equal to 1.5")),
    (OPENAI, 422, {"object": "error", **detail("response_format", "type", msg="Input should be 'text'")}),
    (GOOGLE, 400, google(400, "INVALID_ARGUMENT", "Thinking level is not supported for this model.")),
    (GOOGLE, 400, google(400, "INVALID_ARGUMENT", "Budget 0 is invalid. This model only works in thinking mode.")),
    (GOOGLE, 400, google(400, "INVALID_ARGUMENT", "Invalid value at 'generation_config.top_p' (TYPE_FLOAT)")),
    (GOOGLE, 400, google(400, "INVALID_ARGUMENT", "maxOutputTokens must be at most 50")),
    (GOOGLE, 400, google(400, "INVALID_ARGUMENT", "The schema exceeds the maximum allowed nesting depth.")),
    (GOOGLE, 400, google(400, "INVALID_ARGUMENT", "The specified schema produces too many states for serving.")),
    (XAI, 400, xai("Client specified an invalid argument", "Model x does not support parameter reasoningEffort.")),
    (XAI, 400, xai("Client specified an invalid argument", "Argument not supported: presencePenalty")),
    (OPENAI, 400, openai("litellm.UnsupportedParamsError: models don't support temperature=0.0.", "400", "None")),
    (
        OPENAI,
        400,
        openai("litellm.BadRequestError: `temperature` and `top_p` cannot both be specified for this model."),
    ),
    (OPENAI, 400, openai("'temperature' and 'top_p' cannot both be specified for this model.")),
    (OPENAI, 400, vllm('guided decoding backend xgrammar failed: Grammar error: Unimplemented keys: ["minItems"]')),
    (OPENAI, 400, vllm("The provided JSON schema contains features not supported by xgrammar.")),
]
TOO_LONG = [
    (OPENAI, 400, vllm_full(500, 8192, 8000)),
    (OPENAI, 400, openai("Your messages resulted in 9000 tokens.", "context_length_exceeded", param="messages")),
    (
        OPENAI,
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size. try increasing the context size",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9000,
                "n_ctx": 4096,
            }
        },
    ),
    (ANTHROPIC, 400, anthropic("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000")),
    (ANTHROPIC, 400, anthropic("prompt is too long: 215000 tokens > 200000 maximum")),
    (OPENAI, 429, openai("Request too large for m on TPM: Limit 30000", "rate_limit_exceeded")),
    (OPENAI, 413, "<html>too large</html>"),
    (ANTHROPIC, 413, anthropic("words", "request_too_large")),
    (GOOGLE, 400, google(400, "INVALID_ARGUMENT", "exceeds the maximum number of tokens")),
    (XAI, 400, xai("Client specified an invalid argument", "This model's maximum prompt length is 131072 but ...")),
]
BAD_ROWS = [
    (OPENAI, 400, openai("'$.input' is invalid")),
    (OPENAI, 422, detail("messages", "0", "content", msg="Field required")),
    (ANTHROPIC, 400, anthropic("messages.0.content: Input should be a valid string")),
    (GOOGLE, 400, google(400, "INVALID_ARGUMENT", "* GenerateContentRequest.contents: contents is not specified")),
]
PAGES = [
    (kind, status, page) for kind in (OPENAI, ANTHROPIC, GOOGLE) for status, page in ((403, CHALLENGE), (400, NGINX))
]
PAGES += [(XAI, 403, "error code: 1020"), (OPENAI, 401, "\n\n<HTML><HEAD><TITLE>Log in to the network</TITLE>")]
OF_THE_MODEL = [
    (GOOGLE, 429, exhausted("words", quota(PER_DAY), RETRY_17)),
    (GOOGLE, 429, exhausted("words", quota(PER_MINUTE, "0"))),
    (GOOGLE, 429, exhausted("limit: 0, model: m", quota(PER_MINUTE))),
]
FAULTS = [
    (OPENAI, 200, openai("Upstream limit", "429", "throttling_error"), RateLimited, Kind.RATE_LIMITED),
    (OPENAI, 200, openai("Upstream", "none"), TransientError, Kind.SERVER),
    (OPENAI, 200, openai("Upstream", 502) | {"choices": []}, TransientError, Kind.SERVER),
    (OPENAI, 200, {"error": {"message": "Upstream"}}, TransientError, Kind.SERVER),
    (OPENAI, 200, {"message": "Internal server error"}, TransientError, Kind.SERVER),
    (OPENAI, 200, {"detail": "Upstream"}, TransientError, Kind.SERVER),
    (OPENAI, 200, cloudflare("Busy", 3040), TransientError, Kind.SERVER),
    (OPENAI, 200, mistral("Slow down", "rate_limited", "429"), RateLimited, Kind.RATE_LIMITED),
    (ANTHROPIC, 200, anthropic("words", "overloaded_error"), Overloaded, Kind.OVERLOADED),
    (GOOGLE, 200, exhausted("words", quota(PER_MINUTE)), RateLimited, Kind.RATE_LIMITED),
    *((OPENAI, status, openai("The model failed", None, None), TransientError, Kind.SERVER) for status in (424, 425)),
    (OPENAI, 498, openai("Capacity exceeded", "capacity_exceeded", None), Overloaded, Kind.OVERLOADED),
    (OPENAI, 408, openai("Timeout"), TransientError, Kind.TIMEOUT),
    (OPENAI, 409, openai("Locked"), TransientError, Kind.SERVER),
    (OPENAI, 500, openai("The model `m` does not exist here", None, "server_error"), TransientError, Kind.SERVER),
    (OPENAI, 504, "upstream timed out", TransientError, Kind.TIMEOUT),
    (OPENAI, 522, "cloud", TransientError, Kind.SERVER),
    (OPENAI, 524, "error code: 524", TransientError, Kind.TIMEOUT),
    (ANTHROPIC, 524, CHALLENGE, TransientError, Kind.TIMEOUT),
    (ANTHROPIC, 429, anthropic("words", "rate_limit_error", "ramp_limit_exceeded"), RateLimited, Kind.RATE_LIMITED),
    (ANTHROPIC, 500, anthropic("words", "api_error"), TransientError, Kind.SERVER),
    (ANTHROPIC, 504, anthropic("words", "timeout_error"), TransientError, Kind.TIMEOUT),
    (ANTHROPIC, 529, anthropic("words", "overloaded_error"), Overloaded, Kind.OVERLOADED),
    (ANTHROPIC, 529, "overloaded", Overloaded, Kind.OVERLOADED),
    (GOOGLE, 429, exhausted("words", quota(PER_MINUTE), RETRY_17), RateLimited, Kind.RATE_LIMITED),
    (GOOGLE, 500, google(500, "INTERNAL", "words"), TransientError, Kind.SERVER),
    (GOOGLE, 503, google(503, "UNAVAILABLE", "The model is overloaded"), Overloaded, Kind.OVERLOADED),
    (GOOGLE, 504, google(504, "DEADLINE_EXCEEDED", "words"), TransientError, Kind.TIMEOUT),
    (OPENAI, 503, CHALLENGE, Overloaded, Kind.OVERLOADED),
    (ANTHROPIC, 520, CHALLENGE, TransientError, Kind.SERVER),
    (GOOGLE, 502, NGINX, TransientError, Kind.SERVER),
    (ANTHROPIC, 429, CHALLENGE, RateLimited, Kind.RATE_LIMITED),
    (OPENAI, 429, openai("Rate limit reached", "rate_limit_exceeded"), RateLimited, Kind.RATE_LIMITED),
    (OPENAI, 429, openai("Too many requests", None, "rate_limit_reached_error"), RateLimited, Kind.RATE_LIMITED),
    (OPENAI, 429, openai("Usage quota for tokens per minute exceeded"), RateLimited, Kind.RATE_LIMITED),
    (GOOGLE, 429, exhausted("You exceeded your current quota"), RateLimited, Kind.RATE_LIMITED),
    (OPENAI, 503, openai("The engine is overloaded", "server_overloaded", None), Overloaded, Kind.OVERLOADED),
    (GOOGLE, 429, {"error": {"code": 429, "details": "none", "status": "X"}}, RateLimited, Kind.RATE_LIMITED),
]
TABLE = [
    *((*row, ProviderError, Kind.NO_QUOTA) for row in ACCOUNTS),
    *((*row, ProviderError, Kind.BAD_KEY) for row in CLOSED[:-1]),
    (*CLOSED[-1], ProviderError, Kind.BAD_REQUEST),
    *((*row, ProviderError, Kind.BAD_REQUEST) for row in ADDRESSES),
    *((*row, ModelError, Kind.MODEL_UNKNOWN) for row in UNKNOWN_MODELS),
    *((*row, ModelError, Kind.MODEL_RETIRED) for row in RETIRED),
    *((*row, ModelError, Kind.NO_QUOTA) for row in OF_THE_MODEL),
    *((*row, ModelError, Kind.BAD_REQUEST) for row in SETTINGS),
    *((*row, RowError, Kind.TOO_LONG) for row in TOO_LONG),
    *((*row, RowError, Kind.BAD_REQUEST) for row in BAD_ROWS),
    *((*row, Intercepted, Kind.SERVER) for row in PAGES),
    *FAULTS,
]
REMEDY = {
    (ProviderError, Kind.NO_QUOTA): "add credit",
    (ModelError, Kind.NO_QUOTA): "midnight Pacific time",
    (ProviderError, Kind.BAD_KEY): "key",
    (ProviderError, Kind.BAD_REQUEST): "providers.<name>",
    (ModelError, Kind.BAD_REQUEST): "providers.<name>",
}


@pytest.mark.parametrize(("kind", "status", "body", "expected", "failure"), TABLE)
async def test_a_recorded_error_means_what_its_vendor_means(
    kind: str, status: int, body: object, expected: type[CallError], failure: FailureKind, hear: Hear
) -> None:
    with pytest.raises(CallError) as caught:
        await hear(kind, status, body)
    assert (type(caught.value), caught.value.kind) == (expected, failure), caught.value
    assert REMEDY.get((expected, failure), "") in str(caught.value)
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        assert body["error"].get("message", "")[:200] in str(caught.value)
    assert "no message" not in str(caught.value) or "message" not in str(body)


BLOCKS = [
    (XAI, 403, xai(DENIED, "Content violates usage guidelines. Team: t, Failed check: SAFETY_CHECK_TYPE_CSAM")),
    (OPENAI, 400, openai("This content was flagged for possible biology risk", "bio_policy")),
    (OPENAI, 400, openai("The request was rejected by a safety policy", "cyber_policy")),
    (OPENAI, 400, openai("Blocked by the safety systems", "misalignment_policy_violation")),
    (OPENAI, 400, openai("Flagged.", "content_filter")),
    (OPENAI, 400, openai("Policy.", "invalid_prompt")),
    *((OPENAI, status, openai("Moderated", metadata={"reasons": ["x"]})) for status in (403, 200)),
    (ANTHROPIC, 400, anthropic("Output blocked by content filtering policy")),
]


@pytest.mark.parametrize(("kind", "status", "body"), BLOCKS)
async def test_one_rows_safety_block_is_an_answer(kind: str, status: int, body: Any, hear: Hear) -> None:
    said = body["error"] if kind == XAI else body["error"]["message"]
    assert await hear(kind, status, body) == Answer(Finish.REFUSED, Usage(), "", text=said)


async def test_a_truncation_told_as_an_error_is_an_answer_whose_bill_is_not_known(hear: Hear) -> None:
    told = openai(
        "Could not finish the message because max_tokens or model output limit was reached. Please try again with "
        "higher max_tokens."
    )
    for usage, known in (({}, False), ({"usage": {"prompt_tokens": 9, "completion_tokens": 500}}, True)):
        answer = await hear(OPENAI, 400, told | usage)
        assert (answer.finish, answer.text, answer.bill_known) == (Finish.TRUNCATED, "", known)
    assert answer.usage == Usage(input=9, output=500)


BUSY = openai("Overloaded", "server_error", "server_error")
WAITS: list[tuple[str, int, Any, dict[str, str], float | None]] = [
    (OPENAI, 429, openai("Rate limit reached"), {"retry_after": "3", "retry_after_ms": "2500"}, 2.5),
    (OPENAI, 429, openai("Rate limit reached"), {}, None),
    (OPENAI, 500, openai("The server had an error", None, "server_error"), {"retry_after": "7"}, 7.0),
    *((OPENAI, 503, BUSY, {"retry_after": header}, wait) for header, wait in (("7", 7.0), ("1e30", None), ("-5", 0.0))),
    (OPENAI, 503, CHALLENGE, {"retry_after": "7"}, 7.0),
    (ANTHROPIC, 429, anthropic("words", "rate_limit_error"), {"retry_after": "41"}, 41.0),
    (ANTHROPIC, 529, anthropic("Overloaded", "overloaded_error"), {"retry_after": "7"}, 7.0),
    (GOOGLE, 429, exhausted("words", quota(PER_MINUTE), RETRY_17), {}, 17.0),
    (GOOGLE, 429, exhausted("words"), {"retry_after": "9"}, 9.0),
    (GOOGLE, 429, exhausted("words"), {}, None),
    (GOOGLE, 503, google(503, "UNAVAILABLE", "The model is overloaded"), {"retry_after": "nan"}, None),
]


@pytest.mark.parametrize(("kind", "status", "body", "headers", "seconds"), WAITS)
async def test_the_wait_a_vendor_asks_for_is_kept(
    kind: str, status: int, body: object, headers: dict[str, str], seconds: float | None, hear: Hear
) -> None:
    with pytest.raises(TransientError) as caught:
        await hear(kind, status, body, **headers)
    assert caught.value.retry_after_s == seconds


@pytest.mark.parametrize("choice", [{}, {"message": None}, {"message": {"content": None}}])
@pytest.mark.parametrize("kind", [OPENAI, XAI])
def test_a_filtered_answer_needs_no_message(choice: dict[str, Any], kind: str) -> None:
    """Azure and its like send none; without a filter a missing message is a malformed reply."""
    provider = reader(kind)
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    answer = provider.read_chat({"choices": [{"finish_reason": "content_filter", **choice}], "usage": usage})
    assert (answer.finish, answer.usage.input, answer.usage.output) == (Finish.REFUSED, 7, 2)
    with pytest.raises(TransientError, match="not as documented"):
        provider.read_chat({"choices": [{"finish_reason": "stop"}], "usage": usage})


def test_messages_name_a_remedy_and_stay_short() -> None:
    error = classify(401, openai("no " * 1000, "invalid_api_key"), None)
    assert "key_env" in str(error)
    assert len(str(error)) < 700


def test_a_region_that_is_not_served_is_not_blamed_on_the_key() -> None:
    told = [
        classify(403, openai("Country not supported", "unsupported_country_region_territory"), None),
        google_errors.classify(400, google(400, "FAILED_PRECONDITION", "User location is not supported"), None),
    ]
    assert all("run from another region" in str(error) for error in told)
