"""How names of columns and classes compare."""

from __future__ import annotations

import re


def snake(name: str) -> str:
    """A name in lower case with `_` between its words."""
    return re.sub(
        r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    ).strip("_")
