"""Problems of a sweep, with their remedies."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from hab_ray.errors import ConfigError

LEAVE_OUT = "leave it out, or run with --available-only"


class Severity(StrEnum):
    """Whether a problem prevents a run from starting."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Problem:
    """A problem of a sweep, with the affected models (by their names in the sweep), its cause and the remedy."""

    severity: Severity
    models: tuple[str, ...]
    cause: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.cause}; {self.remedy}"


def refuse_errors(problems: Sequence[Problem]) -> None:
    """Refuse to go on if there are errors.

    Raises:
        ConfigError: there are; the message has one line per error.
    """
    if errors := [str(p) for p in problems if p.severity is Severity.ERROR]:
        raise ConfigError("\n".join(errors))
