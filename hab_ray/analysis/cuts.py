"""What truncated answers do to the means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hab_ray.analysis.cells import PANEL
from hab_ray.rows import Score


@dataclass(frozen=True, slots=True)
class Cut:
    """A cell of the panel with truncated answers: its mean (0..1) with them judged, and without them."""

    subject: str
    dimension: str
    truncated: int
    judged: float | None
    excluded: float | None


def cuts(judged: Iterable[Score], excluded: Iterable[Score]) -> list[Cut]:
    """The cells with truncated answers, from the scores of the same cells with these answers and without them."""
    return [
        Cut(a.subject, a.dimension, a.truncated, a.mean, b.mean)
        for a, b in zip(judged, excluded, strict=True)
        if a.truncated and a.judge == PANEL
    ]
