"""The plan as `hab plan` shows it on narrow terminals."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from hab_ray.cli.views.plan_view import PlanOptions, print_plan
from tests.instant import MADE, Run, work_of

DOLLARS = re.compile(r"\$[0-9,.]+")


def shown(tmp_path: Path, width: int, by_dimension: bool) -> str:
    subjects = [{"model": "house/a", "name": "a-model-whose-name-takes-up-half-of-a-narrow-terminal"}, "house/deep"]
    run = Run(work_of(tmp_path, **MADE, subjects=subjects))
    console = Console(file=io.StringIO(), width=width, record=True)
    print_plan(run.work.sweep, run.plan(), [], PlanOptions(by_dimension=by_dimension), console)
    return console.export_text()


@pytest.mark.parametrize("by_dimension", [False, True])
def test_no_figure_is_cut_at_80_columns(by_dimension: bool, tmp_path: Path) -> None:
    wide, narrow = (shown(tmp_path, width, by_dimension) for width in (300, 80))
    tables = [text.partition("calls to pay")[0] for text in (wide, narrow)]
    assert "…" not in narrow and max(map(len, tables[1].splitlines()[:-1])) <= 80
    assert sorted(DOLLARS.findall(tables[0])) == sorted(DOLLARS.findall(tables[1])) != []
    assert tables[0].count("batch $") == tables[1].count("batch $") == 1
    assert tables[0].count("stage") == 1 and tables[1].count("stage") == 2


def test_the_store_is_named_once(tmp_path: Path) -> None:
    assert f"are in the store at {tmp_path / 'store'};" in shown(tmp_path, 300, False)
