"""Everything the report's page shows, ready for the template: each analysis' table in a section of its own."""

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
from hab_ray.given.sample import sample_told


@dataclass(frozen=True)
class Page:
    """The report. `titles` are the columns' titles by dimension, the overall one first.

    `asked` counts the answers that the sweep asks for, `scored` those in the panel's means. `standing` says whether an
    analysis was declared beforehand, `drawn` which of the given answers are read, `assumption` when the budget holds,
    where it is not hard. `sources` are where texts of the run come from that are not its own, `sections` have what each
    analysis shows.
    """

    name: str
    notice: str | None
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
    """The analyses and other sections that the report shows."""
    return discover(tables)


def page(summary: Summary, shown: Sequence[Section[Any]], notice: str | None) -> Page:
    """The page of a run; an analysis with an empty table has no section."""
    settings, record = summary.settings, summary.run.record
    overall = [s for s in summary.scores if s.judge == PANEL and s.dimension == OVERALL]
    return Page(
        name=summary.run.name,
        notice=notice,
        standing=standing_of(record),
        drawn=sample_told(record.sweep.responses, record.drawn),
        assumption=limit.assumption if (limit := spending_limit(record.sweep)) else None,
        sources=tuple(sources_of(summary.run)),
        settings=settings,
        titles={OVERALL: "Overall", **{dimension: rubric.title for dimension, rubric in summary.rubrics.items()}},
        scored=sum(score.n for score in overall),
        asked=len(settings.subjects) * settings.samples * sum(map(len, settings.tests.values())),
        sections=tuple((each, table) for each in shown if (table := each.shown(summary))),
    )
