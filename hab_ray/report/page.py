"""Everything the report's page shows, ready for the template: each analysis' table in a section of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hab_ray.analysis import tables
from hab_ray.analysis.marks import OVERALL, PANEL, ScoreSettings
from hab_ray.analysis.registry import Analysis, discover
from hab_ray.analysis.sources import Source, sources_of
from hab_ray.analysis.standing import Standing, standing_of
from hab_ray.analysis.summary import Summary
from hab_ray.config import spending_limit
from hab_ray.storage.answer_sample import sample_told

_DESCRIBE = frozenset({"settings", "fidelity", "readings"})


@dataclass(frozen=True)
class Section:
    """What one analysis has to show; `template` is the name of the template that shows it."""

    name: str
    link: str
    heading: str
    table: object
    template: str


@dataclass(frozen=True)
class Page:
    """The report. `titles` are the columns' titles by dimension, the overall one first.

    `asked` counts the answers that the sweep asks for, `scored` those in the panel's means. `standing` says whether an
    analysis was declared beforehand, `drawn` which of the given answers are read, `assumption` when the budget holds,
    where it is not hard. `sources` are where texts of the run come from that are not its own.
    """

    name: str
    notice: str | None
    standing: Standing
    drawn: str | None
    assumption: str | None
    sources: tuple[Source, ...]
    settings: ScoreSettings
    titles: Mapping[str, str]
    scored: int
    asked: int
    sections: tuple[Section, ...]

    @property
    def exploratory(self) -> frozenset[str]:
        """The sections that show what no declared analysis names: all but those that describe the run."""
        shown = (section.name for section in self.sections if section.name not in _DESCRIBE)
        return frozenset(shown if self.standing.declared else ())


def analyses() -> list[Analysis[object]]:
    """The analyses that the report shows."""
    return discover(tables)


def page(summary: Summary, shown: Sequence[Analysis[object]], notice: str | None) -> Page:
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
        sections=tuple(section for each in shown if (section := _section(each, summary)).table),
    )


def _section(analysis: Analysis[object], summary: Summary) -> Section:
    return Section(analysis.name, analysis.link, analysis.heading, analysis(summary), template_name(analysis))


def template_name(analysis: Analysis[object]) -> str:
    """What the page calls an analysis' template."""
    return f"analysis/{analysis.name}.html.j2"
