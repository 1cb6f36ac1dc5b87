"""Which judges and subjects are the same model, or models of the same vendor."""

from __future__ import annotations

from dataclasses import dataclass

from hab_ray.catalog.models import ModelEntry, load_catalog
from hab_ray.storage.record import Record


@dataclass(frozen=True)
class Maker:
    """A model by provider and wire name, and its vendor, which is None if unknown, as at a user's own endpoint."""

    model: tuple[str, str]
    vendor: str | None

    def is_itself(self, other: Maker | None) -> bool:
        """Whether both are the same model."""
        return other is not None and self.model == other.model

    def is_kin(self, other: Maker | None) -> bool:
        """Whether both are the same model or of the same vendor."""
        return other is not None and (self.is_itself(other) or (self.vendor == other.vendor is not None))


def makers(record: Record) -> tuple[dict[str, Maker], dict[str, Maker]]:
    """Return a run's subjects and judges by name; a subject with given answers is the model of its name, if any."""
    sweep = record.sweep
    models = {name: name for name in sweep.subject_names if name in sweep.catalog.models}
    models |= {subject.name: subject.model for subject in sweep.subjects}
    subjects = {name: _maker(record, record.entry(model)) for name, model in models.items()}
    return subjects, {judge.name: _maker(record, record.entry(judge.model)) for judge in sweep.judges}


def _maker(record: Record, entry: ModelEntry) -> Maker:
    vendor, slash, _ = entry.wire.partition("/")
    if not slash:
        provider = record.sweep.catalog.providers[entry.provider]
        vendor = entry.provider if entry.provider in load_catalog().vendors else provider.like or ""
    return Maker((entry.provider, entry.wire), vendor or None)
