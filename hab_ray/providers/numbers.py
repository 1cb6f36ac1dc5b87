"""Checks the numbers in a vendor's answer before they become money.

A count that is negative, absurd or not a whole number, or such a price, raises BadUsage: the answer's cost is then
unknown, and the call is booked at the most that it could cost.
"""

from __future__ import annotations

import binascii
import math
from base64 import b64decode
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np

from hab_ray.errors import BadUsage, FailureKind, RowError
from hab_ray.providers.base import malformed

# A hundred times the longest context on sale, and what that many tokens cost at the dearest price.
MAX_TOKENS = 100_000_000
MAX_NANOUSD = 10_000 * 10**9

_TICKS_PER_NANOUSD = 10
_NANO = Decimal(10**9)
_SHOWN_NUMBER, _SHOWN_TEXT = 40, 6  # six characters of a text: less than any key that it may hold
_FLOAT_BYTES = 4

Fields = Mapping[str, Any]


def usage_fields(body: Fields, name: str) -> Fields:
    """An object of numbers; empty where there is none.

    Raises:
        BadUsage: the value is not an object.
    """
    value = body.get(name)
    if value is None or value == []:
        return {}
    if not isinstance(value, Mapping):
        raise BadUsage(f"{name} is {_shown(value)}, not an object")
    return value


def token_count(fields: Fields, name: str) -> int:
    """A count of tokens; 0 where it is absent or null.

    Raises:
        BadUsage: it is not a whole number from 0 to `MAX_TOKENS`.
    """
    value = fields.get(name)
    if value is None:
        return 0
    if not _is_number(value) or not 0 <= value <= MAX_TOKENS or value != int(value):
        raise BadUsage(f"{name} is {_shown(value)}, not a count of tokens (0 to {MAX_TOKENS:,})")
    return int(value)


def stated_nanousd(usage: Fields) -> int | None:
    """The vendor's own price of a call in nano-dollars, rounded half up; None where it states none.

    xAI states ticks of 1e-10 dollars, OpenRouter dollars. For a customer's own key at another vendor OpenRouter's
    `cost` is its fee alone, and that vendor's charge is in `cost_details`. A `cost` that is an object is a list of
    parts that no vendor we know sums up in dollars alike: it is no statement.

    Raises:
        BadUsage: the price is no number from 0 to `MAX_NANOUSD`.
    """
    ticks = usage.get("cost_in_usd_ticks")
    if ticks is not None:
        most = MAX_NANOUSD * _TICKS_PER_NANOUSD
        return _rounded(_amount("cost_in_usd_ticks", ticks, most) / _TICKS_PER_NANOUSD)
    cost = usage.get("cost")
    if cost is None or isinstance(cost, Mapping):
        return None
    dollars = _amount("cost", cost, MAX_NANOUSD // 10**9)
    if usage.get("is_byok") is True:
        upstream = usage_fields(usage, "cost_details").get("upstream_inference_cost") or 0
        dollars += _amount("cost_details.upstream_inference_cost", upstream, MAX_NANOUSD // 10**9)
    return _rounded(dollars * _NANO)


def vector(embedding: str | list[float]) -> bytes:
    """A vector as float32 little endian, from base64 of that or from a list of numbers.

    Raises:
        TransientError: it is neither.
        RowError: it holds NaN or infinity, with which no distance can be computed.
    """
    try:
        raw = _unpacked(embedding) if isinstance(embedding, str) else _packed(embedding)
    except (TypeError, ValueError, OverflowError, binascii.Error) as error:
        raise malformed(f"a vector: {error!r}") from None
    if not np.isfinite(np.frombuffer(raw, dtype="<f4")).all():
        raise RowError(FailureKind.MALFORMED, "the vector holds NaN or infinity; no distance can be computed with it")
    return raw


def _unpacked(embedding: str) -> bytes:
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


def _amount(name: str, value: Any, most: int) -> Decimal:
    if not _is_number(value) or not 0 <= value <= most:
        raise BadUsage(f"{name} is {_shown(value)}, not a price (0 to {most:,})")
    return Decimal(repr(value))


def _rounded(amount: Decimal) -> int:
    return int(amount.to_integral_value(rounding=ROUND_HALF_UP))


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """A hostile value in a message: short, escaped, and too little of a text to give a key away."""
    if isinstance(value, str):
        return repr(value[:_SHOWN_TEXT]) + ("..." if len(value) > _SHOWN_TEXT else "")
    if value is None or isinstance(value, int | float):
        return repr(value)[:_SHOWN_NUMBER]
    return f"a {type(value).__name__}"
