"""A sign of drift: a model that the vendor changed while the run went on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hab_ray.analysis.evidence.reported import Part, Split
from hab_ray.analysis.signs.finding import Finding, Severity, spoken


def changed_models(found: Sequence[Split]) -> Iterator[Finding]:
    """Of each subject or judge whose rows came from more than one model, the cells that this splits."""
    for who in dict.fromkeys((split.name, split.of) for split in found):
        own = [split for split in found if (split.name, split.of) == who]
        names = sorted({name for split in own for name in split.parts})
        told = "; ".join(
            f"{spoken(split.dimension)}: {', '.join(_told(*each) for each in split.parts.items())}" for split in own
        )
        yield Finding(
            "model_changed",
            Severity.MEDIUM,
            f"The {who[1]} of {who[0]} came from {len(names)} models",
            f"By the names that the vendor reported, {who[1]} and means: {told}. Each mean is over other tests.",
            "Name a dated version of the model if the vendor has one, and run it anew; else state both.",
            len(names),
        )


def _told(name: str, part: Part) -> str:
    return f"{name} {part.rows}" + ("" if part.mean is None else f" ({part.mean:.2f})")
