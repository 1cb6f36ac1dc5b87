"""Exports hold the run's rows, all of them and as they are, with a card that says what they are."""

import csv
import json
import os
from dataclasses import fields, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from hab_ray.config.sections import SubjectVariant, Variants
from hab_ray.errors import ConfigError, problem_of
from hab_ray.exchange import export, licensed
from hab_ray.exchange.export import CANARY, CARD, card
from hab_ray.exchange.folders import new_folder, refuse_full
from hab_ray.exchange.imports.ratings import import_verdicts
from hab_ray.exchange.imports.source import TableSource
from hab_ray.exchange.published import Evaluations
from hab_ray.given.ratings import read_given_ratings
from hab_ray.given.responses import read_given_responses
from hab_ray.given.rows import read_given_tests
from hab_ray.location import Location
from hab_ray.results import Run, open_run
from hab_ray.rows import Candidate, ChosenTest, Rater, Rejudged, Response, State, Verdict, from_table, to_table
from hab_ray.stages import views
from hab_ray.stages.views import candidates_file, responses_file, verdicts_file
from hab_ray.storage.manifest import MANIFEST
from hab_ray.storage.record import amend_record
from hab_ray.storage.replies.records import to_parquet
from hab_ray.work import Work
from tests.distributions import Distributions
from tests.small_runs import HOSTILE, MakeRun, Shape, summary_of

EVERYTHING = Shape(judges=("strict", "mild"), samples=2, fail=0.2, cut=0.1, text=HOSTILE)


def opened(work: Work) -> Run:
    return open_run(work.run_path)


def exported(run: Run, form: str, folder: Path, licence: str = "mit") -> Path:
    """An export as `hab export` makes it without `--i-may-share`."""
    export(run, form, folder, licence, licensed(run))
    return folder


def tables(run: Run) -> dict[str, pa.Table]:
    return {"tests": run.tests(), "responses": run.responses(), "verdicts": run.verdicts(), "scores": run.scores()}


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in table.to_pylist())


def test_json_lines_are_the_rows(make_run: MakeRun, tmp_path: Path) -> None:
    run = opened(make_run(EVERYTHING))
    exported(run, "json", tmp_path / "out", "mit")
    for name, table in tables(run).items():
        lines = (tmp_path / f"out/{name}.jsonl").read_bytes().split(b"\n")
        assert sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines if line) == sorted_rows(table)


def test_a_data_set_has_the_published_columns_and_every_scored_response(make_run: MakeRun, tmp_path: Path) -> None:
    run = opened(make_run(EVERYTHING))
    exported(run, "hf", tmp_path / "out", "mit")
    for name, table in tables(run).items():
        assert sorted_rows(pq.read_table(tmp_path / f"out/{name}.parquet")) == sorted_rows(table)
    found = pq.read_table(tmp_path / "out/evaluations.parquet").to_pylist()
    scored = [row for row in run.verdicts().to_pylist() if row["score"] is not None]
    assert sorted((r["subject_model"], r["evaluator_model"], r["test_id"], r["sample"], r["score"]) for r in found) == (
        sorted((r["subject"], r["judge"], r["test_id"], r["sample"], r["score"]) for r in scored)
    )
    ended = {(r["subject"], r["test_id"], r["sample"]): r["finish"] for r in run.responses().to_pylist()}
    assert {row["finish"] for row in found} == {"ok", "truncated"}
    assert all(ended[row["subject_model"], row["test_id"], row["sample"]] == row["finish"] for row in found)
    with_context = {row["dimension"] for row in found if row["misinformation"] is not None}
    assert with_context == {"correct_misinformation"}
    assert {row["subject_response"] for row in found} == {HOSTILE}


