"""The base of all parts of rubric files."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1)]


class RubricPart(BaseModel):
    """A part of a rubric file: frozen, refuses unknown keys, strips white space around texts."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)
