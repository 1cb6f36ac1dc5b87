"""Which judge is which subject, and whose vendor made both."""

from __future__ import annotations

from dataclasses import dataclass

from hab_ray.catalog.models import ModelEntry, load_catalog
from hab_ray.storage.record import Record


@dataclass(frozen=True)
class Maker:
    """A model by its provider and wire name, and who made it; None where nobody can tell, as at an own endpoint."""

    model: tuple[str, str]
    vendor: str | None

    def is_itself(self, other: Maker | None) -> bool:
        """Whether both are one model."""
        return other is not None and self.model == other.model

    def is_kin(self, other: Maker | None) -> bool:
        """Whether both are one model, or of one vendor."""
        return other is not None and (self.is_itself(other) or (self.vendor == other.vendor is not None))


def makers(record: Record) -> tuple[dict[str, Maker], dict[str, Maker]]:
    """The subjects and judges of a run by name; one whose answers were given is the model of its name, if any."""
    sweep = record.sweep
    asked = {subject.name: subject.model for subject in sweep.subjects}
    models = {name: asked.get(name, name) for name in sweep.subject_names}
    known = {name: model for name, model in models.items() if name in asked or model in sweep.catalog.models}
    subjects = {name: _maker(record, record.entry(model)) for name, model in known.items()}
    return subjects, {judge.name: _maker(record, record.entry(judge.model)) for judge in sweep.judges}


def _maker(record: Record, entry: ModelEntry) -> Maker:
    vendor, slash, _ = entry.wire.partition("/")
    if not slash:
        provider = record.sweep.catalog.providers[entry.provider]
        vendor = entry.provider if entry.provider in load_catalog().vendors else provider.like or ""
    return Maker((entry.provider, entry.wire), vendor or None)