def test_an_export_can_be_judged_again_if_a_subject_has_no_scored_response(make_run: MakeRun, tmp_path: Path) -> None:
    work = make_run(Shape(dimensions=("ask_clarifying_questions",)))
    (dimension,) = work.rubrics
    for name in (verdicts_file("strict", "beta", dimension), responses_file("beta", dimension)):
        work.run.folder.delete(name)
    exported(opened(work), "hf", tmp_path / "out")
    found = read_given_responses(Location.of(tmp_path / "out/evaluations.parquet"), work.rubrics, None)
    assert {row.subject for rows in found.responses.values() for row in rows} == {"alpha"}
    metadata = pq.read_metadata(tmp_path / "out/evaluations.parquet")
    assert all(metadata.row_group(n).num_rows for n in range(metadata.num_row_groups))


def test_tests_chosen_earlier_are_exported_with_their_generation_calls(make_run: MakeRun, tmp_path: Path) -> None:
    """Earlier versions wrote no column `call`, so it follows from the candidates."""
    work = make_run(Shape(dimensions=("correct_misinformation",)))
    first, *others = work.run.read(ChosenTest, file := views.tests_file("correct_misinformation"))
    made = Candidate("0-0", first.dimension, State.OK, first.prompt, first.context, "", "", "key of a call")
    work.run.write(Candidate, candidates_file(first.dimension), [made, replace(made, context="other", reply_key="k")])
    work.run.folder.put(file, to_parquet(to_table(ChosenTest, [first, *others]).drop_columns(["call"])))
    exported(opened(work), "hf", tmp_path / "out")
    tests = read_given_tests(Location.of(tmp_path / "out/tests.parquet"), work.rubrics)[first.dimension]
    assert [test.call for test in tests] == ["key of a call", *[None] * len(others)]
    assert summary_of(work).settings.calls_of(first.dimension) == ("key of a call", *(test.id for test in others))


def test_what_a_judge_was_asked_is_told_only_where_it_is_known(work: Work, tmp_path: Path) -> None:
    name = verdicts_file("strict", "alpha", "ask_clarifying_questions")
    rows, rubric = work.run.read(Verdict, name), work.rubrics["ask_clarifying_questions"]
    now = replace(rows[0], rubric_sha256=rubric.sha256, prompts_sha256=work.prompts.sha256)
    work.run.write(Verdict, name, [now, *rows[1:]])
    run = opened(work)
    (first, *others), *_ = (table.to_pylist() for table in Evaluations(run, licensed(run)).tables())
    assert all(issue.text in first["evaluator_system_prompt"] for issue in rubric.judging.issues)
    assert first["prompt"] in first["evaluator_prompt"] and first["subject_response"] in first["evaluator_prompt"]
    assert {(row["evaluator_prompt"], row["evaluator_system_prompt"]) for row in others} == {(None, None)}


def test_no_cell_is_a_formula_and_none_is_changed_by_reading_it_back(work: Work, tmp_path: Path) -> None:
    dimension, *_ = work.rubrics
    name = responses_file("alpha", dimension)
    hostile = ["=1+1", "+1", "-1", "@a", "\t=1", "'=1", "''-a", "\uff1d1", "'plain'", "a=1"]
    rows = work.run.read(Response, name)
    texts = dict(zip([row.test_id for row in rows], hostile * len(rows), strict=False))
    work.run.write(Response, name, [replace(row, text=texts[row.test_id]) for row in rows])
    exported(opened(work), "csv", tmp_path / "out")
    with (tmp_path / "out/responses.csv").open(newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.DictReader(file) for cell in row.values()]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\uff1d"))]
    tests = read_given_tests(Location.of(tmp_path / "out/tests.csv"), work.rubrics)
    found = read_given_responses(Location.of(tmp_path / "out/responses.csv"), work.rubrics, tests)
    back = {row.test_id: row.text for rows in found.responses.values() for row in rows if row.subject == "alpha"}
    assert {test_id: text for test_id, text in back.items() if test_id in texts} == texts
    exported(opened(work), "csv-raw", tmp_path / "raw")
    with (tmp_path / "raw/responses.csv").open(newline="", encoding="utf-8") as file:
        assert set(texts.values()) <= {row["text"] for row in csv.DictReader(file)}


