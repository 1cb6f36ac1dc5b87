"""What the subjects were sent and what they said they are: compared subjects should differ in neither by accident."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hab_ray.rows import Response


class Sent(NamedTuple):
    """How a subject was asked once, and the name it answered under."""

    subject: str
    settings: str
    model_reported: str


@dataclass(frozen=True)
class Asked:
    """How a subject was asked: each parameter with the values sent, and the names it answered under, with counts."""

    subject: str
    parameters: Mapping[str, tuple[str, ...]]
    reported: Mapping[str, int]


@dataclass(frozen=True)
class Difference:
    """A parameter that compared subjects were not sent alike: the subjects by value; None = not sent."""

    parameter: str
    subjects: Mapping[str | None, tuple[str, ...]]


def sent(responses: Iterable[Response]) -> Counter[Sent]:
    """How often each subject was asked in which way."""
    return Counter(Sent(row.subject, row.settings, row.model_reported) for row in responses)


def asked(counts: Mapping[Sent, int]) -> list[Asked]:
    """How each subject that has a response was asked, by name."""
    settings: dict[str, set[str]] = defaultdict(set)
    reported: dict[str, Counter[str]] = defaultdict(Counter)
    for way, count in counts.items():
        settings[way.subject].add(way.settings)
        reported[way.subject].update({way.model_reported: count} if way.model_reported else {})
    return [
        Asked(subject, _values(ways), dict(sorted(reported[subject].items(), key=lambda r: (-r[1], r[0]))))
        for subject, ways in sorted(settings.items())
    ]


def _values(settings: Iterable[str]) -> dict[str, tuple[str, ...]]:
    values: dict[str, set[str]] = defaultdict(set)
    for text in settings:
        for name, value in json.loads(text or "{}").items():
            values[name].add(str(value))
    return {name: tuple(sorted(found)) for name, found in values.items()}


def differences(subjects: Iterable[Asked]) -> list[Difference]:
    """The parameters in which the subjects differ, by name."""
    compared = list(subjects)
    names = sorted({name for subject in compared for name in subject.parameters})
    found = (Difference(name, _by_value(name, compared)) for name in names)
    return [difference for difference in found if len(difference.subjects) > 1]


def _by_value(name: str, compared: Iterable[Asked]) -> dict[str | None, tuple[str, ...]]:
    groups: dict[str | None, tuple[str, ...]] = {}
    for subject in compared:
        values = subject.parameters.get(name)
        shown = " / ".join(values) if values else None
        groups[shown] = (*groups.get(shown, ()), subject.subject)
    return groups
