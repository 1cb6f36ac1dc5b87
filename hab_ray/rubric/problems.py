"""Problems of rubric files, and their collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hab_ray.inputs.files import plain_words
from hab_ray.rubric.literal import RubricPart
from hab_ray.visible import one_line

P = TypeVar("P", bound=RubricPart)


@dataclass(frozen=True, slots=True)
class RubricProblem:
    """A problem in a file. `field` is a dotted path with list positions counted from 0; "" = the whole file."""

    file: str
    field: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.file}: {self.field}" if self.field else self.file
        return one_line(f"{where}: {self.cause}; {self.remedy}")


@dataclass(frozen=True)
class Findings:
    """Collects the problems of one file. `is_shipped`: the file is part of hab_ray."""

    file: str
    problems: list[RubricProblem]
    is_shipped: bool = False

    def add(self, field: str, cause: str, remedy: str) -> None:
        self.problems.append(RubricProblem(self.file, field, cause, remedy))

    def parse(self, kind: type[P], raw: Mapping[str, Any]) -> P | None:
        """Return the content as `kind`, or add a problem per missing, unknown or ill-typed key and return None."""
        try:
            return kind.model_validate(raw)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                path = [str(step) for step in detail["loc"]]
                self.add(".".join(path), *_explained(detail, path))
        return None


_KEYS = sorted({key for part in RubricPart.__subclasses__() for key in part.model_fields})


def _explained(error: ErrorDetails, path: list[str]) -> tuple[str, str]:
    if error["type"] == "missing":
        return "the key is missing", "add it"
    if error["type"] == "extra_forbidden":
        near = get_close_matches(path[-1], _KEYS, n=1)
        return "unknown key", f"write {near[0]} or remove it" if near else "remove it"
    message = plain_words(error)
    return message[0].lower() + message[1:], "correct the value"
