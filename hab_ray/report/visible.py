"""Preparation of values for the report's templates before they are escaped."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup, escape

from hab_ray.visible import visible

_TICKED = re.compile(r"`([^`]+)`")


def finalize(value: Any) -> Any:
    """Make a printed value visible; the template escapes it afterwards."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def words(text: str) -> Markup:
    """Format one of our own sentences: text in backticks becomes code, everything else is escaped."""
    return Markup(_TICKED.sub(r"<code>\1</code>", str(escape(visible(text)))))
