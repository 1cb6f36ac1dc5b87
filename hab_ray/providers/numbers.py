"""Checks the numbers in a vendor's answer before costs are computed from them.

A count or price that is negative, absurdly large or (a count) not a whole number raises BadUsage: the cost of the
answer is then unknown, and the call is booked at its upper bound. Numbers that a gateway writes as text are read.
"""

import binascii
import math
import re
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np

from hab_ray.calls import Usage
from hab_ray.errors import BadUsage, FailureKind, RowError
from hab_ray.providers.base import malformed

# A hundred times the longest context on sale, and the cost of that many tokens at the highest price.
MAX_TOKENS = 100_000_000
MAX_NANOUSD = 10_000 * 10**9

_DEAR = {"priority", "on_demand_priority", "us"}
_NUMBER = re.compile(r"\d{1,18}(\.\d{1,18})?(e-?\d{1,2})?", re.ASCII | re.IGNORECASE)
_TICKS_PER_NANOUSD = 10
_NANO = Decimal(10**9)
_SHOWN_NUMBER, _SHOWN_TEXT = 40, 6  # six characters of a text: it may hold a key
_FLOAT_BYTES = 4

Fields = Mapping[str, Any]


def usage_fields(body: Fields, name: str) -> Fields:
    """Return a field of numbers, an empty object if absent; raise BadUsage if the field is not an object."""
    value = body.get(name)
    if value is None or value == []:
        return {}
    if not isinstance(value, Mapping):
        raise BadUsage(f"{name} is {_shown(value)}, not an object")
    return value


def token_count(fields: Fields, name: str) -> int:
    """Return a count of tokens, 0 if absent or null.

    Raises:
        BadUsage: the count is not a whole number from 0 to `MAX_TOKENS`.
    """
    value = _read(fields.get(name))
    if value is None:
        return 0
    if not _is_number(value) or not 0 <= value <= MAX_TOKENS or value != int(value):
        raise BadUsage(f"{name} is {_shown(value)}, not a count of tokens (0 to {MAX_TOKENS:,})")
    return int(value)


def counts_answer(used: Usage, text: str) -> bool:
    """Return whether these counts can be the bill of an answer with this text; gateways that count nothing send 0."""
    return used.input > 0 and (used.output > 0 or not text)


def dear_tier(*named: object) -> str:
    """Return which of these service tiers or regions, as an answer names them, is billed above the vendor's list.

    An account's own settings may choose one: OpenAI's project its tier, Anthropic's workspace its region.
    """
    return next((str(tier) for tier in named if str(tier).lower() in _DEAR), "")


def counters(fields: Fields) -> dict[str, int]:
    """Return the counters of a batch, also those written as text; null counts as 0, what is no number is left out."""
    found = {}
    for name, count in fields.items():
        with suppress(ValueError, TypeError, OverflowError):
            found[name] = int(count or 0)
    return found


def stated_nanousd(usage: Fields) -> int | None:
    """Return the cost of a call that the vendor states, in nano-dollars, rounded half up, or None.

    xAI states ticks of 1e-10 dollars, OpenRouter dollars. If the customer uses his own key of another vendor,
    OpenRouter's `cost` is only its fee, and that vendor's charge is in `cost_details`: without it the cost is not
    stated, and a fee of 0 would leave the budget without effect. A `cost` that is an object is ignored: it lists parts,
    and no known vendor defines their sum in dollars. Raise BadUsage if the cost is not a number from 0 to
    `MAX_NANOUSD`.
    """
    ticks = usage.get("cost_in_usd_ticks")
    if ticks is not None:
        amount = _amount("cost_in_usd_ticks", ticks, MAX_NANOUSD * _TICKS_PER_NANOUSD)
        return _rounded(amount / _TICKS_PER_NANOUSD)
    cost = usage.get("cost")
    if cost is None or isinstance(cost, Mapping):
        return None
    dollars = _amount("cost", cost, MAX_NANOUSD // 10**9)
    if usage.get("is_byok") is True:
        upstream = usage_fields(usage, "cost_details").get("upstream_inference_cost")
        if upstream is None:
            return None
        dollars += _amount("cost_details.upstream_inference_cost", upstream, MAX_NANOUSD // 10**9)
    return _rounded(dollars * _NANO)


def vector(embedding: str | list[float]) -> bytes:
    """Return a vector as little-endian float32 bytes, from their base64 or from a list of numbers.

    Raises:
        TransientError: the embedding is neither.
        RowError: the vector holds NaN or infinity, so that no distance can be computed.
    """
    try:
        raw = _decoded(embedding) if isinstance(embedding, str) else _packed(embedding)
    except (TypeError, ValueError, OverflowError, binascii.Error) as error:
        raise malformed(f"a vector: {error!r}") from None
    if not np.isfinite(np.frombuffer(raw, dtype="<f4")).all():
        raise RowError(FailureKind.MALFORMED, "the vector holds NaN or infinity; no distance can be computed with it")
    return raw


def _decoded(embedding: str) -> bytes:
    raw = b64decode(embedding, validate=True)
    if not raw or len(raw) % _FLOAT_BYTES:
        raise ValueError(f"{len(raw)} bytes of float32")
    return raw


def _packed(embedding: list[float]) -> bytes:
    with np.errstate(over="ignore"):
        values = np.asarray(embedding, dtype="<f4")
    if values.ndim != 1 or not values.size:
        raise ValueError(f"shape {values.shape}")
    return values.tobytes()


def _amount(name: str, value: Any, maximum: int) -> Decimal:
    value = _read(value)
    if not _is_number(value) or not 0 <= value <= maximum:
        raise BadUsage(f"{name} is {_shown(value)}, not a price (0 to {maximum:,})")
    return Decimal(repr(value))


def _rounded(amount: Decimal) -> int:
    return int(amount.to_integral_value(rounding=ROUND_HALF_UP))


def _read(value: Any) -> Any:
    """Return the number that a text writes, anything else unchanged."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return value
    return int(value) if value.isdigit() else float(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """Return a possibly hostile value for a message: short, escaped, and with too little of a text to leak a key."""
    if isinstance(value, str):
        return repr(value[:_SHOWN_TEXT]) + ("..." if len(value) > _SHOWN_TEXT else "")
    if value is None or isinstance(value, int | float):
        return repr(value)[:_SHOWN_NUMBER]
    return f"a {type(value).__name__}"