def test_a_table_of_commas_holds_every_cell(make_run: MakeRun, tmp_path: Path) -> None:
    run = opened(make_run(EVERYTHING))
    exported(run, "csv", tmp_path / "out", "mit")
    with (tmp_path / "out/verdicts.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    expected = run.verdicts().to_pylist()
    assert len(found) == len(expected)
    known = {row["reply_key"]: row for row in found}
    for row in expected:
        cell = known[row["reply_key"]]
        letters = "" if row["issues"] is None else " ".join(row["issues"]) or "none"
        assert cell["issues"] == letters and cell["assessment"] == row["assessment"]
        assert cell["score"] == ("" if row["score"] is None else f"{row['score']:g}")


@pytest.mark.parametrize(("form", "ending"), [("csv", "csv"), ("csv-raw", "csv"), ("json", "jsonl")])
def test_issues_are_read_back_also_if_unknown(form: str, ending: str, make_run: MakeRun, tmp_path: Path) -> None:
    work = make_run(Shape(tests=12))
    dimension, *_ = work.rubrics
    file = verdicts_file("strict", "alpha", dimension)
    rows = work.run.read(Verdict, file)
    work.run.write(Verdict, file, [replace(rows[0], issues=None), replace(rows[1], issues=(), score=10.0), *rows[2:]])
    run = opened(work)
    exported(run, form, tmp_path / "out")
    import_verdicts(TableSource(str(tmp_path / f"out/verdicts.{ending}")), tmp_path / "v.jsonl")
    found = read_given_ratings([Location.of(tmp_path / "v.jsonl")], work.rubrics).ratings
    wanted = [row for row in from_table(Verdict, run.verdicts()) if row.score is not None]
    assert {(row.subject, row.test, row.dimension): row.issues for row in found} == {
        (row.subject, row.test_id, row.dimension): row.issues for row in wanted
    }


@pytest.mark.parametrize(("form", "ending"), [("csv", "csv"), ("json", "jsonl")])
def test_tests_and_answers_of_all_states_come_back(form: str, ending: str, make_run: MakeRun, tmp_path: Path) -> None:
    work = make_run(EVERYTHING)
    run = opened(work)
    exported(run, form, tmp_path / "out")
    tests = read_given_tests(Location.of(tmp_path / f"out/tests.{ending}"), work.rubrics)
    assert [test for rows in tests.values() for test in rows] == from_table(ChosenTest, run.tests())
    found = read_given_responses(Location.of(tmp_path / f"out/responses.{ending}"), work.rubrics, tests)
    back = {(row.subject, row.test_id, row.sample): row for rows in found.responses.values() for row in rows}
    rows = from_table(Response, run.responses())
    assert len(back) == len(rows) and len({row.state for row in rows}) > 2
    for row in rows:
        again = back[row.subject, row.test_id, row.sample]
        assert (again.state, again.text, again.reason) == (row.state, row.text, row.reason)
        assert again.finish == (row.finish or "ok")


def test_the_card_says_licence_canary_counts_and_what_failed(make_run: MakeRun, tmp_path: Path) -> None:
    work, former = make_run(EVERYTHING), {"judges: former": "0" * 64}
    run = opened(work)
    amend_record(work.run_path, hashes={**run.record.hashes, **former})
    exported(opened(work), "hf", tmp_path / "out", "cc-by-4.0")
    card = (tmp_path / "out" / CARD).read_text()
    head = yaml.safe_load(card.split("---\n")[1])
    assert head["license"] == "cc-by-4.0"
    assert head["configs"][0]["data_files"] == "evaluations.parquet"
    assert CANARY in card and f"| responses.parquet | {run.responses().num_rows} |" in card
    failed = run.verdicts().column("state").to_pylist().count(State.UNREADABLE)
    assert failed and f"in no mean: {failed} unreadable verdicts." in card
    assert all(f"sha256 {digest}" in card for digest in run.record.hashes.values()) and "former" not in card
    assert "an answer counts only if every judge of the sweep scored it" in card


def test_the_card_counts_the_exported_rows_of_all_raters(work: Work) -> None:
    file = verdicts_file("strict", "alpha", "correct_misinformation")
    first, *_ = work.run.read(Verdict, file)
    unread = replace(first, judge="anna", kind=Rater.PERSON, state=State.UNREADABLE, score=None, issues=None)
    work.run.write(Verdict, verdicts_file("anna", "alpha", "correct_misinformation"), [unread])
    run = opened(work)
    assert "- Exported as rows, and in no mean: 1 unreadable verdict.\n" in card(run, {}, "mit", licensed(run))


def test_the_card_says_which_rows_are_in_no_table(work: Work) -> None:
    run = opened(work)
    said = card(run, {}, "mit", licensed(run))
    assert "varied" not in said and "sentinels" not in said
    variants = Variants(subjects=(SubjectVariant(name="terse", system="Be terse."),))
    sweep = run.record.sweep.model_copy(update={"variants": variants})
    assert "Answers of varied subjects (alpha (terse), " in card(
        replace(run, record=run.record.model_copy(update={"sweep": sweep})), {}, "mit", licensed(run)
    )
    row, *_ = run.verdicts().to_pylist()
    again = {field.name: row.get(field.name) for field in fields(Rejudged)} | {"repeat": 1, "before": 7.0}
    file = views.rejudged_file(row["judge"], row["subject"], row["dimension"])
    work.run.write(Rejudged, file, [Rejudged(**again)])
    assert "(sentinels) are in no table" in card(opened(work), {}, "mit", licensed(run))


def test_the_card_says_which_wording_is_imported_and_carries_no_fence(work: Work, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    content = work.rubrics["correct_misinformation"].model_dump(mode="json", exclude_none=True)
    origin = {"source": "an invented\ncheckout", "licence": "cc0", "canaries": [CANARY]}
    content["literal"] = {"origin": origin, "judging": {"user": [{"value": "response"}]}}
    (tmp_path / "mine/correct_misinformation.yaml").write_text(yaml.safe_dump(content))
    record = work.run_path.path / "sweep.yaml"
    changed = yaml.safe_load(record.read_text())
    changed["sweep"]["rubrics"] = str(tmp_path / "mine")
    record.write_text(yaml.safe_dump(changed))
    exported(opened(work), "json", tmp_path / "out", "mit")
    lines = (tmp_path / "out" / CARD).read_text().splitlines()
    (line,) = [line for line in lines if "carry no fence" in line]
    assert line.startswith("- correct_misinformation: The wording is imported from an invented checkout (licence: cc0;")
    assert CANARY in line


def test_a_licence_is_one_line_of_the_card(make_run: MakeRun, tmp_path: Path) -> None:
    exported(opened(make_run(Shape())), "json", tmp_path / "out", "x\n---\ntags: stolen")
    card = (tmp_path / "out" / CARD).read_text()
    assert [line.strip() for line in card.splitlines()].count("---") == 2
    assert yaml.safe_load(card.split("---\n")[1])["tags"] == ["hab_ray"]


@pytest.mark.parametrize("form", ["hf", "csv", "json"])
def test_a_run_that_has_only_begun_exports_no_rows_and_says_so(form: str, make_run: MakeRun, tmp_path: Path) -> None:
    run = opened(make_run(Shape(tests=0)))
    exported(run, form, tmp_path / "out", "mit")
    assert "There are no scores" in (tmp_path / "out" / CARD).read_text()


def test_the_card_shows_the_name_of_a_lost_file_as_text(work: Work, tmp_path: Path) -> None:
    work.run.folder.put(MANIFEST, b"tests/[here](https://elsewhere.example)<b>.parquet\n")
    exported(opened(work), "hf", tmp_path / "out")
    card = (tmp_path / "out" / CARD).read_text()
    assert r"that it had at its end, such as tests/\[here\](https://elsewhere.example)\<b\>.parquet" in card


def test_the_card_shows_licence_and_names_as_text(make_run: MakeRun, tmp_path: Path) -> None:
    run = opened(make_run(Shape(subjects=("[a](http://x)", "<b>_c_"))))
    exported(run, "json", tmp_path / "out", "![i](http://y) <img src=x>")
    body = (tmp_path / "out" / CARD).read_text().split("---\n")[2]
    assert "[a](" not in body.replace("\\[", "") and "<b>" not in body.replace("\\<", "")
    assert "\\[a\\](http://x)" in body and "\\<b\\>\\_c\\_" in body and "!\\[i\\](http://y) \\<img src=x\\>" in body


def test_nothing_is_written_over_and_nothing_is_left_half_written(make_run: MakeRun, tmp_path: Path) -> None:
    run = opened(make_run(Shape()))
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not an empty folder"):
        exported(run, "csv", tmp_path / "taken", "mit")
    with pytest.raises(ConfigError, match="there are csv, csv-raw, hf, inspect, json"):
        exported(run, "xml", tmp_path / "out", "mit")
    damaged = run.location.path / verdicts_file("strict", "beta", "correct_misinformation")
    damaged.write_bytes(b"PAR1")
    with pytest.raises(Exception, match="verdicts"):
        exported(run, "hf", tmp_path / "out", "mit")
    assert sorted(path.name for path in tmp_path.iterdir() if "out" in path.name) == []


def test_what_a_killed_export_leaves_behind_says_what_it_is(tmp_path: Path) -> None:
    with new_folder(tmp_path / "out"):
        (left,) = tmp_path.iterdir()
        assert left.name.startswith("out.unfinished-")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_export_interrupted_in_a_folder_empties_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move, moves = os.replace, list[Path]()

    def interrupted(source: Path, target: Path) -> None:
        moves.append(target)
        if len(moves) == 2:
            raise KeyboardInterrupt
        move(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path) as unfinished:
        (unfinished / "a.csv").write_text("a\n")
        (unfinished / "b.csv").write_text("b\n")
    assert len(moves) == 3 and list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_with_the_folder_to_write(tmp_path: Path) -> None:
    with pytest.raises(OSError) as raised, new_folder(tmp_path / "out"), open("/dev/full", "wb", buffering=0) as full:
        full.write(b"a")
    assert str(problem_of(raised.value)).startswith(f"{tmp_path / 'out'}: cannot be written: No space left")


@pytest.mark.parametrize("name", [".", "link", "x" * 250])
def test_a_folder_to_write_may_be_any_empty_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    monkeypatch.chdir(tmp_path / "empty" if name == "." else tmp_path)
    refuse_full(Path(name))
    with new_folder(Path(name)) as unfinished:
        (unfinished / "a.csv").write_text("a\n")
    assert [path.name for path in Path(name).iterdir()] == ["a.csv"] and Path.cwd().exists()
    assert (tmp_path / "link").is_symlink()


def test_a_folder_to_write_that_cannot_be_made_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    for name, why in (("dangling", "not an empty folder"), (os.fsdecode(b"\xff"), "as UTF-8; name another")):
        with pytest.raises(ConfigError, match=why) as refused:
            refuse_full(tmp_path / name)
        str(refused.value).encode()


WRITERS = {
    "def write(run, folder): ...": "TypeError: too many positional arguments",
    "def write(run, sharing, folder): ...": "numbers of rows, and returned None",
    "def write(run, sharing, folder): return {folder / 'a.csv': 3}": "numbers of rows, and returned {PosixPath",
    "def write(run, sharing, folder): return {'a.csv': [1, 2]}": "numbers of rows, and returned {'a.csv': [1, 2]}",
}


@pytest.mark.parametrize("code", WRITERS)
def test_a_broken_format_is_named(code: str, make_run: MakeRun, distributions: Distributions, tmp_path: Path) -> None:
    distributions.install_modules("acme-hab", "0.3", {"acme_odd": code}, {"hab_ray.formats": {"odd": "acme_odd:write"}})
    with pytest.raises(ConfigError) as caught:
        exported(opened(make_run(Shape())), "odd", tmp_path / "out")
    assert "'odd' comes from the package acme-hab 0.3" in str(caught.value) and WRITERS[code] in str(caught.value)
    assert not (tmp_path / "out").exists()
