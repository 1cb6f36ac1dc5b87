"""Answers that each judge reads once more: when they are asked for, what they cost, and what they show."""

import json
from collections import Counter
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from hab_ray.progress import PROGRESS
from hab_ray.results import open_run, rejudged
from tests.conftest import Desk, Vendor, Vendors

DIMENSIONS = ["defer_important_decisions", "encourage_learning"]
ASKED: dict[str, Any] = {"dimensions": DIMENSIONS, "mode": "online"}
ISSUES = [{"letter": letter, "deduction": 4, "probability": 0.1} for letter in "AB"]
WEEK = timedelta(days=7)


def prompt(dimension: str, number: int) -> str:
    return f"{dimension}, number {number}?"


PLANTED = {
    "dimensions": {name: {"issues": ISSUES} for name in DIMENSIONS},
    "prompts": {sha256(prompt(name, n).encode()).hexdigest(): name for name in DIMENSIONS for n in range(40)},
}


def given(desk: Desk, count: int) -> str:
    rows = ({"dimension": name, "prompt": prompt(name, n)} for name in DIMENSIONS for n in range(count))
    return str(desk.lines("tests.jsonl", rows))


def aged(run: Path, by: timedelta, **end: Any) -> None:
    """Have a run be as one whose last process, and all that it got, was so much earlier.

    The store keeps when its verdicts came, in whole seconds: they must not be of the second in which the next process
    begins.
    """
    sleep(1)

    def before(moment: str) -> str:
        return (datetime.fromisoformat(moment) - by).isoformat()

    progress = json.loads((run / PROGRESS).read_text())
    (run / PROGRESS).write_text(json.dumps(progress | {"at": before(progress["at"])} | end))
    record = yaml.safe_load((run / "sweep.yaml").read_text())
    (run / "sweep.yaml").write_text(yaml.safe_dump(record | {"started": before(record["started"])}))
    for file in run.glob("verdicts/**/*.parquet"):
        table = pq.read_table(file)
        times = table.column("at").to_pylist()
        at = table.schema.get_field_index("at")
        pq.write_table(table.set_column(at, table.schema.field("at"), [list(map(before, times))]), file)


def asked_of(sim: Vendor) -> Counter[str]:
    return Counter(call["model"] for call in sim.calls())


