"""Where the settings that compared subjects were sent differ: they should not by accident."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hab_ray.results import Sent


@dataclass(frozen=True)
class Difference:
    """A parameter that compared subjects were not sent alike: the subjects by value; None = not sent."""

    parameter: str
    subjects: Mapping[str | None, tuple[str, ...]]


def differences(subjects: Iterable[Sent]) -> list[Difference]:
    """The parameters in which the subjects that have a response differ, by name."""
    compared = sorted((subject for subject in subjects if subject.responses), key=lambda sent: sent.subject)
    names = sorted({name for subject in compared for name in subject.parameters})
    found = (Difference(name, _by_value(name, compared)) for name in names)
    return [difference for difference in found if len(difference.subjects) > 1]


def _by_value(name: str, compared: Iterable[Sent]) -> dict[str | None, tuple[str, ...]]:
    groups: dict[str | None, tuple[str, ...]] = {}
    for subject in compared:
        values = subject.parameters.get(name)
        shown = " / ".join(values) if values else None
        groups[shown] = (*groups.get(shown, ()), subject.subject)
    return groups
