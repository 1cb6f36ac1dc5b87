"""What OpenAI and the endpoints that speak its protocol mean by their error bodies.

Shapes seen: `{"error": {message, type, param, code}}` (OpenAI, llama.cpp, Together), the same with a numeric
code and `metadata` (OpenRouter), `{"error": "words", "code": "words"}` (xAI), the problem itself (older vLLM).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hab_ray.errors import CallError
from hab_ray.providers.base import JsonObject
from hab_ray.providers.refusals import Problem, Rules, bad_key, no_model, no_quota, not_taken, overloaded, too_long

_BLOCKED = {"content_filter", "content_policy_violation", "invalid_prompt"}
_RULES = Rules(
    codes={
        "insufficient_quota": no_quota,
        "billing_hard_limit_reached": no_quota,
        "billing_not_active": no_quota,
        "invalid_api_key": bad_key,
        "account_deactivated": bad_key,
        "mismatched_organization": bad_key,
        "unsupported_country_region_territory": bad_key,
        "model_not_found": no_model,
        "model_not_available": no_model,
        "unsupported_parameter": not_taken,
        "unsupported_value": not_taken,
        "unknown_parameter": not_taken,
        "context_length_exceeded": too_long,
        "string_above_max_length": too_long,
        "slow_down": overloaded,
    },
    words=(
        (re.compile(r"(incorrect|invalid) api[ _]key", re.I), bad_key),
        (re.compile(r"\bnot a valid model|\bmodel\b.{0,80}\b(does not exist|not found)", re.I), no_model),
        (re.compile(r"^request too large|maximum context length", re.I), too_long),
        (re.compile(r"^unrecognized request argument|tokens is too large: ", re.I), not_taken),
    ),
)


def blocked(body: JsonObject) -> str | None:
    """The vendor's words where an error body says that it blocked the content; None for any other body.

    Documented as HTTP 400 with a code (OpenAI) or 403 with the moderation's reasons (OpenRouter).
    """
    problem = _problem_object(body)
    metadata = problem.get("metadata")
    moderated = isinstance(metadata, Mapping) and bool(metadata.get("reasons"))
    if moderated or problem.get("code") in _BLOCKED:
        return str(problem.get("message") or problem.get("code"))
    return None


def classify(status: int, body: JsonObject, retry_after_s: float | None) -> CallError:
    """What an error body means, online or as a line of a batch's error file."""
    problem = _problem_object(body)
    codes = tuple(str(problem[name]) for name in ("code", "type") if problem.get(name) is not None)
    return _RULES.meaning(Problem(status, codes, str(problem.get("message") or "no message"), retry_after_s))


def error_status(body: JsonObject) -> int | None:
    """The status an error body names itself; some gateways send one under HTTP 200. None for an answer."""
    if not body.get("error") or body.get("choices") or "data" in body:
        return None
    code = _problem_object(body).get("code")
    return code if isinstance(code, int) and 400 <= code < 600 else 502


def _problem_object(body: JsonObject) -> Mapping[str, Any]:
    problem = body.get("error")
    if isinstance(problem, Mapping):
        return problem
    return {**body, "message": problem} if isinstance(problem, str) else body
