"""What the report's templates do to each value before it is escaped."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup, escape

from hab_ray.visible import visible

_TICKED = re.compile(r"`([^`]+)`")


def finalize(value: Any) -> Any:
    """What a template does to each value it prints, before it escapes it."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def words(text: str) -> Markup:
    """A sentence of ours for the page: what stands between backticks is set as code, all else is escaped."""
    return Markup(_TICKED.sub(r"<code>\1</code>", str(escape(visible(text)))))
