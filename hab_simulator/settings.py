"""What all settings have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]
Glob = str


class Settings(BaseModel):
    """A frozen model that refuses unknown keys, and numbers that are none or infinite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
