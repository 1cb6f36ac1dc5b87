"""Stand-ins for rows that do not exist yet, from which `hab plan` counts and prices later stages.

The lengths that stages assume are meant to be a little high: 150 words are about 200 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Forecast(Generic[T]):
    """The rows (or tasks) that exist, and how many more are to come.

    Those to come are like `typical` on average and like `longest` at most.
    """

    known: Sequence[T] = ()
    to_come: int = 0
    typical: Sequence[T] = ()
    longest: Sequence[T] = ()

    @property
    def count(self) -> int:
        """How many there will be."""
        return len(self.known) + self.to_come

    def __add__(self, other: Forecast[T]) -> Forecast[T]:
        return Forecast(
            [*self.known, *other.known],
            self.to_come + other.to_come,
            [*self.typical, *other.typical],
            [*self.longest, *other.longest],
        )


Forecasts = Mapping[type[Any], Forecast[Any]]


def stand_in(tokens: int) -> str:
    """A text of so many tokens."""
    return "x" * (tokens * BYTES_PER_TOKEN)
