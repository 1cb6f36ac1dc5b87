"""The effect of truncated answers on means."""

from collections.abc import Sequence
from dataclasses import dataclass

from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.scores import scores_of
from hab_ray.analysis.summary import Summary


@dataclass(frozen=True, slots=True)
class Truncation:
    """A mean of the panel (0..1) with truncated answers `judged`, and with them `excluded`."""

    subject: str
    dimension: str
    truncated: int
    judged: float | None
    excluded: float | None


@analysis(Truncation, order=50, heading="Truncated answers")
def truncation(summary: Summary) -> Sequence[Truncation]:
    """Return both means wherever they are over different answers."""
    judged, excluded = (scores_of(summary.marks[truncated]) for truncated in ("judge", "exclude"))
    return [
        Truncation(a.subject, a.dimension, a.truncated, a.mean, b.mean)
        for a, b in zip(judged, excluded, strict=True)
        if a.truncated and a.judge == PANEL
    ]
