"""`hab import` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from hab_ray.cli.importing import import_app


def test_tests_are_imported_and_said(tmp_path: Path) -> None:
    source, out = tmp_path / "rows.csv", tmp_path / "tests.jsonl"
    source.write_text("topic,words\nencourage_learning,Why is the sky blue?\n")
    columns = ["--column", "dimension=topic", "--column", "prompt=words"]
    ended = CliRunner().invoke(import_app, ["tests", str(source), "--out", str(out), *columns])
    assert ended.exit_code == 0 and "1 rows, 1 distinct tests" in ended.output
    assert json.loads(out.read_text())["prompt"] == "Why is the sky blue?"


def test_what_is_wrong_ends_with_the_status_of_a_configuration(tmp_path: Path) -> None:
    runner = CliRunner()
    for arguments in (
        ["rubrics", str(tmp_path / "none"), "--out", str(tmp_path / "out")],
        ["rubrics", str(tmp_path), "--means", "x"],
        ["tests", str(tmp_path / "none.csv"), "--column", "prompt"],
        ["tests", "published", "--out", str(tmp_path / "t.parquet")],
    ):
        assert runner.invoke(import_app, arguments).exit_code == 2
    assert list(tmp_path.iterdir()) == []
