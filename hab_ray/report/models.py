"""Who was asked, under which settings, and what they said they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hab_ray.analysis.settings import Asked
from hab_ray.calls import Params
from hab_ray.catalog import accepted
from hab_ray.config import Judge
from hab_ray.stages.judge import JUDGE_SETTINGS
from hab_ray.work import Work


@dataclass(frozen=True)
class ModelLine:
    """One subject or judge. `reported` are the names it answered under, with counts; none for a judge."""

    name: str
    model: str
    provider: str
    settings: tuple[str, ...]
    system: str
    reported: Mapping[str, int]


def subject_lines(work: Work, asked: Iterable[Asked]) -> tuple[ModelLine, ...]:
    """The subjects, with the settings that were sent."""
    known = {subject.subject: subject for subject in asked}
    lines = []
    for subject in work.sweep.subjects:
        found = known.get(subject.name, Asked(subject.name, {}, {}))
        settings = tuple(f"{name} {' / '.join(values)}" for name, values in found.parameters.items())
        provider = work.models[subject.model].entry.provider
        lines.append(ModelLine(subject.name, subject.model, provider, settings, subject.system, found.reported))
    return tuple(lines)


def judge_lines(work: Work) -> tuple[ModelLine, ...]:
    """The judges, with the settings they are sent."""
    return tuple(
        ModelLine(
            judge.name, judge.model, work.models[judge.model].entry.provider, _judge_settings(work, judge), "", {}
        )
        for judge in work.sweep.judges
    )


def _judge_settings(work: Work, judge: Judge) -> tuple[str, ...]:
    sent = accepted(work.models[judge.model].entry, judge.params.over(JUDGE_SETTINGS))
    named = zip(Params.__dataclass_fields__, sent.canonical(), strict=True)
    return tuple(f"{name} {value}" for name, value in named if value is not None)
