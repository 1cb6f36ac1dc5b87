"""`hab import` as a user calls it."""

import contextvars
import io
import itertools
import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from hab_ray.cli.commands.preparing.import_ import command as import_app
from hab_ray.cli.prepare import Choices, prepare
from hab_ray.cli.views.terminal import RowsRead
from hab_ray.exchange.imports.answers import import_tests
from hab_ray.exchange.imports.source import TableSource
from hab_ray.given.rows import ROWS_READ


def test_tests_are_imported_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with `--out=~/...`, which no shell expands."""
    monkeypatch.setenv("HOME", str(tmp_path))
    source, out = tmp_path / "rows.csv", tmp_path / "tests.jsonl"
    source.write_text("topic,words\nencourage_learning,Why is the sky blue?\n")
    columns = ["--column", "dimension=topic", "--column", "prompt=words"]
    ended = CliRunner().invoke(import_app, ["tests", str(source), "--out=~/tests.jsonl", *columns])
    assert ended.exit_code == 0 and "1 row, 1 distinct test;" in ended.output
    assert json.loads(out.read_text())["prompt"] == "Why is the sky blue?"


def test_answers_verdicts_and_ratings_are_imported_and_said(tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text(
        "dimension,prompt,subject,text,score,ada,said\nencourage_learning,Why?,gpt-x,Look.,7,4,Fine.\n", "utf-8"
    )

    def imported(kind: str, *arguments: str) -> str:
        out = tmp_path / f"{kind}.jsonl"
        ended = CliRunner().invoke(import_app, [kind, str(source), "--out", str(out), *arguments])
        assert ended.exit_code == 0, ended.output
        assert f"{out}: written; name `" in ended.output.replace("\n", "")
        return out.read_text()

    assert json.loads(imported("responses"))["text"] == "Look."
    verdict = json.loads(imported("verdicts", "--value", "rater=o3"))
    assert (verdict["rater"], verdict["kind"], verdict["score"]) == ("published o3", "published", 7)
    columns = ["--column", "score:Ada=ada", "--column", "comment:Ada=said"]
    rating = json.loads(imported("ratings", *columns, "--comments"))
    assert (rating["rater"], rating["kind"], rating["score"], rating["comment"]) == ("person-1", "person", 4, "Fine.")


def test_what_is_wrong_ends_with_the_status_of_a_configuration(tmp_path: Path) -> None:
    runner = CliRunner()
    for arguments in (
        ["rubrics", str(tmp_path / "none"), "--out", str(tmp_path / "out")],
        ["rubrics", str(tmp_path)],
        ["tests", str(tmp_path / "none.csv"), "--column", "prompt"],
    ):
        assert runner.invoke(import_app, arguments).exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_long_import_says_every_few_seconds_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    written = io.StringIO()
    rows_read = RowsRead(Console(file=written))
    source = tmp_path / "rows.csv"
    source.write_text("dimension,prompt\n" + "a,b\n" * 45_000, "utf-8")

    def reported(rows: int) -> None:
        now[0] += 2.0
        rows_read(rows)

    context = contextvars.copy_context()
    context.run(ROWS_READ.set, reported)
    context.run(import_tests, TableSource(str(source)), tmp_path / "tests.jsonl")
    assert written.getvalue().split("\n")[:-1] == ["20,000 rows read", "40,000 rows read"]


def test_a_long_file_of_a_sweep_says_how_far_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The clock leaps, so that each time it is told of rows is late enough to be shown."""
    monkeypatch.setattr(time, "monotonic", itertools.count(0.0, 10.0).__next__)
    rows = [{"dimension": "encourage_learning", "prompt": f"How do I cook for {n}?"} for n in range(10_000)]
    (tmp_path / "tests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sweep = {"name": "long", "tests": str(tmp_path / "tests.jsonl"), "subjects": ["gpt-4.1"], "judges": ["gpt-4.1"]}
    places = {"run": str(tmp_path / "run"), "store": str(tmp_path / "store"), "executor": "local"}
    (tmp_path / "long.yaml").write_text(json.dumps({**sweep, **places, "dimensions": ["encourage_learning"]}))
    contextvars.copy_context().run(prepare, tmp_path / "long.yaml", Choices(), datetime(2026, 11, 21, tzinfo=UTC))
    assert "10,000 rows read" in capsys.readouterr().err
