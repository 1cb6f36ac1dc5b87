"""Writes a run's scores and report into its folder."""

from collections.abc import Collection, Iterable
from functools import cache
from importlib import resources
from typing import Any

import jinja2

from hab_ray.analysis import tables
from hab_ray.analysis.files import write_tables
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.preregistration import preregistration_status
from hab_ray.analysis.registry import discover
from hab_ray.analysis.sources import sources_of
from hab_ray.analysis.summary import Summary
from hab_ray.config.sweep import spending_limit
from hab_ray.given.sample import describe_sample
from hab_ray.location import Location
from hab_ray.report.visible import dollars, finalize, p_value, percent, score, signed, thousands, words
from hab_ray.rows import IssueShift, Score, ScoreMap, Shift
from hab_ray.storage.run import ISSUE_SHIFTS, REPORT, SCORE_MAPS, SCORES, SHIFTS, RunFolder
from hab_ray.storage.simulated import simulated_notice

_TEMPLATE = "page.html.j2"


def write_scores(summary: Summary) -> None:
    """Replace the run's scores.parquet, its analyses' tables and its comparison with earlier studies' judges."""
    run, bridge = RunFolder(summary.run.location), summary.bridge
    run.write(Score, SCORES, list(summary.scores))
    write_tables(summary, discover(tables))
    if bridge.shifts:
        run.write(Shift, SHIFTS, list(bridge.shifts))
        run.write(IssueShift, ISSUE_SHIFTS, list(bridge.issues))
        run.write(ScoreMap, SCORE_MAPS, list(bridge.maps))
    else:
        for file in (SHIFTS, ISSUE_SHIFTS, SCORE_MAPS):
            run.folder.delete(file)


def write_report(summary: Summary, *, notice: str | None = None) -> Location:
    """Replace the run's report, a self-contained HTML file headed by `notice`; return its location.

    Sections with an empty table are omitted.
    """
    run, settings, sections = summary.run, summary.settings, discover(tables)
    overall = [s for s in summary.scores if s.judge == PANEL and s.dimension == OVERALL]
    limit = spending_limit(run.record.sweep)
    html = (
        _environment(tuple((f"analysis/{each.name}.html.j2", each.template) for each in sections))
        .get_template(_TEMPLATE)
        .render(
            run=run.location.name or run.name,
            sweep=run.name,
            notice=notice,
            is_simulated=simulated_notice(run.location) is not None,
            preregistration=preregistration_status(run.record),
            drawn=describe_sample(run.record.sweep.responses, run.record.drawn),
            assumption=limit.assumption if limit else None,
            sources=tuple(sources_of(run)),
            settings=settings,
            titles={OVERALL: "Overall", **{dimension: rubric.title for dimension, rubric in summary.rubrics.items()}},
            scored=sum(score.n for score in overall),
            asked=len(settings.subjects) * settings.samples * sum(map(len, settings.tests.values())),
            sections=[(each, table) for each in sections if (table := each.shown(summary))],
        )
    )
    RunFolder(run.location).folder.put(REPORT, html.encode())
    return run.location / REPORT


@cache
def _environment(templates: tuple[tuple[str, str], ...]) -> jinja2.Environment:
    """Create an environment that makes every value visible and escapes it, without the templates asking for it.

    `templates` are names and texts. Compiling them takes longer than rendering the report of a small run.
    """
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.DictLoader(dict(templates)), jinja2.FunctionLoader(_packaged)]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {each.__name__: each for each in (dollars, matrix, percent, score, signed, thousands, words)}
    environment.filters["p"] = p_value
    return environment


def _packaged(name: str) -> str:
    return resources.files("hab_ray.report").joinpath(name).read_text(encoding="utf-8")


def matrix(cells: Iterable[Any], dimensions: Collection[str]) -> dict[str, list[Any]]:
    """Arrange cells by subject, one per dimension or None, as in the leaderboard."""
    at = {(cell.subject, cell.dimension): cell for cell in cells}
    return {subject: [at.get((subject, dimension)) for dimension in dimensions] for subject, _ in at}
