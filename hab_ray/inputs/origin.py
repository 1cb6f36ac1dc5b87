"""The stated origin of imported wording or data."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_NO_LICENCE = frozenset({"", "unknown", "none", "noassertion"})
_Text = Annotated[str, Field(min_length=1)]


class Origin(BaseModel):
    """The source, licence and canaries of wording or data. Models are never shown it."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    source: _Text
    licence: _Text = "unknown"
    canaries: tuple[_Text, ...] = ()

    @property
    def has_licence(self) -> bool:
        """Whether a licence is stated, so that it may be shared."""
        return self.licence.strip().lower() not in _NO_LICENCE
