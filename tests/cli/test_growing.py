"""A finished run that gets more tests and dimensions from a file, and other runs on its exported tests."""

import json
import re
from pathlib import Path
from typing import Any

from hab_ray.results import open_run
from tests.conftest import Desk, Vendors

GENERATED, ADDED = "ask_clarifying_questions", "encourage_learning"


def lines_added(file: Path, *rows: tuple[str, str]) -> None:
    """Lines of dimension and prompt at the end of exported tests."""
    with file.open("a", encoding="utf-8") as opened:
        for dimension, prompt in rows:
            print(json.dumps({"dimension": dimension, "prompt": prompt}), file=opened)


def test_a_finished_run_grows_by_a_file_that_keeps_its_tests(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()

    def sweep(*dimensions: str, **changes: Any) -> Path:
        return desk.sweep("grows", sim.url, dimensions=list(dimensions), validate="off", mode="online", **changes)

    desk.says("run", sweep(GENERATED))
    first = open_run(desk.folder / "runs/grows").tests().to_pylist()
    asked = sim.meter()["received"]

    refused = desk.says("run", sweep(GENERATED, select={"embedding": "sim/emb", "tests": 3}), status=2)
    assert "select.tests: 2 before, 3 now" in refused
    assert "hab export" in refused and "more/tests.jsonl" in refused
    desk.says("export", "runs/grows", "--format", "json", "--out", "more")
    lines_added(desk.folder / "more/tests.jsonl", (GENERATED, "Which way is best?"), (ADDED, "How do I prove it?"))
    desk.says("run", sweep(GENERATED, ADDED, tests="more/tests.jsonl"))
    run = open_run(desk.folder / "runs/grows")
    assert run.tests(dimension=GENERATED).to_pylist()[: len(first)] == first
    assert sim.meter()["received"] - asked == 2 * (2 + 2)  # two more tests, two subjects, one judge
    assert {row["n"] for row in run.scores().to_pylist() if row["dimension"] == GENERATED} == {3}
    other = desk.lines("fewer.jsonl", ({"dimension": name, "prompt": "Only this."} for name in (GENERATED, ADDED)))
    changed = "tests: its text has changed: 4 tests changed or missing, such as "
    assert changed in desk.says("run", sweep(GENERATED, ADDED, tests=other.name), status=2)


def test_the_way_to_add_tests_that_a_refusal_names_gives_back_every_test(desk: Desk, vendor: Vendors) -> None:
    url = vendor().url
    rows = [{"dimension": ADDED, "prompt": "'-ed or -t?"}, {"dimension": ADDED, "prompt": "=1 or\r\n1? ", "system": ""}]

    def sweep(tests: str) -> Path:
        return desk.sweep("exact", url, tests=tests, dimensions=[ADDED], executor="local")

    desk.says("run", sweep(str(desk.lines("first.jsonl", rows))))
    told = re.search(r"`hab (export .*?)`, add lines to (\S+),", desk.says("run", sweep("seeds"), status=2))
    assert told is not None
    desk.says(*told[1].split())
    lines_added(desk.folder / told[2], (ADDED, "How do I prove it?"))
    desk.says("run", sweep(told[2]))
    tests = open_run(desk.folder / "runs/exact").tests().to_pylist()
    assert [test["prompt"] for test in tests] == [*(row["prompt"] for row in rows), "How do I prove it?"]
    assert tests[1]["system"] == "" != tests[2]["system"]


def test_tests_keep_their_generation_calls_in_a_file_that_names_none(desk: Desk, vendor: Vendors) -> None:
    url = vendor().url
    prompts = ["Why?", "How so?", "What then?", "And next?"]
    rows: list[dict[str, object]] = [{"dimension": ADDED, "prompt": prompt} for prompt in prompts]
    named = [{**row, "call": "one"} for row in rows[:3]]

    def grown(file: str, *lines: dict[str, object]) -> list[str | None]:
        given = str(desk.lines(f"{file}.jsonl", lines))
        desk.says("run", desk.sweep("named", url, tests=given, dimensions=[ADDED], executor="local"))
        calls: list[str | None] = open_run(desk.folder / "runs/named").tests().column("call").to_pylist()
        return calls

    assert grown("first", *named) == ["one"] * 3
    assert grown("more", *rows) == ["one", "one", "one", None]
    assert grown("other", *rows[:3], {**rows[3], "call": "two"}) == ["one", "one", "one", "two"]


def test_a_run_on_exported_tests_has_the_intervals_of_the_run_that_generated_them(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    made = {"generate": {"model": "sim/gen", "candidates": 12, "per_call": 3}, "validate": "off"}
    select = {"select": {"embedding": "sim/emb", "tests": 9}}
    desk.says("run", desk.sweep("first", sim.url, **made, **select, dimensions=[GENERATED], mode="online"))
    first = results(desk, "first")
    calls = {row["call"] for row in first["tests"]}
    assert 3 <= len(calls) <= 4 and None not in calls
    asked = sim.meter()["received"]
    desk.says("export", "runs/first", "--format", "hf", "--out", "hf")
    again = desk.sweep("hf", sim.url, tests="hf/tests.parquet", dimensions=[GENERATED], mode="online")
    assert f"{len(calls)} generation calls (of 9 tests)" in desk.says("plan", again, "--long")
    desk.says("run", again)
    assert results(desk, "hf") == first
    assert sim.meter()["received"] == asked  # the calls' keys do not depend on the column

    rows = [{name: cell for name, cell in row.items() if name != "call"} for row in first["tests"]]
    desk.says("run", desk.sweep("apart", sim.url, tests=str(desk.lines("apart.jsonl", rows)), dimensions=[GENERATED]))
    apart = results(desk, "apart")["scores"]
    assert {row["calls"] for row in apart} == {9} and {row["calls"] for row in first["scores"]} == {len(calls)}
    assert [row["mean"] for row in apart] == [row["mean"] for row in first["scores"]]


def results(desk: Desk, name: str) -> dict[str, list[dict[str, Any]]]:
    """The tests of a run, and what its intervals and p-values are in."""
    run = open_run(desk.folder / "runs" / name)
    tables = {name: run.analysis(name) for name in ("differences", "leaderboard")}
    return {name: table.to_pylist() for name, table in {"tests": run.tests(), "scores": run.scores(), **tables}.items()}
