"""The content of the report's page for its template, with one section per analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hab_ray.analysis import tables
from hab_ray.analysis.marks import OVERALL, PANEL, ScoreSettings
from hab_ray.analysis.registry import Section, discover
from hab_ray.analysis.sources import Source, sources_of
from hab_ray.analysis.standing import PreregistrationStatus, standing_of
from hab_ray.analysis.summary import Summary
from hab_ray.config.sweep import spending_limit
from hab_ray.given.sample import describe_sample
from hab_ray.storage.simulated import simulated_notice


@dataclass(frozen=True)
class Page:
    """The content of the report: `run` is the name of the run's folder, `sweep` its sweep's, `is_simulated` whether a
    simulator answered.

    `titles` are the columns' titles by dimension, the overall one first. `asked` counts the answers that the sweep asks
    for, `scored` those in the panel's means. `standing` says whether an analysis was preregistered, `drawn` which given
    answers were sampled, `assumption` under which condition a budget that is not hard holds. `sources` lists
    third-party texts, `sections` each analysis with its table.
    """

    run: str
    sweep: str
    notice: str | None
    is_simulated: bool
    standing: PreregistrationStatus
    drawn: str | None
    assumption: str | None
    sources: tuple[Source, ...]
    settings: ScoreSettings
    titles: Mapping[str, str]
    scored: int
    asked: int
    sections: tuple[tuple[Section[Any], object], ...]


def analyses() -> list[Section[Any]]:
    """Return the analyses and other sections of the report."""
    return discover(tables)


def page(summary: Summary, shown: Sequence[Section[Any]], notice: str | None) -> Page:
    """Return the page of a run; analyses with an empty table are omitted."""
    settings, record = summary.settings, summary.run.record
    overall = [s for s in summary.scores if s.judge == PANEL and s.dimension == OVERALL]
    return Page(
        run=summary.run.location.name or summary.run.name,
        sweep=summary.run.name,
        notice=notice,
        is_simulated=simulated_notice(summary.run.location) is not None,
        standing=standing_of(record),
        drawn=describe_sample(record.sweep.responses, record.drawn),
        assumption=limit.assumption if (limit := spending_limit(record.sweep)) else None,
        sources=tuple(sources_of(summary.run)),
        settings=settings,
        titles={OVERALL: "Overall", **{dimension: rubric.title for dimension, rubric in summary.rubrics.items()}},
        scored=sum(score.n for score in overall),
        asked=len(settings.subjects) * settings.samples * sum(map(len, settings.tests.values())),
        sections=tuple((each, table) for each in shown if (table := each.shown(summary))),
    )
