"""What all settings have in common, and how a body is told that is none."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Share = Annotated[float, Field(ge=0, le=1)]
Glob = str


class Settings(BaseModel):
    """A frozen model that refuses unknown keys, and numbers that are none or infinite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def first_problem(failure: ValidationError) -> tuple[str, str, str]:
    """The first thing wrong in a body: its place, dots between the steps, what is wrong, and pydantic's type of it."""
    first = failure.errors(include_url=False, include_context=False)[0]
    return ".".join(map(str, first["loc"])), first["msg"], first["type"]


def without(body: Any, names: frozenset[str]) -> Any:
    """A body without the fields of these names; one that is no object as it is."""
    return {name: value for name, value in body.items() if name not in names} if isinstance(body, dict) else body
