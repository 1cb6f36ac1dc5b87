"""Sweeps whose answers are given: judges alone are asked, and everything else is as ever."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hab_ray.results import open_run
from tests.conftest import Desk, Vendor

DIMENSION = "encourage_learning"
NONE: dict[str, Any] = {"tests": None, "generate": None, "validate": None, "select": None}


def answers(desk: Desk, *rows: tuple[str, str, str]) -> Path:
    path = desk.folder / "answers.jsonl"
    lines = [{"dimension": DIMENSION, "prompt": p, "subject": s, "text": t} for p, s, t in rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_given_answers_are_judged_beside_those_of_a_subject_that_is_asked(
    desk: Desk, vendor: Callable[..., Vendor]
) -> None:
    sim = vendor()
    given = answers(
        desk, ("How?", "old", "Think."), ("Why?", "old", "[RATE LIMIT ERROR]"), ("How?", "older", "Ask somebody.")
    )
    settings = {"dimensions": [DIMENSION], "subjects": ["sim/alpha"], "judges": ["sim/judge"], "executor": "local"}
    sweep = desk.sweep("bridge", sim.url, **{**NONE, **settings, "responses": str(given)})
    plan = desk.hab("plan", sweep)
    assert plan.returncode == 0 and "6 calls to pay" in plan.stdout, plan.stdout
    done = desk.hab("run", sweep, "--yes")
    assert done.returncode == 0, done.stdout
    assert (sim.received("alpha"), sim.received("judge")) == (2, 4)
    run = open_run(desk.folder / "runs/bridge")
    assert run.subjects == ("sim/alpha", "old", "older") and run.tests().num_rows == 2
    judged = {(v["subject"], v["test_id"]) for v in run.verdicts().to_pylist()}
    assert len(judged) == 4 and {s for s, _ in judged} == {"sim/alpha", "old", "older"}
    (failed,) = [r for r in run.responses("old").to_pylist() if r["state"] != "ok"]
    assert failed["state"] == "failed" and failed["reason"].startswith("[RATE LIMIT ERROR")
    scores = pq.read_table(desk.folder / "runs/bridge/scores.parquet").to_pylist()
    assert {row["subject"] for row in scores} == {"sim/alpha", "old", "older"}
    page = (desk.folder / "runs/bridge/report/index.html").read_text()
    assert "answers were given" in page
    again = desk.hab("run", sweep, "--yes")
    assert again.returncode == 0 and "0 calls sent" in again.stdout
    assert desk.hab("export", "runs/bridge", "--format", "hf", "--out", "out").returncode == 0


def test_an_exported_run_can_be_judged_again(desk: Desk, vendor: Callable[..., Vendor]) -> None:
    sim = vendor()
    given = answers(desk, ("How?", "old", "Think."), ("Why?", "old", "Look."))
    settings = {"dimensions": [DIMENSION], "subjects": None, "judges": ["sim/judge"], "executor": "local"}
    first = desk.sweep("first", sim.url, **{**NONE, **settings, "responses": str(given)})
    assert desk.hab("run", first, "--yes").returncode == 0
    assert desk.hab("export", "runs/first", "--format", "hf", "--out", "out").returncode == 0
    sent = sim.received("judge")
    data = str(desk.folder / "out/evaluations.parquet")
    second = desk.sweep("second", sim.url, **{**NONE, **settings, "responses": data})
    done = desk.hab("run", second, "--yes")
    assert done.returncode == 0, done.stdout
    scores = [pq.read_table(desk.folder / f"runs/{name}/scores.parquet").to_pylist() for name in ("first", "second")]
    assert scores[0] == scores[1] and sim.received("judge") == sent


def test_a_file_that_has_changed_and_a_name_that_is_asked_are_refused(
    desk: Desk, vendor: Callable[..., Vendor]
) -> None:
    sim = vendor()
    given = answers(desk, ("How?", "old", "Think."))
    settings = {"dimensions": [DIMENSION], "judges": ["sim/judge"], "executor": "local", "responses": str(given)}
    sweep = desk.sweep("changed", sim.url, **{**NONE, **settings, "subjects": None})
    assert desk.hab("run", sweep, "--yes").returncode == 0
    answers(desk, ("How?", "old", "Think twice."))
    changed = desk.hab("run", sweep, "--yes")
    assert changed.returncode == 2 and "responses: its text has changed" in changed.stdout
    both = desk.sweep("both", sim.url, **{**NONE, **settings, "subjects": [{"model": "sim/alpha", "name": "old"}]})
    refused = desk.hab("plan", both)
    assert refused.returncode == 2 and "which `subjects:` asks" in refused.stdout
    nobody = desk.sweep("nobody", sim.url, **{**NONE, **settings, "responses": None, "subjects": None})
    missing = desk.hab("plan", nobody)
    assert missing.returncode == 2 and "subjects: is missing" in missing.stdout
    rehearsed = desk.hab("rehearse", sweep)
    assert rehearsed.returncode == 2 and "a rehearsal plants issues" in rehearsed.stdout
