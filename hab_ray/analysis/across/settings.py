"""Settings that differ between two runs and that scores depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hab_ray.results import Run, Sent
from hab_ray.storage.record import RUBRIC

_SHOWN = 12
_OF_RUN = ("samples", "replicates", "truncated", "accept_substitutes")


@dataclass(frozen=True, slots=True)
class SettingApart:
    """A setting and its value in each run, as text."""

    setting: str
    first: str
    second: str


def settings_apart(first: Run, second: Run) -> list[SettingApart]:
    """Return the settings that differ: those of the runs, then those of each subject that both have."""
    sides = [(_of_run(first), _of_run(second))]
    asked = {sent.subject: sent for sent in second.settings().subjects}
    for sent in first.settings().subjects:
        if other := asked.get(sent.subject):
            parameters = sorted({*sent.parameters, *other.parameters})
            sides.append((_of_subject(sent, parameters), _of_subject(other, parameters)))
    return [
        SettingApart(setting, value, theirs[setting])
        for own, theirs in sides
        for setting, value in own.items()
        if setting in theirs and value != theirs[setting]
    ]


def _of_run(run: Run) -> Mapping[str, str]:
    record = run.record
    shown = {name: digest[:_SHOWN] for name, digest in record.hashes.items()}
    return {
        "judges, of equal weight in the panel": ", ".join(run.panel),
        **{f"settings of judge {judge}": shown.get(f"judges: {judge}", "") for judge in run.panel},
        "rules by which verdicts are read": str(record.reader_version),
        **{f"rubric of {dimension}": shown.get(f"{RUBRIC}{dimension}", "") for dimension in run.dimensions},
        "wording of prompts": shown.get("prompts", ""),
        **{name: str(getattr(record.sweep, name)) for name in _OF_RUN},
    }


def _of_subject(sent: Sent, parameters: Sequence[str]) -> Mapping[str, str]:
    values = {
        "model": sent.model or "given answers",
        "provider": sent.provider or "",
        "system prompt": sent.system or "",
        **{name: " / ".join(sent.parameters.get(name, ("not sent",))) for name in parameters},
        "name reported by the vendor": ", ".join(sent.reported),
    }
    return {f"{name} of {sent.subject}": value for name, value in values.items()}
