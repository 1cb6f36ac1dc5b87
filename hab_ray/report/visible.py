"""Preparation of values for the report's templates before they are escaped; an unknown number is a dash."""

import re
from typing import Any

from markupsafe import Markup, escape

from hab_ray.catalog.prices import NANO
from hab_ray.visible import decimal, usd, visible
from hab_ray.visible import p_value as p_value_of
from hab_ray.visible import percent as percent_of

UNKNOWN, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
_TICKED = re.compile(r"`([^`]+)`")


def finalize(value: Any) -> Any:
    """Make a printed value visible; the template escapes it afterwards."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def words(text: str) -> Markup:
    """Format one of our own sentences: text in backticks becomes code, everything else is escaped."""
    return Markup(_TICKED.sub(r"<code>\1</code>", str(escape(visible(text)))))


def score(value: float | None, digits: int = 2) -> str:
    """Format a score or another number without a sign; only 0 and 1 are shown as 0.00 and 1.00."""
    return UNKNOWN if value is None else decimal(value, digits).replace("-", MINUS)


def signed(value: float | None, digits: int = 3) -> str:
    """Format a difference with its sign; only none is shown as zero."""
    shown = score(value, digits)
    return f"+{shown}" if value is not None and float(decimal(value, digits)) > 0 else shown


def percent(share: float | None, digits: int = 0) -> str:
    """Format a share (0..1) in percent."""
    return UNKNOWN if share is None else percent_of(share, digits)


def dollars(value: float | None) -> str:
    """Format dollars, with four decimals below one dollar and two above."""
    return UNKNOWN if value is None else usd(round(value * NANO))


def thousands(count: int) -> str:
    """Format a count with a comma between thousands."""
    return f"{count:,}"


def p_value(value: float | None) -> str:
    """Format a p-value."""
    return UNKNOWN if value is None else p_value_of(value)
