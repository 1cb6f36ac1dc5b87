"""What of each rubric equals the paper's benchmark and what differs, as its file says, and whose wording it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hab_ray.analysis.registry import section
from hab_ray.analysis.summary import Summary
from hab_ray.rubric import Rubric, imported_note
from hab_ray.rubric.parts import Deviation


@dataclass(frozen=True)
class Fidelity:
    """One dimension's. `imported` is None where the wording is the project's own or the user's."""

    dimension: str
    imported: str | None
    equals: tuple[str, ...]
    differs: tuple[Deviation, ...]


@section(order=95, link="Fidelity", heading="What equals the paper and what differs")
def fidelity(summary: Summary) -> tuple[Fidelity, ...]:
    """The dimensions whose rubrics say something of it."""
    return tuple(_stated(summary))


def _stated(summary: Summary) -> Iterator[Fidelity]:
    for dimension, rubric in summary.rubrics.items():
        imported = imported_note(rubric.literal) if rubric.literal else None
        if imported or rubric.fidelity:
            yield _of(dimension, rubric, imported)


def _of(dimension: str, rubric: Rubric, imported: str | None) -> Fidelity:
    said = rubric.fidelity
    return Fidelity(dimension, imported, said.equals if said else (), said.differs if said else ())
