"""A run read through the public face: whole, in part, unfinished, damaged, and from an older version."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import hab_ray
from hab_ray.analysis.summary import summarise
from hab_ray.errors import ConfigError, DamagedFile
from hab_ray.report import write_scores
from hab_ray.results import Run, views
from hab_ray.results.run import steady
from hab_ray.rows import ChosenTest, Response, Score, State, Verdict, from_table, schema_of
from hab_ray.stages.views import responses_file, verdicts_file
from hab_ray.storage.local import LocalFolder
from hab_ray.storage.record import amend_record
from hab_ray.storage.run import SCORES, SWEEP
from hab_ray.work import Work
from tests.loading import modules_after
from tests.small_runs import MakeRun, Shape, begin_run

DIMENSIONS = ("ask_clarifying_questions", "correct_misinformation")
MAX_LOADED = 40
FORMAT_0 = Path(__file__).parent.parent / "fixtures/format0"


def opened(work: Work) -> Run:
    return hab_ray.open_run(work.run_path.path)


def test_tables_have_all_rows_and_documented_columns(make_run: MakeRun) -> None:
    run = opened(make_run(Shape(judges=("strict", "mild"), samples=2)))
    assert (run.name, run.dimensions, run.subjects) == ("example", DIMENSIONS, ("alpha", "beta"))
    assert run.panel == run.raters == ("strict", "mild")
    for table, rows, row_type, method in (
        (run.tests(), 2 * 6, ChosenTest, Run.tests),
        (run.responses(), 2 * 2 * 6 * 2, Response, Run.responses),
        (run.verdicts(), 2 * 2 * 2 * 6 * 2, Verdict, Run.verdicts),
        (run.scores(), 0, Score, Run.scores),
    ):
        assert table.num_rows == rows and table.schema.equals(schema_of(row_type))
        assert all(name in (method.__doc__ or "") for name in table.column_names)


def test_filters_read_a_part(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=("strict", "mild")))
    run = opened(work)
    part = run.verdicts("mild", "beta", DIMENSIONS[1])
    assert from_table(Verdict, part) == work.run.read(Verdict, verdicts_file("mild", "beta", DIMENSIONS[1]))
    assert {r.subject for r in from_table(Response, run.responses("alpha"))} == {"alpha"}
    assert run.tests(DIMENSIONS[0], columns=["id"]).column_names == ["id"]
    write_scores(summarise(run))
    assert run.scores(subject="beta", dimension="overall", judge="panel").num_rows == 1


def test_a_steady_run_keeps_the_rows_it_has_read(work: Work) -> None:
    run, file = opened(work), responses_file("alpha", DIMENSIONS[0])
    kept, part = steady(run), ("alpha", DIMENSIONS[0])
    before = run.responses(*part)
    assert kept.responses(*part, columns=["test_id", "state"]).equals(before.select(["test_id", "state"]))
    work.run.write(Response, file, work.run.read(Response, file)[1:])
    assert kept.responses(*part, columns=["state", "sample"]).equals(before.select(["state", "sample"]))
    assert run.responses(*part, columns=["state"]).num_rows == before.num_rows - 1


def test_a_view_too_large_for_memory_is_not_damaged(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 640 failed")

    run = opened(make_run(Shape()))
    monkeypatch.setattr(views, "with_all_columns", exhausted)
    with pytest.raises(MemoryError, match="malloc of size 640 failed"):
        run.tests()


def test_a_part_opens_only_its_files(work: Work) -> None:
    """So that a reader who goes by subject and dimension never holds more than one of them."""
    (work.run_path.path / responses_file("beta", DIMENSIONS[0])).write_bytes(b"damaged")
    assert opened(work).responses("beta", DIMENSIONS[1]).num_rows == 6
    with pytest.raises(DamagedFile, match=f"responses/beta/{DIMENSIONS[0]}.parquet"):
        opened(work).responses()


def test_unknown_names_are_refused_with_the_known_ones(make_run: MakeRun) -> None:
    run = opened(make_run(Shape()))
    write_scores(summarise(run))
    with pytest.raises(ConfigError, match="no subject 'gamma'; there are alpha, beta"):
        run.responses(subject="gamma")
    with pytest.raises(ConfigError, match="no judge 'person'; there are strict"):
        run.verdicts("person")
    with pytest.raises(ConfigError, match="no dimension"):
        run.transcripts("kindness")
    with pytest.raises(ConfigError, match="no judge 'mild'; there are strict, panel"):
        run.scores(judge="mild")
    with pytest.raises(ConfigError, match="no column texts; there are test_id, dimension"):
        run.responses(columns=["texts"])
    with pytest.raises(ConfigError, match="no test 'nowhere'"):
        run.transcript("nowhere")


def test_a_transcript_has_every_answer_and_verdict(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=("strict", "mild"), samples=2, fail=0.3))
    run = opened(work)
    transcript = run.transcript(f"{DIMENSIONS[1]}-002")
    (test,) = [test for test in from_table(ChosenTest, run.tests()) if test.id == transcript.test.id]
    assert transcript.test == test
    assert [(a.subject, a.sample) for a in transcript.answers] == [(s, k) for s in ("alpha", "beta") for k in (0, 1)]
    verdicts = from_table(Verdict, run.verdicts())
    for answer in transcript.answers:
        assert answer.response is not None and answer.response.sample == answer.sample
        about = [v for v in verdicts if (v.test_id, v.subject, v.sample) == (test.id, answer.subject, answer.sample)]
        assert sorted(about, key=lambda v: run.panel.index(v.judge)) == list(answer.verdicts)
    states = {answer.response.state for t in run.transcripts() for answer in t.answers if answer.response}
    assert State.OK in states and len(states) > 1


def test_a_transcript_is_printed_in_the_rubrics_words(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=("strict", "mild"), samples=2, text="One\x1b[31m line\nand another"))
    file = verdicts_file("mild", "beta", DIMENSIONS[1])
    rows = [
        replace(row, state=State.UNREADABLE, score=None, issues=None, reason="no JSON")
        for row in work.run.read(Verdict, file)
    ]
    work.run.write(Verdict, file, rows)
    run = opened(work)
    transcript = run.transcript(f"{DIMENSIONS[1]}-002", "beta")
    assert {answer.subject for answer in transcript.answers} == {"beta"}
    told = str(transcript)
    assert "    One[U+001B][31m line\n    and another\n" in told and transcript.test.prompt.split("\n")[0] in told
    issues = {issue.letter: issue for issue in work.rubrics[DIMENSIONS[1]].judging.issues}
    strict = [verdict for answer in transcript.answers for verdict in answer.verdicts if verdict.judge == "strict"]
    for verdict in strict:
        assert f"strict: {verdict.score:g} of 10" in told
        for letter in verdict.issues or ():
            assert f"{letter}: {issues[letter].text} (-{issues[letter].deduction})" in told
    assert "Answer of beta, sample 1" in told and told.count("mild: no score (unreadable: no JSON)") == 2
    assert "alpha" not in told


def test_transcripts_come_in_the_order_of_the_tests(make_run: MakeRun) -> None:
    run = opened(make_run(Shape()))
    ids = run.tests().column("id").to_pylist()
    assert [t.test.id for t in run.transcripts()] == ids
    assert [t.test.id for t in run.transcripts(test_ids=[ids[7], ids[2]])] == [ids[2], ids[7]]
    assert {a.subject for t in run.transcripts(DIMENSIONS[0], "beta") for a in t.answers} == {"beta"}


def test_names_that_are_one_text_or_unknown_are_refused_instead_of_finding_nothing(make_run: MakeRun) -> None:
    run = opened(make_run(Shape()))
    one = run.tests().column("id")[0].as_py()
    with pytest.raises(ConfigError, match=rf"test_ids is the text '{one}', and must be a list: \['{one}'\]"):
        run.transcripts(test_ids=one)
    with pytest.raises(ConfigError, match=r"the run has no test 'nobody'; `tests\(\)` lists them"):
        run.transcripts(test_ids=[one, "nobody"])
    with pytest.raises(ConfigError, match=rf"the dimension {DIMENSIONS[1]} has no test '{one}'"):
        run.transcripts(DIMENSIONS[1], test_ids=[one])
    with pytest.raises(ConfigError, match=r"columns is the text 'state', and must be a list: \['state'\]"):
        run.responses(columns="state")


def test_settings_say_what_was_sent(work: Work) -> None:
    file = responses_file("beta", DIMENSIONS[1])
    rows = [replace(r, settings='{"max_tokens": "512"}', model_reported="") for r in work.run.read(Response, file)]
    work.run.write(Response, file, rows)
    settings = opened(work).settings()
    alpha, beta = settings.subjects
    assert settings.sweep == work.sweep and "prompts" in settings.hashes and "python" in settings.versions
    assert (alpha.subject, alpha.model, alpha.provider, alpha.responses) == ("alpha", "lab/alpha", "lab", 12)
    assert alpha.parameters == {"max_tokens": ("1000",), "temperature": ("0",), "top_p": ("0.95",)}
    assert beta.parameters == {"max_tokens": ("1000", "512"), "temperature": ("0",), "top_p": ("0.95",)}
    assert beta.reported == {"beta-2026-10-01": 6} and beta.responses == 12


def test_a_person_who_read_a_sample_stands_beside_the_panel(make_run: MakeRun) -> None:
    """40 verdicts of a further rater can be read, and change no score, no count and no bound."""
    work = make_run(Shape(tests=50))
    before, run = summarise(opened(work)), opened(work)
    name, (subject, dimension) = "Dr. Ada", ("alpha", DIMENSIONS[0])
    panels = work.run.read(Verdict, verdicts_file("strict", subject, dimension))
    own = [replace(v, judge=name, score=0, issues=()) for v in panels[:40]]
    work.run.write(Verdict, verdicts_file(name, subject, dimension), own)
    assert run.raters == ("strict", name) and run.panel == ("strict",)
    assert from_table(Verdict, run.verdicts(name)) == own
    after = summarise(opened(work))
    assert (after.scores, str(after.marks), after.statuses) == (before.scores, str(before.marks), before.statuses)
    first, last = run.transcript(panels[0].test_id), run.transcript(panels[49].test_id)
    assert [v.judge for v in first.answers[0].verdicts] == ["strict", name]
    assert [v.judge for v in last.answers[0].verdicts] == ["strict"]


@pytest.mark.parametrize("left_out", ["mild", "strict (reversed)"])
def test_a_judge_that_the_sweep_no_longer_names_is_no_rater(work: Work, left_out: str) -> None:
    """Its verdicts stay in the folder, and the record remembers that it was a judge."""
    file = verdicts_file("strict", "alpha", DIMENSIONS[0])
    rows = [replace(verdict, judge=left_out) for verdict in work.run.read(Verdict, file)]
    work.run.write(Verdict, verdicts_file(left_out, "alpha", DIMENSIONS[0]), rows)
    assert left_out in opened(work).raters
    amend_record(work.run_path, hashes=opened(work).record.hashes | {f"judges: {left_out}": "0" * 64})
    run = opened(work)
    assert run.raters == ("strict",) and list(run.further_verdicts()) == []
    assert {v.judge for each in run.transcripts() for a in each.answers for v in a.verdicts} == {"strict"}


def test_verdicts_beside_the_panels_come_part_by_part(work: Work) -> None:
    assert list(opened(work).further_verdicts()) == []
    panels = work.run.read(Verdict, verdicts_file("strict", "beta", DIMENSIONS[1]))
    for name in ("Dr. Ada", "bob"):
        own = [replace(verdict, judge=name) for verdict in panels]
        work.run.write(Verdict, verdicts_file(name, "beta", DIMENSIONS[1]), own)
    work.run.write(Verdict, verdicts_file("bob", "somebody else", DIMENSIONS[1]), panels)
    ((subject, dimension, table),) = opened(work).further_verdicts(columns=["judge", "test_id"])
    assert (subject, dimension, table.num_rows) == ("beta", DIMENSIONS[1], 2 * len(panels))
    assert set(table.column("judge").to_pylist()) == {"Dr. Ada", "bob"} and table.num_columns == 2


def test_a_run_that_has_only_begun_gives_empty_tables(tmp_path: Path) -> None:
    run = opened(begin_run(tmp_path, Shape()))
    assert [t.num_rows for t in (run.tests(), run.responses(), run.verdicts(), run.scores())] == [0, 0, 0, 0]
    assert list(run.transcripts()) == []
    assert [subject.responses for subject in run.settings().subjects] == [0, 0]


def test_what_is_not_answered_yet_is_absent(work: Work) -> None:
    (work.run_path.path / responses_file("beta", DIMENSIONS[0])).unlink()
    (work.run_path.path / verdicts_file("strict", "beta", DIMENSIONS[0])).unlink()
    run = opened(work)
    alpha, beta = run.transcript(f"{DIMENSIONS[0]}-000").answers
    assert alpha.response is not None and len(alpha.verdicts) == 1
    assert beta.response is None and beta.verdicts == ()
    assert run.responses("beta").num_rows == 6


def test_an_open_run_sees_rows_that_are_written_later(make_run: MakeRun, tmp_path: Path) -> None:
    run = opened(begin_run(tmp_path / "run", Shape()))
    make_run(Shape())
    assert run.responses().num_rows == 24


def test_there_must_be_a_run(tmp_path: Path) -> None:
    for place in (tmp_path, str(tmp_path / "nowhere")):
        with pytest.raises(ConfigError, match=r"there is no run here \(no sweep.yaml\)"):
            hab_ray.open_run(place)


@pytest.mark.parametrize("place", [None, b"run", "a\0b", "x\ud800", "s3://"])
def test_what_is_no_path_is_one_of_our_errors(place: Any) -> None:
    with pytest.raises(ConfigError, match="name the folder of a run"):
        hab_ray.open_run(place)


def test_a_record_of_a_newer_version_is_refused(make_run: MakeRun) -> None:
    record = make_run(Shape()).run_path.path / SWEEP
    record.write_text(yaml.safe_dump(yaml.safe_load(record.read_text()) | {"invented_later": 1}))
    with pytest.raises(ConfigError, match="invented_later"):
        hab_ray.open_run(record.parent)


def test_a_file_with_other_columns_is_damage(work: Work) -> None:
    file = work.run_path.path / responses_file("alpha", DIMENSIONS[0])
    pq.write_table(pq.read_table(file).drop_columns(["finish"]), file)
    with pytest.raises(DamagedFile, match="finish"):
        opened(work).responses()


def test_a_file_of_verdicts_without_scores_is_damage(work: Work) -> None:
    """They would leave every mean without a reason."""
    file = work.run_path.path / verdicts_file("strict", "alpha", DIMENSIONS[0])
    table = pq.read_table(file)
    pq.write_table(table.set_column(table.column_names.index("score"), "score", pa.nulls(table.num_rows)), file)
    with pytest.raises(DamagedFile, match="the column score is empty where the column state is ok"):
        summarise(opened(work))


@pytest.mark.parametrize("name", ["finished", "interrupted", "batches"])
def test_runs_of_format_0_can_be_read(name: str) -> None:
    run = hab_ray.open_run(FORMAT_0 / name / "run")
    assert run.subjects and run.tests().num_rows and run.record.id is None
    answered = run.responses().num_rows
    assert sum(a.response is not None for t in run.transcripts() for a in t.answers) == answered
    assert (run.scores().num_rows > 0) == (FORMAT_0 / name / "run" / SCORES).exists()


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = {"ray", "openai", "anthropic", "google.genai", "pyarrow", "pydantic"}
    assert not heavy & modules_after("import hab_ray; hab_ray.open_run")


def test_opening_a_run_loads_little_of_us_and_neither_ray_nor_an_sdk() -> None:
    loaded = modules_after(f"import hab_ray; hab_ray.open_run({str(FORMAT_0 / 'finished/run')!r}).scores()")
    assert not loaded & {"ray", "openai", "anthropic", "google.genai", "boto3"}
    ours = sorted(name for name in loaded if name.split(".")[0] == "hab_ray")
    assert 5 < len(ours) <= MAX_LOADED, ours


def test_a_judge_is_read_without_a_look_at_all_files(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """An analysis reads every judge part by part: to list all files each time took most of a report's time."""
    run = opened(make_run(Shape()))
    whole = run.verdicts()

    def listed(folder: LocalFolder, prefix: str = "") -> list[str]:
        raise AssertionError(prefix)

    monkeypatch.setattr(LocalFolder, "list", listed)
    assert run.verdicts("strict").equals(whole) and whole.num_rows > 0
