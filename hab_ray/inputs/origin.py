"""What a file from outside says of where it comes from."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_NO_LICENCE = frozenset({"", "unknown", "none", "noassertion"})
_Text = Annotated[str, Field(min_length=1)]


class Origin(BaseModel):
    """Where wording or data comes from: source, licence, and the canaries it carries. No model is shown it."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    source: _Text
    licence: _Text = "unknown"
    canaries: tuple[_Text, ...] = ()

    @property
    def has_licence(self) -> bool:
        """Whether a licence is stated, under which others may have it."""
        return self.licence.strip().lower() not in _NO_LICENCE
