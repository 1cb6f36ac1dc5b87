"""What the report's templates do to each value before it is escaped."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from hab_ray.visible import visible


def finalize(value: Any) -> Any:
    """What a template does to each value it prints, before it escapes it."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
