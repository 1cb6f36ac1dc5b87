"""Checks for drift: models that their vendor changed during the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hab_ray.analysis.evidence.reported import Part, Split
from hab_ray.analysis.signs.finding import Finding, Severity, spoken
from hab_ray.analysis.tables.drift import Drift


def changed_models(found: Sequence[Split]) -> Iterator[Finding]:
    """Report each subject or judge whose rows came from more than one model."""
    for who in dict.fromkeys((split.name, split.of) for split in found):
        own = [split for split in found if (split.name, split.of) == who]
        names = {name for split in own for name in split.parts}
        listed = "; ".join(
            f"{spoken(split.dimension)}: {', '.join(_listed(*each) for each in split.parts.items())}" for split in own
        )
        yield Finding(
            "model_changed",
            Severity.MEDIUM,
            f"The {who[1]} of {who[0]} came from {len(names)} models",
            f"{who[1].capitalize()} and means by the model name that the vendor reported: {listed}. Each mean is over "
            "different tests.",
            "Name a dated version of the model if the vendor has one, and run it again; otherwise report both.",
            len(names),
        )


def shifted_judges(rows: Iterable[Drift]) -> Iterator[Finding]:
    """Report judges that scored the same answers differently later."""
    for row in rows:
        if row.is_significant and row.reliable and row.shift is not None:
            later = "later" if row.hours is None else f"{row.hours:.1f} hours later"
            yield Finding(
                "judge_shifted",
                Severity.HIGH,
                f"{row.judge} scores the same answers differently than before",
                f"{row.shift:+z.3f} on the scale of 0 to 1 (95 % interval {row.low:+z.3f} to {row.high:+z.3f}) over "
                f"{row.answers} answers, {later}: what it judged first and last are not on one scale.",
                "Name a dated version of the judge if its vendor has one, and judge everything again under a new "
                "`name:`.",
                row.shift,
            )


def _listed(name: str, part: Part) -> str:
    return f"{name} {part.rows}" + ("" if part.mean is None else f" ({part.mean:.2f})")
