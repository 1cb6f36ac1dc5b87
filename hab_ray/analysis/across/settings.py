"""Settings that differ between two runs and that scores depend on."""

from __future__ import annotations

from collections.abc import Iterator
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
    pairs = [*_of_judges(first, second), *_of_wording(first, second), *_of_runs(first, second)]
    asked = {sent.subject: sent for sent in second.settings().subjects}
    for sent in first.settings().subjects:
        if sent.subject in asked:
            pairs += _of_subject(sent, asked[sent.subject])
    return [each for each in pairs if each.first != each.second]


def _of_judges(first: Run, second: Run) -> Iterator[SettingApart]:
    yield SettingApart("judges, of equal weight in the panel", ", ".join(first.panel), ", ".join(second.panel))
    for judge in first.panel:
        if judge in second.panel:
            one, other = (run.record.hashes.get(f"judges: {judge}", "") for run in (first, second))
            yield SettingApart(f"settings of judge {judge}", one[:_SHOWN], other[:_SHOWN])
    yield SettingApart(
        "rules by which verdicts are read", str(first.record.reader_version), str(second.record.reader_version)
    )


def _of_wording(first: Run, second: Run) -> Iterator[SettingApart]:
    for dimension in first.dimensions:
        if dimension in second.dimensions:
            one, other = (run.record.hashes.get(f"{RUBRIC}{dimension}", "") for run in (first, second))
            yield SettingApart(f"rubric of {dimension}", one[:_SHOWN], other[:_SHOWN])
    one, other = (run.record.hashes.get("prompts", "") for run in (first, second))
    yield SettingApart("wording of prompts", one[:_SHOWN], other[:_SHOWN])


def _of_runs(first: Run, second: Run) -> Iterator[SettingApart]:
    for name in _OF_RUN:
        yield SettingApart(name, str(getattr(first.record.sweep, name)), str(getattr(second.record.sweep, name)))


def _of_subject(first: Sent, second: Sent) -> Iterator[SettingApart]:
    def named(what: str) -> str:
        return f"{what} of {first.subject}"

    yield SettingApart(named("model"), first.model or "given answers", second.model or "given answers")
    yield SettingApart(named("provider"), first.provider or "", second.provider or "")
    yield SettingApart(named("system prompt"), first.system or "", second.system or "")
    for name in sorted({*first.parameters, *second.parameters}):
        one, other = (" / ".join(sent.parameters.get(name, ("not sent",))) for sent in (first, second))
        yield SettingApart(named(name), one, other)
    yield SettingApart(named("name reported by the vendor"), ", ".join(first.reported), ", ".join(second.reported))
