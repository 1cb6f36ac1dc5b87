"""Writes a run's scores and report into its folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from importlib import resources
from typing import Any

import jinja2

from hab_ray.analysis.files import write_tables
from hab_ray.analysis.summary import Summary
from hab_ray.location import Location
from hab_ray.report.page import analyses, page
from hab_ray.report.visible import finalize, p_value, percent, score, signed, thousands, words
from hab_ray.rows import IssueShift, Score, ScoreMap, Shift
from hab_ray.storage.run import ISSUE_SHIFTS, REPORT, SCORE_MAPS, SCORES, SHIFTS, RunFolder

_TEMPLATE = "page.html.j2"


def write_scores(summary: Summary) -> None:
    """Replace the run's scores.parquet, its analyses' tables and any comparison with earlier studies' judges."""
    run, bridge = RunFolder(summary.run.location), summary.bridge
    run.write(Score, SCORES, list(summary.scores))
    write_tables(summary, analyses())
    if bridge.shifts:
        run.write(Shift, SHIFTS, list(bridge.shifts))
        run.write(IssueShift, ISSUE_SHIFTS, list(bridge.issues))
        run.write(ScoreMap, SCORE_MAPS, list(bridge.maps))


def write_report(summary: Summary, *, notice: str | None = None) -> Location:
    """Replace the run's report, a self-contained HTML file headed by `notice`; return its location."""
    shown = analyses()
    templates = {f"analysis/{each.name}.html.j2": each.template for each in shown}
    html = _environment(templates).get_template(_TEMPLATE).render(page=page(summary, shown, notice))
    RunFolder(summary.run.location).folder.put(REPORT, html.encode())
    return summary.run.location / REPORT


def _environment(templates: Mapping[str, str]) -> jinja2.Environment:
    """Create an environment that makes every value visible and escapes it, without the templates asking for it."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.DictLoader(templates), jinja2.FunctionLoader(_packaged)]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        matrix=_matrix, p=p_value, percent=percent, score=score, signed=signed, thousands=thousands, words=words
    )
    return environment


def _packaged(name: str) -> str:
    return resources.files("hab_ray.report").joinpath(name).read_text(encoding="utf-8")


def _matrix(cells: Iterable[Any], dimensions: Collection[str]) -> dict[str, list[Any]]:
    """Arrange cells by subject, one per dimension or None, as in the leaderboard."""
    at = {(cell.subject, cell.dimension): cell for cell in cells}
    return {subject: [at.get((subject, dimension)) for dimension in dimensions] for subject, _ in at}
