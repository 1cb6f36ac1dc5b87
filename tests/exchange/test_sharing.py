"""What comes from elsewhere without a known licence is in no export, and everything else is."""

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from hab_ray.analysis.summary import summarise
from hab_ray.exchange import everything, export, licensed
from hab_ray.exchange.export import CARD
from hab_ray.exchange.imports.ratings import import_verdicts
from hab_ray.exchange.imports.source import TableSource
from hab_ray.inputs.csv_text import NO_ISSUES
from hab_ray.report import write_report
from hab_ray.results import Run, open_run
from hab_ray.rows import ChosenTest, Rater, Response, Verdict
from hab_ray.stages import views
from hab_ray.stages.views import verdicts_file
from hab_ray.storage.run import RunFolder
from tests.small_runs import Shape, answer_files, revise, verdict_files, write_run

PLAIN, WITH_CONTEXT = "ask_clarifying_questions", "correct_misinformation"
CANARY = "11111111-2222-3333-4444-555555555555"
QUERIES = {"QUERY of plain", "QUERY of context", "CONTEXT of context"}
SYSTEMS = {"SYSTEM of plain", "SYSTEM of context"}
ALPHA, BETA = {"ANSWER of alpha"}, {"ANSWER of beta"}
ABOUT_ALPHA, ABOUT_BETA = {"SAID of alpha"}, {"SAID of beta"}
ALL = QUERIES | SYSTEMS | ALPHA | BETA | ABOUT_ALPHA | ABOUT_BETA
UNKNOWN = {"source": "somebody's\nserver", "licence": "unknown", "canaries": [CANARY]}
Make = Callable[..., Run]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a run of one test a dimension whose texts say what they are; changes keys of its record."""

    def write(sources: dict[str, Any] | None, **sweep: Any) -> Run:
        work = write_run(tmp_path / "run", Shape(tests=1))
        short = {PLAIN: "plain", WITH_CONTEXT: "context"}

        def named(test: ChosenTest) -> ChosenTest:
            context, name = "CONTEXT of context" if test.context else "", short[test.dimension]
            return replace(test, prompt=f"QUERY of {name}", context=context, system=f"SYSTEM of {name}")

        def judged(row: Verdict) -> Verdict:
            rubric, prompts = work.rubrics[row.dimension].sha256, work.prompts.sha256
            return replace(row, assessment=f"SAID of {row.subject}", rubric_sha256=rubric, prompts_sha256=prompts)

        revise(work, ChosenTest, named, *map(views.tests_file, short))
        revise(work, Response, lambda row: replace(row, text=f"ANSWER of {row.subject}"), *answer_files(work))
        revise(work, Verdict, judged, *verdict_files(work))
        record = work.run_path.path / "sweep.yaml"
        changed = yaml.safe_load(record.read_text())
        changed |= {"sources": sources, "sweep": {**changed["sweep"], **sweep}}
        record.write_text(yaml.safe_dump(changed))
        return open_run(work.run_path)

    return write


def said(folder: Path) -> str:
    """Everything that an export says, as one text."""
    tables = [json.dumps(pq.read_table(path).to_pylist()) for path in folder.glob("*.parquet")]
    return "\n".join([*tables, *(path.read_text() for path in folder.glob("*") if path.suffix != ".parquet")])


def found(folder: Path) -> set[str]:
    whole = said(folder)
    return {text for text in ALL if text in whole}


GIVEN = {"responses": {"file": "answers.jsonl", "subjects": ["beta"]}, "subjects": ["lab/alpha"]}
BOTH_RUBRICS = {f"rubric {name}": UNKNOWN for name in (PLAIN, WITH_CONTEXT)}
ALPHA_IS_ASKED = {"subjects": [{"model": "lab/alpha", "name": "alpha"}]}


@pytest.mark.parametrize(
    ("sources", "sweep", "left_out"),
    [
        ({}, {"tests": "own.jsonl"}, set()),
        ({"tests": UNKNOWN}, {"tests": "tests.jsonl"}, QUERIES | SYSTEMS | ALPHA | BETA | ABOUT_ALPHA | ABOUT_BETA),
        ({"tests": {**UNKNOWN, "licence": "mit"}}, {"tests": "tests.jsonl"}, set()),
        ({"responses": UNKNOWN}, {"tests": "own.jsonl", **GIVEN, **ALPHA_IS_ASKED}, BETA | ABOUT_BETA),
        ({"responses": UNKNOWN}, {"tests": None, **GIVEN, **ALPHA_IS_ASKED}, ALL),
        ({"responses": {**UNKNOWN, "licence": "mit"}}, {"tests": None, **GIVEN, **ALPHA_IS_ASKED}, set()),
        ({f"rubric {PLAIN}": UNKNOWN}, {"tests": "own.jsonl"}, {"SYSTEM of plain"}),
        (BOTH_RUBRICS, {"tests": "own.jsonl"}, SYSTEMS | ABOUT_ALPHA | ABOUT_BETA),
        (BOTH_RUBRICS, {"tests": "seeds"}, ALL),
    ],
)
def test_what_has_no_licence_is_in_no_file(
    sources: dict[str, Any], sweep: dict[str, Any], left_out: set[str], make: Make, tmp_path: Path
) -> None:
    run = make(sources, **sweep)
    export(run, "hf", tmp_path / "out", "mit", licensed(run))
    assert found(tmp_path / "out") == ALL - left_out
    card = (tmp_path / "out" / CARD).read_text()
    assert ("What is left out" in card) == bool(left_out)
    assert ("somebody's server" in card) == (CANARY in card) == bool(sources)


@pytest.mark.parametrize("form", ["hf", "csv", "json"])
def test_no_row_is_lost_with_its_texts(form: str, make: Make, tmp_path: Path) -> None:
    run = make({"responses": UNKNOWN}, tests=None, **GIVEN | ALPHA_IS_ASKED)
    export(run, form, tmp_path / "out", "mit", licensed(run))
    assert found(tmp_path / "out") == set()
    card = (tmp_path / "out" / CARD).read_text()
    for name in ("tests", "responses", "verdicts", "scores"):
        assert f"| {name}." in card
    assert f"queries ({PLAIN}, {WITH_CONTEXT}; 2 rows)" in card and "answers (beta; 2 rows)" in card
    if form == "hf":
        rows = pq.read_table(tmp_path / "out/evaluations.parquet").to_pylist()
        assert len(rows) == 4 and {row["score"] for row in rows} <= set(range(11))
        texts = ("prompt", "misinformation", "subject_system_prompt", "evaluator_prompt")
        assert {row[name] for row in rows for name in texts} == {None}
        assert {row["subject_response"] for row in rows} == {None}
        assert all(row["evaluator_system_prompt"] for row in rows)
        assert {tuple(json.loads(row["evaluator_response"])) for row in rows} == {("issues",)}


def test_issue_letters_are_imported_from_an_export_without_assessments(make: Make, tmp_path: Path) -> None:
    run = make({"responses": UNKNOWN}, tests=None, **GIVEN | ALPHA_IS_ASKED)
    export(run, "hf", tmp_path / "out", "mit", licensed(run))
    import_verdicts(TableSource(str(tmp_path / "out/evaluations.parquet")), tmp_path / "verdicts.parquet")
    imported = pq.read_table(tmp_path / "verdicts.parquet").to_pylist()
    verdicts = run.verdicts(columns=["issues"]).column("issues").to_pylist()
    assert sorted(row["issues"] for row in imported) == sorted(", ".join(each) or NO_ISSUES for each in verdicts)
    assert {row["rater"] for row in imported} == {f"earlier {judge}" for judge in run.panel}


@pytest.mark.parametrize("form", ["hf", "csv", "json"])
def test_who_may_share_has_everything(form: str, make: Make, tmp_path: Path) -> None:
    run = make({"responses": UNKNOWN, f"rubric {PLAIN}": UNKNOWN}, tests=None, **GIVEN | ALPHA_IS_ASKED)
    export(run, form, tmp_path / "out", "mit", everything(run))
    card = (tmp_path / "out" / CARD).read_text()
    assert found(tmp_path / "out") == ALL and "What is left out" not in card
    assert "What comes from elsewhere" in card and CANARY in card


def test_prompts_to_judges_with_imported_wording_are_left_out(make: Make, tmp_path: Path) -> None:
    run = make({f"rubric {PLAIN}": UNKNOWN}, tests="own.jsonl")
    export(run, "hf", tmp_path / "out", "mit", licensed(run))
    rows = pq.read_table(tmp_path / "out/evaluations.parquet").to_pylist()
    shown = {(r["dimension"], r["evaluator_prompt"] is None, r["evaluator_system_prompt"] is None) for r in rows}
    assert shown == {(PLAIN, True, True), (WITH_CONTEXT, False, False)}


def test_what_quotes_imported_wording_or_queries_is_left_out_of_their_dimension(make: Make, tmp_path: Path) -> None:
    """Judges quote the criteria that they are given, subjects the query that they are asked."""
    wording = make({f"rubric {PLAIN}": UNKNOWN}, tests="own.jsonl")
    export(wording, "json", tmp_path / "wording", "mit", licensed(wording))
    queries = make({f"rubric {PLAIN}": UNKNOWN}, tests="seeds")
    export(queries, "json", tmp_path / "queries", "mit", licensed(queries))

    def cells(out: str, name: str, column: str) -> set[tuple[str, bool]]:
        rows = map(json.loads, (tmp_path / out / f"{name}.jsonl").read_text().splitlines())
        return {(row["dimension"], row[column] is None) for row in rows}

    assert cells("wording", "verdicts", "assessment") == {(PLAIN, True), (WITH_CONTEXT, False)}
    assert cells("wording", "responses", "text") == {(PLAIN, False), (WITH_CONTEXT, False)}
    assert cells("queries", "responses", "text") == {(PLAIN, True), (WITH_CONTEXT, False)}


def test_the_report_says_what_may_not_be_passed_on_with_it(make: Make) -> None:
    def page(run: Run) -> str:
        return write_report(summarise(run)).path.read_text("utf-8")

    told = page(make({"tests": UNKNOWN}, tests="tests.jsonl"))
    assert "licence: unknown" in told and "somebody" in told and CANARY in told and "Do not pass on" in told
    own = page(make({}, tests="own.jsonl"))
    assert "licence" not in own and "Do not pass on" not in own


def test_comments_of_people_are_left_out(make: Make, tmp_path: Path) -> None:
    run = make({}, tests="own.jsonl")
    name = verdicts_file("strict", "beta", PLAIN)
    (row,) = run.verdicts("strict", "beta", PLAIN).to_pylist()
    person = Verdict(**{**row, "judge": "person-1", "kind": Rater.PERSON, "assessment": "My name is Ada."})
    silent = replace(person, assessment="", reason="")
    RunFolder(run.location).write(Verdict, name.replace("strict", "person-1"), [silent])
    assert not licensed(run).left_out
    RunFolder(run.location).write(Verdict, name.replace("strict", "person-1"), [person, silent])
    export(run, "json", tmp_path / "out", "mit", licensed(run))
    assert "comments or reasons by raters (person-1; 1 row)" in said(tmp_path / "out")
    assert "Ada" not in said(tmp_path / "out")
    assert "if those who wrote them agree" in said(tmp_path / "out")
    assert "state a licence" not in said(tmp_path / "out")
    export(run, "hf", tmp_path / "set", "mit", licensed(run))
    assert "Ada" not in said(tmp_path / "set")
    export(run, "json", tmp_path / "all", "mit", everything(run))
    assert "Ada" in said(tmp_path / "all")


def test_an_older_run_is_known_by_what_stands_beside_its_file(make: Make, tmp_path: Path) -> None:
    file = tmp_path / "tests.jsonl"
    file.write_text("{}\n")
    digest = sha256(file.read_bytes()).hexdigest()
    run = make(None, tests=str(file))

    def queries_are_out() -> bool:
        again = replace(run, record=run.record.model_copy(update={"hashes": {**run.record.hashes, "tests": digest}}))
        return any("queries" in str(source) for source in licensed(again).left_out)

    assert not queries_are_out()
    beside = tmp_path / "tests.jsonl.source.yaml"
    beside.write_text(yaml.safe_dump(UNKNOWN))
    assert queries_are_out()
    beside.write_text("source: here\nlicense: cc0-1.0\n")
    assert not queries_are_out()
    file.write_text('{"another": "file"}\n')
    assert queries_are_out()
    file.unlink()
    assert queries_are_out()


def test_what_a_varied_judge_says_may_quote_the_wording_that_it_was_shown(make: Make, tmp_path: Path) -> None:
    variants = {"judges": [{"name": "theirs", "rubrics": "imported_rubrics"}]}
    run = make({"wording of strict (theirs)": UNKNOWN}, variants=variants)
    folder, varied = RunFolder(run.location), "strict (theirs)"
    (row,) = folder.read(Verdict, verdicts_file("strict", "alpha", PLAIN))
    said_so = replace(row, judge=varied, assessment="QUOTED of theirs")
    folder.write(Verdict, verdicts_file(varied, "alpha", PLAIN), [said_so])
    export(run, "json", tmp_path / "out", "mit", licensed(run))
    assert found(tmp_path / "out") == ALL and "QUOTED" not in said(tmp_path / "out")
    assert "wording of judges' variants (strict (theirs); 1 row)" in said(tmp_path / "out").replace("\\", "")
    export(run, "json", tmp_path / "all", "mit", everything(run))
    assert "QUOTED of theirs" in said(tmp_path / "all")
