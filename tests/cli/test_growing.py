"""A finished run that gets more tests, and a dimension from a file beside those that were generated."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from hab_ray.results import open_run
from tests.conftest import Desk, Vendors

GENERATED, ADDED = "ask_clarifying_questions", "encourage_learning"


def rows_added(file: Path, *rows: tuple[str, str]) -> None:
    """Rows of dimension and prompt at the end of an exported table of tests."""
    columns = next(csv.reader(file.open(encoding="utf-8")))
    with file.open("a", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, columns)
        writer.writerows({"dimension": dimension, "prompt": prompt} for dimension, prompt in rows)


def test_a_finished_run_grows_by_a_file_that_keeps_its_tests(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()

    def sweep(*dimensions: str, **changes: Any) -> Path:
        return desk.sweep("grows", sim.url, dimensions=list(dimensions), validate="off", mode="online", **changes)

    desk.says("run", sweep(GENERATED))
    first = open_run(desk.folder / "runs/grows").tests().to_pylist()
    asked = sim.meter()["received"]

    refused = desk.says("run", sweep(GENERATED, select={"embedding": "sim/emb", "tests": 3}), status=2)
    assert "select.tests: 2 before, 3 now" in refused
    assert "hab export" in refused and "more/tests.csv" in refused
    desk.says("export", "runs/grows", "--format", "csv-raw", "--out", "more")
    rows_added(desk.folder / "more/tests.csv", (GENERATED, "Which way is best?"), (ADDED, "How do I prove it?"))
    desk.says("run", sweep(GENERATED, ADDED, tests="more/tests.csv"))
    run = open_run(desk.folder / "runs/grows")
    assert run.tests(dimension=GENERATED).to_pylist()[: len(first)] == first
    assert sim.meter()["received"] - asked == 2 * (2 + 2)  # two more tests, two subjects, one judge
    assert {row["n"] for row in run.scores().to_pylist() if row["dimension"] == GENERATED} == {3}
    other = desk.lines("fewer.jsonl", ({"dimension": name, "prompt": "Only this."} for name in (GENERATED, ADDED)))
    changed = "tests: its text has changed: 4 tests changed or missing, such as "
    assert changed in desk.says("run", sweep(GENERATED, ADDED, tests=other.name), status=2)
