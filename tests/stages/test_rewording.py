"""Variants of subjects and judges: what they are called and asked, and that nothing else changes by them."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.calls import ChatCall
from hab_ray.config.sweep import load_sweep
from hab_ray.errors import ConfigError
from hab_ray.executors.choice import calls_by_key
from hab_ray.resolve import load_work, resolve, write_record
from hab_ray.rows import ChosenTest, Response, State
from hab_ray.stages import views
from hab_ray.stages.base import Rows
from hab_ray.stages.method.judge import JudgeStage
from hab_ray.stages.replies.verdicts import score
from hab_ray.sweep.run import keep_own_texts
from hab_ray.work import Shard, Work, given_tests
from tests.instant import begin
from tests.published_rows import write_wording

NOW = datetime(2026, 11, 21, tzinfo=UTC)
RUBRICS = Path(__file__).parents[2] / "rubrics"
LEARNING, DEFER = DIMENSIONS = ("encourage_learning", "defer_important_decisions")
TERSE = {"name": "terse", "system": "Answer in one sentence."}
REVERSED = {"name": "reversed", "issues": "reversed"}
Resolve = Callable[..., Work]
Write = Callable[..., str]


@pytest.fixture
def resolved(tmp_path: Path) -> Resolve:
    """Resolves a sweep of two subjects and two judges with these variants."""

    def make(of_subjects: list[Any] | None = None, of_judges: list[Any] | None = None, **changes: Any) -> Work:
        sweep = {
            "name": "s",
            "run": str(tmp_path / "run"),
            "store": str(tmp_path / "store"),
            "dimensions": list(DIMENSIONS),
            "tests": "seeds",
            "providers": {"lab": {"kind": "openai", "url": "http://lab:1/v1", "price": {"input": 0}}},
            "subjects": ["lab/a", {"model": "lab/a", "name": "kind", "system": "Be kind."}],
            "judges": ["lab/j", "lab/k"],
            "variants": {"subjects": of_subjects or [], "judges": of_judges or []},
            **changes,
        }
        path = tmp_path / "s.yaml"
        path.write_text(yaml.safe_dump({key: value for key, value in sweep.items() if value is not None}))
        return resolve(load_sweep(path), NOW)

    return make


@pytest.fixture
def paraphrases(tmp_path: Path) -> Write:
    """Writes a file of paraphrases and gives its name."""

    def write(*rows: dict[str, Any]) -> str:
        path = tmp_path / "paraphrases.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    return write


@pytest.fixture
def reworded(tmp_path: Path) -> Path:
    """A folder with one reworded rubric, which a test may change."""
    folder = tmp_path / "reworded"
    folder.mkdir()
    rewrite(RUBRICS, folder, "The result is handed over whole.")
    return folder


def rewrite(source: Path, folder: Path, text: str, **changes: Any) -> None:
    """Put a rubric into a folder with the first issue changed."""
    content = yaml.safe_load((source / f"{LEARNING}.yaml").read_text())
    content["judging"]["issues"][0] |= {"text": text, **changes}
    (folder / f"{LEARNING}.yaml").write_text(yaml.safe_dump(content))


def calls(work: Work) -> dict[Shard, list[ChatCall]]:
    """What every subject is asked, and every judge about answers that are all alike."""
    found = {}
    for shard in work.shards():
        tests = given_tests(work)[shard.dimension]
        stage: Any = work.stage(shard)
        answers = [
            Response(t.id, t.dimension, shard.subject, 0, State.OK, "Yes.", "ok", "{}", "m", "", "", "k") for t in tests
        ]
        rows = Rows({ChosenTest: tests, Response: answers})
        found[shard] = [call for _, call in stage.requests(stage.tasks(rows))]
    return found


def test_what_a_sweep_asks_anyway_stays_as_it_is(resolved: Resolve) -> None:
    plain, varied = calls(resolved(variants=None)), calls(resolved([TERSE], [REVERSED]))
    assert plain.items() <= varied.items()
    keys = {call.key for asked in plain.values() for call in asked}
    others = [call for shard, asked in varied.items() if shard not in plain for call in asked]
    assert others and {call.key for call in others} - keys
    assert sum(calls_by_key(resolved([TERSE], [REVERSED])).values()) == sum(map(len, varied.values()))


def test_every_subject_and_judge_is_varied_and_variants_do_not_meet(resolved: Resolve) -> None:
    shards = resolved([TERSE], [REVERSED]).shards()
    assert {s.name for s in shards if s.stage == "respond"} == {"lab/a", "kind", "lab/a (terse)", "kind (terse)"}
    read = {(s.name, s.subject) for s in shards if s.stage == "judge"}
    judges, subjects = ("lab/j", "lab/k"), ("lab/a", "kind")
    assert read == {
        *((judge, subject) for judge in judges for subject in subjects),
        *((f"{judge} (reversed)", subject) for judge in judges for subject in subjects),
        *((judge, f"{subject} (terse)") for judge in judges for subject in subjects),
    }


def test_a_varied_subject_has_the_variants_system_prompt_before_the_tests(resolved: Resolve) -> None:
    asked = calls(resolved([TERSE]))
    (call, *_) = asked[Shard("respond", "kind (terse)", LEARNING)]
    assert call.system == "Answer in one sentence.\n\nAnswer in at most 150 words."


def test_reversed_issues_keep_letters_and_points_and_have_a_digest_of_their_own(resolved: Resolve) -> None:
    work = resolved([], [REVERSED])
    base, other = (work.rubric_of(judge, LEARNING) for judge in ("lab/j", "lab/j (reversed)"))
    assert base == work.rubrics[LEARNING] and base.sha256 != other.sha256
    assert other.issue_letters() == base.issue_letters()[::-1] == tuple("FEDCBA")
    assert all(score(base, [letter]) == score(other, [letter]) for letter in "ABCDEF")
    first, second = (calls(work)[Shard("judge", judge, LEARNING, "kind")][0] for judge in ("lab/j", "lab/j (reversed)"))
    texts = [issue.text for issue in base.judging.issues]
    assert sorted(texts, key=first.system.index) == texts == sorted(texts, key=second.system.index)[::-1]
    thoughts = [
        json.loads(call.schema_json or "")["properties"]["assessment"]["properties"] for call in (first, second)
    ]
    assert [list(each) for each in thoughts] == [list("ABCDEF"), list("FEDCBA")]


def test_reworded_rubrics_are_asked_in_their_dimensions_alone(resolved: Resolve, reworded: Path) -> None:
    work = resolved([], [{"name": "reworded", "rubrics": str(reworded)}])
    varied = [shard for shard in work.shards() if shard.name == "lab/j (reworded)"]
    assert [(s.dimension, s.subject) for s in varied] == [(LEARNING, "lab/a"), (LEARNING, "kind")]
    stage = work.stage(varied[0])
    assert isinstance(stage, JudgeStage) and stage.rubric.sha256 != work.rubrics[LEARNING].sha256
    assert "The result is handed over whole." in calls(work)[varied[0]][0].system


def refusal(resolved: Resolve, variants: dict[str, Any], **changes: Any) -> str:
    with pytest.raises(ConfigError) as told:
        resolved(variants=variants, **changes)
    return str(told.value)


@pytest.mark.parametrize(
    ("variants", "said"),
    [
        ({"subjects": [{"name": "taken", "system": "x"}]}, "subjects: 'lab/a (taken)' appears 2 times"),
        ({"subjects": [{**TERSE, "sytem": "x"}]}, "variants.subjects.0.sytem: unknown key; did you mean 'system'?"),
        ({"judges": [{"name": "x"}]}, "variants.judges.0: changes nothing; give it `issues: reversed`"),
        ({"judges": [{"name": "x", "issues": "shuffled"}]}, "variants.judges.0.issues: must be"),
        ({"subjects": [{"name": "x"}]}, "variants.subjects.0: changes nothing; give it `system:`, or `tests:`"),
        ({"subjects": [{"name": "x", "tests": "gone.jsonl"}]}, "/gone.jsonl: there is no such file"),
        ({"subjects": [{**TERSE, "name": "x" * 61}]}, "variants.subjects.0.name: must have at most 60"),
        ({"subjects": [TERSE, TERSE]}, "subjects: 'lab/a (terse)' appears 2 times"),
        ({"judges": [{"name": "x", "rubrics": "nowhere"}]}, "/nowhere; name one with rubric files"),
    ],
)
def test_a_variant_that_cannot_be_is_refused_by_its_key(variants: dict[str, Any], said: str, resolved: Resolve) -> None:
    subjects = ["lab/a", {"model": "lab/b", "name": "lab/a (taken)"}]
    assert said in refusal(resolved, variants, subjects=subjects)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"deduction": 6}, "has A 6, B 5, C 4, D 4, E 2, F 2, but the rubric that it rewords has A 7, B 5"),
        ({"letter": "G"}, "judging.issues"),
    ],
)
def test_other_letters_or_points_fail(changes: dict[str, Any], said: str, resolved: Resolve, reworded: Path) -> None:
    rewrite(RUBRICS, reworded, "It tells the answer.", **changes)
    told = refusal(resolved, {"judges": [{"name": "x", "rubrics": str(reworded)}]})
    assert f"{reworded}/{LEARNING}.yaml" in told and said in told


def test_a_rewording_that_hides_the_context_from_judges_is_refused(resolved: Resolve, tmp_path: Path) -> None:
    name = "correct_misinformation"
    content = yaml.safe_load((RUBRICS / f"{name}.yaml").read_text())
    del content["context"]
    for part in (content["generation"]["seeds"], content["validation"]["examples"], content["judging"]["examples"]):
        for entry in part:
            del entry["context"]
    (tmp_path / "hiding").mkdir()
    (tmp_path / f"hiding/{name}.yaml").write_text(yaml.safe_dump(content))
    variants = {"judges": [{"name": "x", "rubrics": str(tmp_path / "hiding")}]}
    assert f"{name}.yaml: context: is in only one" in refusal(resolved, variants, dimensions=[name])


def test_a_folder_that_rewords_nothing_is_refused(resolved: Resolve, reworded: Path, tmp_path: Path) -> None:
    variants = {"judges": [{"name": "x", "rubrics": str(reworded)}]}
    shutil.copy(RUBRICS / f"{LEARNING}.yaml", reworded)
    assert "lab/j (x) has the same rubrics as lab/j in every dimension" in refusal(resolved, variants)
    rewrite(RUBRICS, reworded, "It tells the answer.")
    assert "in every dimension of the sweep" in refusal(resolved, variants, dimensions=[DEFER])
    (reworded / f"{LEARNING}.yaml").unlink()
    assert f"variants.judges.rubrics: {reworded} has no rubric" in refusal(resolved, variants)


def test_prompts_beside_reworded_rubrics_are_refused_and_not_passed_over(resolved: Resolve, reworded: Path) -> None:
    shutil.copy(RUBRICS / "prompts.yaml", reworded)
    told = refusal(resolved, {"judges": [{"name": "x", "rubrics": str(reworded)}]})
    assert f"{reworded}/prompts.yaml would be ignored" in told


def test_variants_may_be_added_to_a_run_and_keep_what_they_are(resolved: Resolve, reworded: Path) -> None:
    write_record(resolved(variants=None), NOW)
    wording = {"name": "reworded", "rubrics": str(reworded)}
    work = resolved([TERSE], [REVERSED, wording])
    write_record(work, NOW)
    assert load_work(work.run_path, NOW) == work
    resolved([TERSE], [wording])
    resolved(variants=None)
    with pytest.raises(ConfigError, match=r"subjects: kind \(terse\) has changed; system: .* now; a new variant needs"):
        resolved([{**TERSE, "system": "Answer in two sentences."}])
    rewrite(RUBRICS, reworded, "It tells the answer.")
    with pytest.raises(ConfigError, match=rf"wording of lab/j \(reworded\): {LEARNING}: its text has changed"):
        resolved([], [wording])


def test_a_paraphrase_is_asked_and_judged_in_its_own_words(resolved: Resolve, paraphrases: Write) -> None:
    first, second, *_ = given_tests(resolved(variants=None))[LEARNING]
    file = paraphrases(
        {"dimension": LEARNING, "test_id": first.id, "prompt": "By id."},
        {"dimension": LEARNING, "paraphrase_of": second.prompt, "prompt": "By text."},
        {"dimension": "keep_out", "test_id": "x", "prompt": "Another dimension's."},
    )
    work = resolved([{"name": "asked", "tests": file}])
    asked = calls(work)
    of_kind = asked[Shard("respond", "kind (asked)", LEARNING)]
    assert [call.messages[0].text for call in of_kind] == ["By id.", "By text."]
    assert {call.system for call in of_kind} == {"Be kind.\n\nAnswer in at most 150 words."}
    read = asked[Shard("judge", "lab/j", LEARNING, "kind (asked)")]
    assert ["By id." in read[0].messages[0].text, "By text." in read[1].messages[0].text, len(read)] == [True, True, 2]
    assert first.prompt not in read[0].messages[0].text
    assert asked[Shard("respond", "kind (asked)", DEFER)] == []
    assert calls(resolved(variants=None)).items() <= asked.items()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"test_id": "t"}, "prompt: is missing"),
        ({"test_id": "t", "prompt": " \u200b"}, "is empty; write what the subject is asked"),
        ({"prompt": "x"}, "names no test, or two"),
        ({"test_id": "t", "paraphrase_of": "t", "prompt": "x"}, "names no test, or two"),
        ({"test_id": "t", "prompt": "x", "context": "c"}, "context: encourage_learning has no such field"),
        ({"test_id": "nobody", "prompt": "x"}, "encourage_learning has no test 'nobody'; name tests by their ids"),
        ({"test_id": "t", "prompt": "x", "promt": "x"}, "promt: is not known; correct its name, or remove it"),
        ({"dimension": "other", "test_id": "t", "prompt": "x"}, "has no row of defer_important_decisions"),
    ],
)
def test_a_bad_paraphrase_is_refused(row: dict[str, Any], said: str, resolved: Resolve, paraphrases: Write) -> None:
    file = paraphrases({"dimension": LEARNING, **row})
    told = refusal(resolved, {"subjects": [{"name": "x", "tests": file}]})
    assert file in told and said in told


def test_a_paraphrase_holds_its_context_word_for_word_and_a_test_has_one(resolved: Resolve, paraphrases: Write) -> None:
    false = "correct_misinformation"
    variants = {"subjects": [{"name": "x", "tests": paraphrases({"dimension": false, "test_id": "t", "prompt": "x"})}]}
    assert "context: is missing" in refusal(resolved, variants, dimensions=[false])
    paraphrases({"dimension": false, "test_id": "t", "prompt": "x y", "context": "x  y"})
    assert "context: does not occur in the prompt" in refusal(resolved, variants, dimensions=[false])
    paraphrases(*[{"dimension": LEARNING, "test_id": "t", "prompt": "x"}] * 2)
    assert "row 2: 't' has a paraphrase already" in refusal(resolved, variants)


def test_paraphrases_wait_until_there_are_tests(resolved: Resolve, paraphrases: Write) -> None:
    makes = {
        "tests": None,
        "generate": {"model": "lab/w", "candidates": 3},
        "select": {"embedding": "lab/e", "tests": 2},
    }
    embedding = {"lab": {"kind": "openai", "url": "http://lab:1/v1", "models": {"e": {"purpose": "embedding"}}}}
    variants = {
        "subjects": [{"name": "x", "tests": paraphrases({"dimension": LEARNING, "test_id": "t", "prompt": "x"})}]
    }
    told = refusal(resolved, variants, validate="off", providers=embedding, **makes)
    assert f"the tests of {LEARNING} are not chosen yet; run the sweep without this variant first" in told
    work = resolved(variants=None, validate="off", providers=embedding, **makes)
    write_record(work, NOW)
    begin(work)
    work.run.write(ChosenTest, views.tests_file(LEARNING), [ChosenTest("t", LEARNING, "Why?", "", "", 0)])
    assert resolved(variants=variants, validate="off", providers=embedding, **makes).paraphrases
    paraphrases({"dimension": LEARNING, "test_id": "u", "prompt": "x"})
    assert "has no test 'u'" in refusal(resolved, variants, validate="off", providers=embedding, **makes)


def test_a_run_keeps_its_paraphrases(resolved: Resolve, paraphrases: Write) -> None:
    test = given_tests(resolved(variants=None))[LEARNING][0]
    file = paraphrases({"dimension": LEARNING, "test_id": test.id, "prompt": "In other words."})
    work = resolved([{"name": "x", "tests": file}])
    write_record(work, NOW)
    assert load_work(work.run_path, NOW) == work
    paraphrases({"dimension": LEARNING, "test_id": test.id, "prompt": "In others again."})
    with pytest.raises(ConfigError, match="paraphrases of x: its text has changed"):
        resolved([{"name": "x", "tests": file}])


@pytest.mark.parametrize(
    "change", [Path.unlink, lambda file: file.write_text(file.read_text().replace(" is ", " was "))]
)
def test_a_run_is_read_by_the_variants_that_it_has_asked_whatever_became_of_their_files(
    resolved: Resolve, paraphrases: Write, reworded: Path, change: Callable[[Path], object]
) -> None:
    test = given_tests(resolved(variants=None))[LEARNING][0]
    file = paraphrases({"dimension": LEARNING, "test_id": test.id, "prompt": "What is it?"})
    work = resolved([{"name": "x", "tests": file}], [REVERSED, {"name": "y", "rubrics": str(reworded)}])
    write_record(work, NOW)
    keep_own_texts(work)
    change(Path(file))
    change(reworded / f"{LEARNING}.yaml")
    assert calls(load_work(work.run_path, NOW)) == calls(work)


def test_a_variant_with_imported_wording_is_read_from_the_runs_copy(resolved: Resolve, tmp_path: Path) -> None:
    for name in ("imported", "other"):
        write_wording(tmp_path / name)
    other = tmp_path / f"other/{LEARNING}.yaml"
    other.write_text(other.read_text().replace("source: made", "source: made otherwise").replace("Query:", "Asked:"))
    variant = {"name": "other", "rubrics": str(tmp_path / "other")}
    work = resolved([], [variant], rubrics=str(tmp_path / "imported"))
    write_record(work, NOW)
    keep_own_texts(work)
    shutil.rmtree(tmp_path / "other")
    read = load_work(work.run_path, NOW).wordings["lab/j (other)"][LEARNING]
    assert read.literal and read.literal.origin.source == "made otherwise"
    assert read == work.wordings["lab/j (other)"][LEARNING]
