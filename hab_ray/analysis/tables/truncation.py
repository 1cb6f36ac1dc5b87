"""The effect of truncated answers on means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.scores import scores_of
from hab_ray.analysis.summary import Summary
from hab_ray.rows import Score


@dataclass(frozen=True, slots=True)
class Truncation:
    """A mean of the panel (0..1) with truncated answers `judged`, and with them `excluded`."""

    subject: str
    dimension: str
    truncated: int
    judged: float | None
    excluded: float | None


def compare(judged: Iterable[Score], excluded: Iterable[Score]) -> list[Truncation]:
    """Return the panel's means affected by truncated answers, from the scores with and without these answers."""
    return [
        Truncation(a.subject, a.dimension, a.truncated, a.mean, b.mean)
        for a, b in zip(judged, excluded, strict=True)
        if a.truncated and a.judge == PANEL
    ]


@analysis(Truncation, order=50, heading="Truncated answers")
def truncation(summary: Summary) -> Sequence[Truncation]:
    """Return both means wherever they are over different answers."""
    judged, excluded = summary.marks["judge"], summary.marks["exclude"]
    return compare(scores_of(judged), scores_of(excluded)) if any(each.truncated for each in judged) else []
