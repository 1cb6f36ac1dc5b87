"""A run's scores and report, written into its folder."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

import jinja2

from hab_ray.location import Location
from hab_ray.report.gather import Gathered
from hab_ray.report.page import page
from hab_ray.report.visible import finalize
from hab_ray.rows import Score
from hab_ray.storage.run import REPORT, SCORES
from hab_ray.work import Work

_TEMPLATE = "page.html.j2"


def write_scores(work: Work, gathered: Gathered) -> None:
    """Replace the run's scores.parquet."""
    work.run.write(Score, SCORES, list(gathered.summary.scores))


def write_report(work: Work, gathered: Gathered, *, record: Mapping[str, str], notice: str | None = None) -> Location:
    """Replace the run's report by one self-contained HTML file; where it is.

    `record` is shown as it is under the settings (hashes, versions, dates); `notice` stands above everything.
    """
    shown = page(work, gathered, record, notice)
    html = _environment().get_template(_TEMPLATE).render(page=shown)
    work.run.folder.put(REPORT, html.encode())
    return work.run_path / REPORT


def _environment() -> jinja2.Environment:
    """Every value is made visible and then escaped, without a template having to ask for it."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_packaged),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["score"] = _score
    return environment


def _packaged(name: str) -> str:
    return resources.files("hab_ray.report").joinpath(name).read_text(encoding="utf-8")


def _score(mean: float | None) -> str:
    return "-" if mean is None else f"{mean:.2f}"
