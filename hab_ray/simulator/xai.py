"""xAI's wire protocol: OpenAI's, with a usage of its own.

Completion tokens leave out the reasoning, which is billed all the same, and the price of the call is stated in ticks
of 1e-10 dollars. Source: live replies of August 2026.
"""

from __future__ import annotations

from typing import Any

from hab_ray.simulator.answers import Mind
from hab_ray.simulator.asks import Ask, Bill, ChatAsk, WireAnswer
from hab_ray.simulator.openai import (
    bad_key,
    chat,
    check,
    embeddings,
    fault,
    key,
    limit_headers,
    models,
    no_quota,
    read,
    too_fast,
)

__all__ = [
    "bad_key",
    "check",
    "fault",
    "key",
    "limit_headers",
    "models",
    "no_quota",
    "read",
    "reply",
    "too_fast",
]

_TICKS_PER_NANOUSD = 10


def reply(mind: Mind, ask: Ask) -> WireAnswer:
    """The vendor's answer to a request that passed."""
    return chat(mind, ask, _usage) if isinstance(ask, ChatAsk) else embeddings(mind, ask)


def _usage(bill: Bill) -> dict[str, Any]:
    used = bill.usage
    return {
        "prompt_tokens": used.input,
        "completion_tokens": used.output - used.reasoning,
        "total_tokens": used.input + used.output,
        "prompt_tokens_details": {"text_tokens": used.input, "cached_tokens": used.cached},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning},
        "num_sources_used": 0,
        "cost_in_usd_ticks": bill.nanousd * _TICKS_PER_NANOUSD,
    }
