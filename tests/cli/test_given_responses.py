"""Sweeps whose answers are given: judges alone are asked, and everything else is as ever."""

import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hab_ray.config.sweep import load_sweep
from hab_ray.inputs.files import bytes_of
from hab_ray.planning.make import make_plan
from hab_ray.resolve import resolve
from hab_ray.results import open_run
from hab_ray.work import drawn_tests
from tests.conftest import Desk, Vendors

DIMENSION = "encourage_learning"
GIVEN: dict[str, Any] = {"dimensions": [DIMENSION], "subjects": None, "executor": "local"}
ORDER = [(name, "ascending") for name in ("subject", "dimension", "judge")]


def answers(desk: Desk, *rows: tuple[str, str, str]) -> Path:
    given = ({"dimension": DIMENSION, "prompt": p, "subject": s, "text": t} for p, s, t in rows)
    return desk.lines("answers.jsonl", given)


def test_given_answers_are_judged_beside_those_of_a_subject_that_is_asked(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    given = answers(
        desk, ("How?", "old", "Think."), ("Why?", "old", "[RATE LIMIT ERROR]"), ("How?", "older", "Ask somebody.")
    )
    settings = {"dimensions": [DIMENSION], "subjects": ["sim/alpha"], "executor": "local"}
    sweep = desk.sweep("bridge", sim.url, **settings, responses=str(given))
    assert "6 calls to pay" in desk.says("plan", sweep)
    desk.says("run", sweep, "--yes")
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
    kinds = {row["kind"] for row in run.analysis("findings").to_pylist()}
    assert "unfinished" not in kinds and "missing" in kinds  # `older` has no answer to one of the tests
    assert "0 calls sent" in desk.says("run", sweep, "--yes")
    desk.says("export", "runs/bridge", "--format", "hf", "--out", "out")


def test_given_answers_that_one_subject_lacks_are_not_missing_at_random(desk: Desk, vendor: Vendors) -> None:
    rows = [
        (f"Question {n}?", name, "An answer.") for n in range(12) for name in ("one", "two") if name == "one" or n < 4
    ]
    sweep = desk.sweep("s", vendor().url, **GIVEN, responses=str(answers(desk, *rows)))
    assert "1 dimension, 2 subjects, 1 judge; run in" in desk.says("run", sweep, "--yes")
    run = open_run(desk.folder / "runs/s")
    assert "not_at_random" in run.analysis("findings").column("kind").to_pylist()
    assert "not among the given answers that are read" in (run.location.path / "report/index.html").read_text()
    last = run.tests()["id"][11].as_py()
    assert "(no answer)" in str(run.transcript(last, "two"))


def test_given_answers_beyond_the_samples_are_not_paid_for_and_told(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    given = {"dimension": DIMENSION, "prompt": "Why?", "subject": "old"}
    file = str(desk.lines("two.jsonl", [given | {"text": f"Number {n}.", "sample": n} for n in range(2)]))
    told = desk.says("run", desk.sweep("s", sim.url, **GIVEN, responses=file), "--yes")
    assert "1 row whose `sample` is 1 or more left out;" in told and sim.received("judge") == 1
    told = desk.says("run", desk.sweep("s", sim.url, **GIVEN, responses=file, samples=2), "--yes")
    assert "or more left out" not in told and sim.received("judge") == 2
    (score,) = open_run(desk.folder / "runs/s").scores("old", DIMENSION, "panel").to_pylist()
    assert (score["n"], score["excluded"]) == (2, 0)
    desk.lines("two.jsonl", [given | {"text": "Number 1.", "sample": 1}])
    assert "there are no others; set `samples:`" in desk.says(
        "plan", desk.sweep("t", sim.url, **GIVEN, responses=file), status=2
    )


def test_a_command_reads_given_answers_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def opened(path: Path, most: int) -> bytes:
        read.append(path.name)
        return bytes_of(path, most)

    given = answers(desk, ("How?", "old", "Think."), ("Why?", "old", "Look."), ("Why?", "new", "Ask."))
    responses = {"file": str(given), "sample": {"per_dimension": 1, "by": "test", "seed": 0}}
    sweep = desk.sweep("once", "http://127.0.0.1:9/v1", **GIVEN, responses=responses)
    monkeypatch.setattr("hab_ray.given.rows.bytes_of", opened)
    work = resolve(load_sweep(sweep), datetime.now(UTC))
    assert work.sweep.responses is not None and work.sweep.responses.subjects == ("old", "new")
    assert make_plan(work).lines and drawn_tests(work)[DIMENSION].of == 2
    assert read.count(given.name) == 1
    assert pickle.loads(pickle.dumps(work)).given.get("responses", lambda: "anew") == "anew"


UNSEEN = {
    "\u200b\u2060": "[U+200B][U+2060] holds a character that cannot be seen; write the name without it",
    "old\u202e": "old[U+202E] holds a character that cannot be seen",
    "old\n": "holds a character that cannot be seen",
    "\u2800 \u3164": "has nothing that can be seen; give it another name",
    "x" * 201: "subject: must have at most 200 characters",
}


def test_names_that_the_runs_record_cannot_hold_are_refused_by_plan_and_run_alike(desk: Desk) -> None:
    for name, said in UNSEEN.items():
        given = answers(desk, ("How?", "old", "Think."), ("How?", name, "Ask somebody."))
        sweep = desk.sweep("unseen", "http://127.0.0.1:9", **GIVEN, responses=str(given))
        for command in (("plan", sweep), ("run", sweep, "--yes"))[: 2 if name == "old\n" else 1]:
            done = desk.says(*command, status=2)
            assert f"{given}, row 2: subject: " in done and said in done
    assert not (desk.folder / "runs/unseen").exists()


def own_tests(desk: Desk) -> Path:
    """Tests of two dimensions, two from each generation call, with all that a table of commas might trip over."""
    hard = ('Is it "so",\nor not?', "=1+1;\té\u2028\r\n'", " spaces ", "0012")
    rows = [{"dimension": DIMENSION, "prompt": prompt, "context": ""} for prompt in hard]
    rows = [row | {"call": f"call {at // 2}"} for at, row in enumerate(rows)]
    rows += [{"dimension": "correct_misinformation", "prompt": f"{p}, surely.", "context": p} for p in hard[:2]]
    return desk.lines("own.jsonl", rows)


def test_what_a_run_exports_is_scored_the_same_without_a_call(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    settings = {"dimensions": [DIMENSION, "correct_misinformation"], "executor": "local"}
    first = desk.sweep("first", sim.url, **settings, tests=str(own_tests(desk)), samples=2)
    desk.says("run", first, "--yes")
    for form in ("hf", "csv", "json"):
        desk.says("export", "runs/first", "--format", form, "--out", form)
    imported = desk.says("import", "tests", "hf/evaluations.parquet", "--out", "imported.parquet")
    assert "6 distinct tests" in imported
    sent = sim.received("alpha"), sim.received("beta"), sim.received("judge")
    assert sent[:2] == (12, 12) and sent[2] > 0
    scores = desk.folder / "runs/first/scores.parquet"
    for name, given in {
        "hf": {"responses": "hf/evaluations.parquet"},
        "csv": {"responses": "csv/responses.csv", "tests": "csv/tests.csv"},
        "json": {"responses": "json/responses.jsonl", "tests": "json/tests.jsonl"},
        "imported": {"responses": "hf/evaluations.parquet", "tests": "imported.parquet"},
    }.items():
        again = desk.sweep(f"from-{name}", sim.url, **settings, **given, subjects=None, samples=2)
        assert "0 calls sent" in desk.says("run", again, "--yes")
        mine = pq.read_table(desk.folder / f"runs/from-{name}/scores.parquet")
        assert mine.sort_by(ORDER).equals(pq.read_table(scores).sort_by(ORDER)) and mine.num_rows > 0
    assert sent == (sim.received("alpha"), sim.received("beta"), sim.received("judge"))


def test_given_answers_are_exported_with_a_licence_or_leave(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    given = answers(desk, ("A secret question?", "old", "A secret answer."))
    sweep = desk.sweep("given", sim.url, **GIVEN, responses=str(given))
    desk.says("run", sweep, "--yes")
    held = desk.says("export", "runs/given", "--format", "csv", "--out", "held")
    assert "left out: answers (old; 1 row) from answers.jsonl" in held
    assert "FILE.source.yaml" in held and "--i-may-share" in held
    assert "secret" not in "".join(path.read_text() for path in (desk.folder / "held").iterdir())
    back = {"tests": "held/tests.csv", "responses": "held/responses.csv"}
    refused = desk.says("plan", desk.sweep("back", sim.url, **GIVEN, **back), status=2)
    assert "held/tests.csv, row 1: prompt: is missing" in refused
    shared = desk.says("export", "runs/given", "--format", "csv", "--out", "shared", "--i-may-share")
    assert "left out" not in shared
    assert "A secret answer." in (desk.folder / "shared/responses.csv").read_text()
    (desk.folder / "answers.jsonl.source.yaml").write_text("source: a colleague\nlicence: cc-by-4.0\n")
    assert "0 calls sent" in desk.hab("run", sweep, "--yes").stdout
    (desk.folder / "answers.jsonl").unlink()
    assert "left out" not in desk.says("export", "runs/given", "--format", "csv", "--out", "licensed")
    assert "from a colleague (licence: cc-by-4.0)" in (desk.folder / "licensed/README.md").read_text()


def test_a_file_that_has_changed_and_a_name_that_is_asked_are_refused(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    given = answers(desk, ("How?", "old", "Think."))
    settings = {"dimensions": [DIMENSION], "executor": "local", "responses": str(given)}
    sweep = desk.sweep("changed", sim.url, **settings, subjects=None)
    desk.says("run", sweep, "--yes")
    answers(desk, ("How?", "old", "Think twice."))
    assert "responses: its text has changed" in desk.says("run", sweep, "--yes", status=2)
    both = desk.sweep("both", sim.url, **settings, subjects=[{"model": "sim/alpha", "name": "old"}])
    assert "which `subjects:` asks" in desk.says("plan", both, status=2)
    nobody = desk.sweep("nobody", sim.url, **{**settings, "responses": None, "subjects": None})
    assert "subjects: is missing" in desk.says("plan", nobody, status=2)


def test_a_sample_of_given_answers_is_named_everywhere_and_stays_with_its_run(desk: Desk, vendor: Vendors) -> None:
    sim = vendor()
    rows = [(f"Query {n}?", subject, f"{subject} says {n}.") for subject in ("old", "new") for n in range(9)]
    given = answers(desk, *rows)
    people = [{"dimension": DIMENSION, "prompt": f"Query {n}?", "subject": "old"} for n in (2, 5)]
    ratings = [row | {"rater": "Eve", "kind": "person", "score": 6} for row in people]
    desk.lines("eve.jsonl", ratings)

    def sweep(name: str, raters: list[str] | None = None, **how: Any) -> Path:
        responses = {"file": str(given), **how}
        return desk.sweep(name, sim.url, **GIVEN, responses=responses, raters=raters)

    drawn = sweep("drawn", sample={"per_dimension": 3, "by": "test", "seed": 1})
    told = "responses: 3 of 9 tests a dimension, drawn by test, seed 1"
    plan = desk.says("plan", drawn)
    assert "6 calls to pay" in plan and told in plan
    assert told in desk.says("run", drawn, "--yes") and sim.received("judge") == 6
    assert told in desk.hab("status", "runs/drawn").stdout
    assert told in (desk.folder / "runs/drawn/report/index.html").read_text()
    run = open_run(desk.folder / "runs/drawn")
    asked = {row["test_id"] for row in run.responses("old").to_pylist()}
    assert asked == {row["id"] for row in run.tests().to_pylist()} and len(asked) == 3
    assert {row["test_id"] for row in run.responses("new").to_pylist()} == asked
    part = run.record.drawn[DIMENSION]
    assert (part.tests, part.of, len(part.sha256)) == (3, 9, 64)
    assert "0 calls sent" in desk.hab("run", drawn, "--yes").stdout
    larger = sweep("drawn", sample={"per_dimension": 4, "by": "test", "seed": 1})
    assert "responses.sample: differs" in desk.says("run", larger, "--yes", status=2)
    rated = desk.says("run", sweep("rated", ["eve.jsonl"], only="rated"), "--yes")
    assert sim.received("judge") <= 8 and "2 of 9 tests a dimension, only answers that people rated" in rated
    run = open_run(desk.folder / "runs/rated")
    assert run.subjects == ("old",) and run.responses().num_rows == 2
    ratings.append(ratings[0] | {"prompt": "Query 0?"})
    desk.lines("eve.jsonl", ratings)
    more = desk.says("run", sweep("rated", ["eve.jsonl"], only="rated"), "--yes", status=2)
    assert f"other answers of {DIMENSION} are drawn" in more
    assert "responses.only: needs `raters:`" in desk.says("plan", sweep("without", only="rated"), status=2)
    desk.lines("eve.jsonl", ({**row, "kind": "published"} for row in ratings))
    nobody = desk.says("plan", sweep("nobody", ["eve.jsonl"], only="rated"), status=2)
    assert "has no answer that a person in `raters:` has rated" in nobody
    assert "did you mean 'per_dimension'?" in desk.says("plan", sweep("slip", sample={"per_dimensions": 3}), status=2)