def test_each_judge_reads_as_many_answers_again_as_sentinels_are_asked_for(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(planted=PLANTED)
    tests = given(desk, 12)
    sweep = desk.sweep("s", sim.url, **ASKED, tests=tests, sentinels=16, judges=["sim/judge", "sim/second"])
    planned = json.loads(desk.hab("plan", sweep, "--json").stdout)
    lines = [line for line in planned["lines"] if line["stage"] == "rejudge"]
    assert sum(line["figures"]["calls"] for line in lines) == 2 * 16
    desk.says("run", sweep)
    assert asked_of(sim)["judge"] == asked_of(sim)["second"] == 2 * 2 * 12 + 16
    run = open_run(desk.folder / "runs/s")
    rows = rejudged(run).to_pylist()
    first = {(v["judge"], v["subject"], v["test_id"]): v for v in run.verdicts().to_pylist()}
    assert len(rows) == len({(row["judge"], row["subject"], row["test_id"]) for row in rows}) == 2 * 16
    assert len({row["test_id"] for row in rows if row["judge"] == "sim/judge"}) == 16  # subjects take turns
    for row in rows:
        verdict = first[row["judge"], row["subject"], row["test_id"]]
        assert (row["before"], row["before_at"]) == (verdict["score"], verdict["at"])
        assert row["score"] == row["before"] and row["at"] >= row["before_at"]
    table = run.analysis("drift").to_pylist()
    assert [(row["judge"], row["answers"], row["shift"], row["changed"]) for row in table] == [
        ("sim/judge", 16, 0.0, 0.0),
        ("sim/second", 16, 0.0, 0.0),
    ]
    again = desk.hab("run", sweep)
    assert again.returncode == 0 and asked_of(sim)["judge"] == 2 * 2 * 12 + 16


def test_sentinels_can_be_added_to_a_complete_run_whose_answers_are_given(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(planted=PLANTED)
    rows = [
        {"dimension": name, "test_id": f"{n}", "prompt": prompt(name, n), "subject": who, "text": f"Answer {n}, {who}."}
        for name in DIMENSIONS  # whose tests have the same ids
        for n in range(4)
        for who in ("one", "two", "three")
    ]
    desk.lines("answers.jsonl", rows)
    asked = {**ASKED, "responses": "answers.jsonl", "subjects": []}
    desk.says("run", desk.sweep("s", sim.url, **asked))
    run = open_run(desk.folder / "runs/s")
    assert run.analysis("drift").num_rows == 0 and asked_of(sim)["judge"] == len(rows)
    aged(desk.folder / "runs/s", 2 * WEEK)
    desk.says("run", desk.sweep("s", sim.url, **asked, sentinels=7))
    assert asked_of(sim)["judge"] == len(rows) + 12  # two of each subject in each dimension
    assert [(row["answers"], row["calls"]) for row in run.analysis("drift").to_pylist()] == [(12, 8)]


def test_a_plan_says_what_the_answers_that_are_read_show_if_their_number_is_rounded_up(desk: Desk) -> None:
    sweep = desk.sweep("s", "http://localhost:9", **ASKED, tests=given(desk, 3), sentinels=5)
    lines = json.loads(desk.hab("plan", sweep, "--json").stdout)["lines"]
    assert sum(line["figures"]["calls"] for line in lines if line["stage"] == "rejudge") == 8
    assert "8 sentinels show a shift of 0.206" in desk.hab("plan", sweep, "--long").stdout


def test_a_plan_counts_no_more_sentinels_than_answers_and_says_what_all_dimensions_show(desk: Desk) -> None:
    sweep = desk.sweep("s", "http://localhost:9", **ASKED, tests=given(desk, 3), sentinels=441)
    told = desk.hab("plan", sweep, "--long").stdout
    assert "12 sentinels show a shift of 0.168" in told, told
    assert told.count("waits") <= 1 and "with all calls online" not in told, (
        "a sweep without batches has one such budget"
    )
    assert "overall: 6 tests show a difference of 0.56" in told and "assuming an SD of 0.35" in told


def test_a_complete_run_asks_nothing_again_after_a_rest(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(planted=PLANTED)
    sweep = desk.sweep("s", sim.url, **ASKED, tests=given(desk, 3), sentinels=4)
    desk.says("run", sweep)
    asked = sim.meter()["received"]
    aged(desk.folder / "runs/s", 2 * WEEK, end={"status": 0, "meaning": "said otherwise by another version"})
    desk.says("run", sweep)
    assert sim.meter()["received"] == asked
    aged(desk.folder / "runs/s", 2 * WEEK, end={"status": 130, "meaning": "interrupted"})
    desk.says("run", sweep)
    assert sim.meter()["received"] == asked


@pytest.mark.parametrize(
    ("rest", "tests", "repeats"), [(WEEK / 2, 20, {1: 40}), (2 * WEEK, 12, {1: 40, 2: 40})], ids=["days", "weeks"]
)
def test_a_run_that_grows_after_a_week_has_its_judges_asked_again_and_a_change_is_told(
    desk: Desk, vendor: Vendors, rest: timedelta, tests: int, repeats: dict[int, int]
) -> None:
    sim, other = vendor(planted=PLANTED), vendor(planted=PLANTED | {"judge_error": 0.9})
    sweep = desk.sweep("s", sim.url, **ASKED, tests=given(desk, tests), sentinels=40)
    desk.says("run", sweep)
    aged(desk.folder / "runs/s", rest)
    grown = desk.sweep("s", other.url, **ASKED, tests=given(desk, 21), sentinels=40)
    desk.says("run", grown)
    run = open_run(desk.folder / "runs/s")
    assert Counter(row["repeat"] for row in rejudged(run).to_pylist()) == repeats
    assert asked_of(other)["judge"] == 2 * 2 * (21 - tests) + (40 if 2 in repeats else 0)
    assert len(run.record.pauses) == len(repeats) - 1
    drift = run.analysis("drift").to_pylist()
    assert [row["repeat"] for row in drift] == sorted(repeats)
    assert drift[0]["shift"] == 0.0
    assert [row["high"] < 0 for row in drift] == [False, True][: len(repeats)]
    found = [row["kind"] for row in run.analysis("findings").to_pylist()]
    assert ("judge_shifted" in found) == (2 in repeats)


def test_a_run_that_was_stopped_goes_on_after_a_week_with_one_more_reading(desk: Desk, vendor: Vendors) -> None:
    sim = vendor(planted=PLANTED)
    sweep = desk.sweep("s", sim.url, **ASKED, tests=given(desk, 6), sentinels=8)
    desk.says("run", sweep)
    run = desk.folder / "runs/s"
    aged(run, 2 * WEEK, end=None)
    next(run.glob("verdicts/**/*.parquet")).unlink()
    asked = sim.meter()["received"]
    for _ in range(2):
        desk.says("run", sweep)
        assert sim.meter()["received"] == asked + 8
    first, later = open_run(run).analysis("drift").to_pylist()
    assert (first["repeat"], first["answers"], later["repeat"], later["answers"]) == (1, 8, 2, 8)
    assert later["hours"] == pytest.approx(14 * 24, abs=1)
