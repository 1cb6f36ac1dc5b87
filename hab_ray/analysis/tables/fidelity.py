"""What of each rubric equals the paper's benchmark and what differs, as its file says, and whose wording it has."""

from __future__ import annotations

from dataclasses import dataclass

from hab_ray.analysis.registry import section
from hab_ray.analysis.summary import Summary
from hab_ray.rubric import imported_note
from hab_ray.rubric.parts import Deviation


@dataclass(frozen=True)
class Fidelity:
    """One dimension's. `imported` is None where the wording is the project's own or the user's."""

    dimension: str
    imported: str | None
    equals: tuple[str, ...]
    differs: tuple[Deviation, ...]


@section(order=95, link="Fidelity", heading="What equals the paper and what differs")
def fidelity(summary: Summary) -> list[Fidelity]:
    """The dimensions whose rubrics say something of it."""
    found = []
    for dimension, rubric in summary.rubrics.items():
        imported, said = imported_note(rubric.literal) if rubric.literal else None, rubric.fidelity
        if imported or said:
            found.append(Fidelity(dimension, imported, said.equals if said else (), said.differs if said else ()))
    return found
