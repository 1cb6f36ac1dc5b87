"""The models of a run with their settings and reported names, and the versions and hashes behind the results."""

from collections.abc import Mapping
from dataclasses import dataclass

from hab_ray.analysis.preregistration import PreregistrationStatus, preregistration_status
from hab_ray.analysis.registry import section
from hab_ray.analysis.summary import Summary
from hab_ray.calls import Params
from hab_ray.catalog.models import accepted
from hab_ray.catalog.settings import Unheeded, unheeded
from hab_ray.config.sections import Judge, Subject, VariedSubject
from hab_ray.results import Sent
from hab_ray.rubric import imported_note
from hab_ray.stages.added import NO_STAGES
from hab_ray.stages.method.judge import JUDGE_SETTINGS
from hab_ray.stages.method.respond import PAPER_SETTINGS
from hab_ray.storage.record import Record


@dataclass(frozen=True)
class ModelLine:
    """One subject or judge. `reported` holds the model names that the vendor reported, with counts; none for a judge.

    `unheeded` holds the requested settings that the vendor refuses or ignores. Model, provider and system are None for
    a subject with given answers.
    """

    name: str
    model: str | None
    provider: str | None
    settings: tuple[str, ...]
    unheeded: tuple[Unheeded, ...]
    system: str | None
    reported: Mapping[str, int]


@dataclass(frozen=True)
class SettingsTable:
    """The models of a run, its hashes, versions and dates by label, and its preregistration."""

    subjects: tuple[ModelLine, ...]
    judges: tuple[ModelLine, ...]
    record: Mapping[str, str]
    preregistration: PreregistrationStatus


@section(order=90, heading="Settings")
def settings(summary: Summary) -> SettingsTable:
    """Return the settings as sent."""
    record = summary.run.record
    asked = {subject.name: subject for subject in record.sweep.subjects}
    literal = {name: rubric.literal for name, rubric in summary.rubrics.items() if rubric.literal}
    notes = {f"wording of {name}": imported_note(wording) for name, wording in literal.items()}
    return SettingsTable(
        subjects=(
            *(_subject(record, sent, asked.get(sent.subject)) for sent in summary.sent),
            *(_varied(record, subject) for subject in record.sweep.varied_subjects),
        ),
        judges=tuple(_judge(record, judge) for judge in (*record.sweep.judges, *record.sweep.varied_judges)),
        record=_labelled(record) | notes,
        preregistration=preregistration_status(record),
    )


def _subject(record: Record, sent: Sent, asked: Subject | None) -> ModelLine:
    shown = tuple(f"{name} {' / '.join(values)}" for name, values in sent.parameters.items())
    without_effect = _unheeded(record, asked)
    return ModelLine(sent.subject, sent.model, sent.provider, shown, without_effect, sent.system, sent.reported)


def _unheeded(record: Record, asked: Subject | None) -> tuple[Unheeded, ...]:
    return unheeded(record.entry(asked.model), asked.params.over(PAPER_SETTINGS)) if asked else ()


def _varied(record: Record, subject: VariedSubject) -> ModelLine:
    provider = record.entry(subject.model).provider
    return ModelLine(subject.name, subject.model, provider, (), _unheeded(record, subject), subject.system, {})


def _judge(record: Record, judge: Judge) -> ModelLine:
    entry, wanted = record.entry(judge.model), judge.params.over(JUDGE_SETTINGS)
    named = zip(Params.__dataclass_fields__, accepted(entry, wanted).canonical(), strict=True)
    shown = tuple(f"{name} {value}" for name, value in named if value is not None)
    return ModelLine(judge.name, judge.model, entry.provider, shown, unheeded(entry, wanted), "", {})


def _labelled(record: Record) -> dict[str, str]:
    used = record.sweep.model_names()
    shown = {f"{name} as of": as_of for name in used if (as_of := record.as_of.get(name))}
    shown |= {f"sha256 of {name}": digest for name, digest in record.hashes_in_use.items()}
    shown |= {"started": record.started.isoformat(timespec="seconds")}
    shown |= {"prices of": record.priced_on.isoformat()} if record.priced_on else {}
    versions = (entry for entry in record.versions.items() if entry not in NO_STAGES.items())
    return shown | {f"version of {name}": version for name, version in versions}
