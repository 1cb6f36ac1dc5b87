"""What each rubric has in common with the paper's benchmark, what differs, and whose wording it uses."""

from dataclasses import dataclass

from hab_ray.analysis.registry import section
from hab_ray.analysis.summary import Summary
from hab_ray.rubric import imported_note
from hab_ray.rubric.parts import Deviation


@dataclass(frozen=True)
class Fidelity:
    """A dimension's fidelity to the paper; `imported` is None if the wording is the project's own or the user's."""

    dimension: str
    imported: str | None
    equals: tuple[str, ...]
    differs: tuple[Deviation, ...]


@section(order=95, heading="Fidelity to the paper")
def fidelity(summary: Summary) -> list[Fidelity]:
    """Return the fidelity of each dimension whose rubric states it."""
    found = []
    for dimension, rubric in summary.rubrics.items():
        imported, stated = imported_note(rubric.literal) if rubric.literal else None, rubric.fidelity
        if imported or stated:
            found.append(
                Fidelity(dimension, imported, stated.equals if stated else (), stated.differs if stated else ())
            )
    return found
