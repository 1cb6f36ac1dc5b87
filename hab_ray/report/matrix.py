"""Findings about single cells, laid out like the leaderboard: subjects down, dimensions across."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Placed(Protocol):
    """Anything said about one subject in one dimension."""

    @property
    def subject(self) -> str:
        """Whose cell it is."""

    @property
    def dimension(self) -> str:
        """Which of its cells."""


P = TypeVar("P", bound=Placed)


@dataclass(frozen=True)
class MatrixLine(Generic[P]):
    """One subject's cells, in the order of the dimensions; None where there is nothing to say."""

    subject: str
    cells: tuple[P | None, ...]


def matrix(cells: Iterable[P], dimensions: Collection[str]) -> tuple[MatrixLine[P], ...]:
    """The lines of the subjects that have a cell, in the order in which they first occur."""
    at = {(cell.subject, cell.dimension): cell for cell in cells}
    subjects = dict.fromkeys(subject for subject, _ in at)
    return tuple(MatrixLine(s, tuple(at.get((s, dimension)) for dimension in dimensions)) for s in subjects)
