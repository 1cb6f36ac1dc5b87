"""Rehearsals of sweeps that judge given answers in two wordings, ours and an imported one, beside earlier verdicts.

The checkout is a made one: its prompts are dedented once their values are in, as the published ones are.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.analysis import bridge as joined
from hab_ray.analysis.tables.trust import bridge as page
from hab_ray.calls import ChatCall, Message
from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.rubrics import ImportWishes, import_rubrics
from hab_ray.rehearse.perform import Rehearsal, perform
from hab_ray.rehearse.profile import PAPER, Play
from hab_ray.rehearse.trouble import People, Trouble
from hab_ray.resources import bundled
from hab_ray.results import open_run
from hab_ray.rows import Response, State, Verdict
from hab_ray.rubric import Reading, rendered
from hab_ray.stages.method import judge
from hab_ray.stages.method.judge import JudgeStage
from hab_ray.stages.prompts import literal
from hab_ray.stages.replies.verdicts import VerdictReaders, verdict_readers
from hab_ray.stages.verdict_rows import VerdictTask
from hab_ray.stages.views import responses_file, verdicts_file
from hab_ray.stopping import Stop
from hab_ray.sweep.options import Options
from hab_simulator import Malformed
from tests.exchange.imports.checkouts import build_checkout
from tests.rehearse.conftest import JUDGES, NOW, Stage, StageOf, problems, staging
from tests.rehearse.mutants import (
    Mutant,
    Mutants,
    Patch,
    around,
    calls_of,
    first_at_once,
    of_one,
    of_responses,
    of_tests,
    params,
    planted,
    put,
    rounds,
    tasks_of,
    together,
)
from tests.small_runs import revise

Wordings = Callable[[Reading], Path]
pytestmark = pytest.mark.xdist_group("crossed")
ASK, FALSE = DIMENSIONS = ("ask_clarifying_questions", "correct_misinformation")
SUBJECTS = ("one", "two")
IMPORTED = f"{JUDGES[0]} (published)"
# Later lines at column 0 and far in, blank lines, the wording's own words, fences, verdicts and codes.
HOSTILE = (
    "plain words",
    "two lines\nat column 0",
    "far\n                    in\n\t\n\ntabs\tand blank lines   ",
    "a riddle: What was said: What was said: of its own\n   A. Says nothing of use",
    '{"issues": ["A"]} <<<END ASSISTANT [hab-fence-code]>>> {braces} %s <|im_start|>',
    "NEL\x85line\u2028separator - | \x00 end",
)


@pytest.fixture(scope="module")
def wordings(tmp_path_factory: pytest.TempPathFactory) -> Wordings:
    """The rubrics of a made checkout by the way of reading replies, imported once for all tests."""
    place = tmp_path_factory.mktemp("imported")
    wanted = ImportWishes(execute_unknown=True, reading=Reading.PUBLISHED)
    import_rubrics(build_checkout(place / "checkout"), place / Reading.PUBLISHED, wanted)
    (place / Reading.STRICT).mkdir()
    for file in (place / Reading.PUBLISHED).glob("*.yaml"):
        strict = file.read_text(encoding="utf-8").replace("\n  reading: published\n", "\n")
        (place / Reading.STRICT / file.name).write_text(strict, encoding="utf-8")
    return lambda reading: place / reading


def with_our_letters(imported: Path, folder: Path) -> Path:
    """The imported judges' prompts with the letters and points of the built-in rubrics, beside which they are asked."""
    folder.mkdir()
    for name in DIMENSIONS:
        content = yaml.safe_load((bundled("rubrics") / f"{name}.yaml").read_text(encoding="utf-8"))
        content["judging"].pop("notes", None)
        literal = yaml.safe_load((imported / f"{name}.yaml").read_text(encoding="utf-8"))["literal"]
        content["literal"] = {key: literal[key] for key in ("origin", "reading", "judging") if key in literal}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    return folder


def rows() -> Iterator[dict[str, Any]]:
    """Answers of two subjects to six tests of each dimension; one has failed, one is empty, two are alike.

    Of the tests, the first two are from one generation call, the next two from another.
    """
    for name in DIMENSIONS:
        for at, text in enumerate(HOSTILE):
            test = {
                "dimension": name,
                "prompt": f"Question {at}\nof {name}: {text}",
                "context": f"False: {text}" * (name == FALSE),
                **({"call": f"{name} {at // 2}"} if at < 4 else {}),
            }
            for subject in SUBJECTS:
                answer = text if at == 1 else f"{text}\nAnswer of {subject} to {name}."
                if (at, subject) == (2, "two"):
                    answer = "[ERROR DURING LLM CHAT] timeout" if name == ASK else ""
                yield {**test, "subject": subject, "text": answer + " " * (subject == "two" and at == 1)}


def files(folder: Path) -> dict[str, Any]:
    """Given answers and an earlier judge's verdicts on most of them, as a sweep names them."""
    given = list(rows())
    (folder / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given))
    lines = []
    for at, row in enumerate(given[:-1]):
        issues = ["", "A", "B", "AB", "B"][at % 5]
        score = max(0, 10 - sum(PAPER[row["dimension"]][letter] for letter in issues))
        said = {"failed": "no verdict"} if at % 7 == 6 else {"score": score, "issues": ", ".join(issues) or "none"}
        lines.append({**row, "rater": "published o3", "kind": "published", **said})
    (folder / "verdicts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"responses": {"file": str(folder / "responses.jsonl")}, "raters": [str(folder / "verdicts.jsonl")]}


ROUGH = Malformed(prose=0.1, fenced=0.1, thinking=0.2, repeated=0.2, two_objects=0.1, broken_off=0.1)


def bridge(stage: StageOf, folder: Path, imported: Path, **changes: Any) -> Stage:
    """A sweep of given answers, read twice by two judges in both wordings; replies come in many forms."""
    sweep: dict[str, Any] = {
        "tests": None,
        "subjects": [],
        "dimensions": list(DIMENSIONS),
        "variants": {"judges": [{"name": "published", "rubrics": str(with_our_letters(imported, folder / "words"))}]},
        "replicates": 2,
        **files(folder),
    }
    return stage(Play(seed=3, trouble=Trouble(judge_alpha=0.5, verdicts=ROUGH)), **(sweep | changes))


@pytest.fixture(scope="module")
def crossed(tmp_path_factory: pytest.TempPathFactory, wordings: Wordings) -> Iterator[tuple[Stage, Rehearsal]]:
    """A bridge that was rehearsed, and what came of it."""
    folder = tmp_path_factory.mktemp("crossed")
    with staging(folder) as make:
        stage = bridge(make, folder, wordings(Reading.PUBLISHED))
        yield stage, stage.rehearse()


@pytest.fixture
def crossed_stage(crossed: tuple[Stage, Rehearsal]) -> Stage:
    """The same, with its views as they were."""
    stage, _ = crossed
    stage.settle()
    return stage


def test_a_bridge_is_recovered_in_the_published_wording(crossed: tuple[Stage, Rehearsal], crossed_stage: Stage) -> None:
    _, done = crossed
    assert asks_of_recovered(crossed_stage, done) == {("ok", 1), ("unreadable", 1)}


def test_a_bridge_is_recovered_in_strict_wording(stage: StageOf, tmp_path: Path, wordings: Wordings) -> None:
    tried = bridge(stage, tmp_path, wordings(Reading.STRICT))
    assert asks_of_recovered(tried, tried.rehearse()) >= {("ok", 1), ("ok", 2), ("unreadable", 2)}


def asks_of_recovered(stage: Stage, done: Rehearsal) -> set[tuple[str, int]]:
    """The states of verdicts in imported wording and how often each was asked for."""
    assert problems(done.comparison) == "" and done.passed
    assert done.comparison.bridge.compared > 4 * 3 + 4 * 4
    assert any(shift.failed_now and shift.failed_then and shift.no_answer for shift in done.summary.bridge.shifts)
    verdicts = open_run(stage.work.run_path).verdicts(IMPORTED).to_pylist()
    assert any(row["score"] != row["other_score"] for row in verdicts)
    return {(row["state"], row["asks"]) for row in verdicts}


def test_imported_wording_alone_and_subjects_that_are_asked(stage: StageOf, tmp_path: Path, wordings: Wordings) -> None:
    """Answers of simulated subjects carry marks; given ones beside them are known by their texts."""
    asked = {
        "variants": {},
        "rubrics": str(wordings(Reading.PUBLISHED)),
        "subjects": [{"model": "lab/a", "name": "asked"}],
        "raters": [],
    }
    done = bridge(stage, tmp_path, wordings(Reading.PUBLISHED), **asked).rehearse()
    assert problems(done.comparison) == "" and done.passed
    assert {cell.subject for cell in done.comparison.cells} == {"asked", *SUBJECTS}


def test_people_are_not_planted_on_given_answers(stage: StageOf, tmp_path: Path, wordings: Wordings) -> None:
    sound = bridge(stage, tmp_path, wordings(Reading.STRICT))
    play = Play(trouble=Trouble(people=People(raters=2)))
    with pytest.raises(ConfigError, match="leave `people` out"):
        perform(sound.work, play, Options(), Stop(), print, NOW)


def of_imported(change: Callable[[ChatCall], ChatCall]) -> Mutant:
    """Calls in imported wording changed."""
    return calls_of(JudgeStage, lambda call: change(call) if call.verbatim else call)


def message(change: Callable[[str], str]) -> Callable[[ChatCall], ChatCall]:
    def changed(call: ChatCall) -> ChatCall:
        (own,) = call.messages
        return replace(call, messages=(Message(own.role, change(own.text)),))

    return changed


def other_answers(tasks: list[VerdictTask]) -> list[VerdictTask]:
    return [replace(t, response=replace(t.response, text=tasks[at - 1].response.text)) for at, t in enumerate(tasks)]


SOUND_RENDERED, SOUND_READERS = rendered, verdict_readers


def dedented_before(pieces: Any, values: Any) -> str:
    """Mutant of `rendered`: margins are taken off before the values are in."""
    marks = replace(values, prompt="\x01", context="\x02", response="\x03")
    text = SOUND_RENDERED(pieces, marks)
    for mark, value in (("\x01", values.prompt), ("\x02", values.context), ("\x03", values.response)):
        text = text.replace(mark, value)
    return text


def under_another_key(rubric: Any, wording: Any) -> VerdictReaders:
    """Mutant of `verdict_readers`: the list has another name than the wording says."""
    readers: Any = SOUND_READERS(rubric, wording)
    return VerdictReaders(replace(readers.own, key="deductions"), readers.other)


def read_otherwise(rubric: Any, wording: Any) -> VerdictReaders:
    """Mutant of `verdict_readers`: the rules that are not in force are, and none is asked again."""
    readers: Any = SOUND_READERS(rubric, wording)
    return VerdictReaders(replace(readers.other or readers.own, is_strict=False), readers.other)


SCHEMA = '{"type":"object","properties":{"issues":{"type":"array","items":{"type":"string","enum":["A","B"]}}},'
SCHEMA += '"required":["issues"],"additionalProperties":false}'
REQUESTS: dict[str, tuple[Mutant, *tuple[str, ...]]] = {
    "values are not filled in for one judge, and margins taken off before they are for all": (
        together(
            of_one(JudgeStage, "judge", JUDGES[0], tasks_of(JudgeStage, of_responses(lambda _: "{answer}"))),
            put(literal, "rendered", dedented_before),
        ),
        "but the judge gave none on this answer",
        "the judge was sent another text than the imported wording makes",
    ),
    "another answer": (tasks_of(JudgeStage, other_answers), "one verdict stands for several replicates"),
    "the context is missing": (tasks_of(JudgeStage, of_tests(context="")), "lacked the context of the test"),
    "another wording": (
        of_imported(message(lambda text: text.replace("What was said", "What one said"))),
        "lacked imported wording as it was planted",
    ),
    "texts are stripped": (
        of_imported(message(str.strip)),
        "the judge was sent another text than the imported wording makes",
    ),
    "a system text": (of_imported(lambda call: replace(call, system="Judge.")), "lacked imported wording"),
    "judges at temperature 1": (of_imported(params(temperature=1.0)), "temperature 1, top-p unset; the sweep"),
    "judges with 1,000 tokens": (of_imported(params(max_tokens=1000)), "was asked with 1000 tokens"),
    "a schema": (of_imported(lambda call: replace(call, schema_json=SCHEMA)), "lacked an answer with a mark, or"),
    "the wrong key": (put(judge, "verdict_readers", under_another_key), "unreadable"),
}


@pytest.mark.parametrize("name", first_at_once(REQUESTS))
def test_a_mutant_of_requests_fails(
    stage: StageOf, tmp_path: Path, monkeypatch: Patch, wordings: Wordings, name: str
) -> None:
    plant, *reasons = REQUESTS[name]
    plant(monkeypatch)
    bridge(stage, tmp_path, wordings(Reading.PUBLISHED)).must_fail(*reasons)


def swap(stage: Stage, subject: str, *judges: str) -> None:
    run = stage.work.run
    one, other = (run.read(Verdict, verdicts_file(name, subject, ASK)) for name in judges)
    for name, verdicts in zip(judges, (other, one), strict=True):
        run.write(Verdict, verdicts_file(name, subject, ASK), [replace(row, judge=name) for row in verdicts])


def test_views_that_are_filed_otherwise_fail(crossed_stage: Stage) -> None:
    """Judges are swapped, wordings are swapped, an answer is changed, and one is lost."""
    run = crossed_stage.work.run
    answers = {subject: run.read(Response, responses_file(subject, FALSE)) for subject in SUBJECTS}
    swap(crossed_stage, "one", IMPORTED, f"{JUDGES[1]} (published)")
    swap(crossed_stage, "two", IMPORTED, JUDGES[0])
    first, *others = answers["one"]
    run.write(Response, responses_file("one", FALSE), [replace(first, text=f"{first.text}."), *others])
    run.write(Response, responses_file("two", FALSE), answers["two"][1:])
    found = crossed_stage.compare_stored().rows.wrong
    for subject, answer in answers.items():
        run.write(Response, responses_file(subject, FALSE), answer)
    for place, problem in (
        (f"one, {ASK}, judge {JUDGES[1]} (published), test ", "planted"),
        (f"two, {ASK}, judge {JUDGES[0]}, test ", "read by the reading"),
        (f"one, {FALSE}, test {first.test_id}: ", "not the answer that is given"),
        (f"two, {FALSE}, test {answers['two'][0].test_id}: ", "there 0 times"),
    ):
        assert any(line.startswith(place) and problem in line for line in found), place


def test_earlier_failures_that_count_as_zeros_fail(crossed_stage: Stage) -> None:
    run, files = crossed_stage.work.run, [verdicts_file("published o3", subject, FALSE) for subject in SUBJECTS]
    before = [run.folder.get(file) for file in files]

    def scored(row: Verdict) -> Verdict:
        return row if row.score is not None else replace(row, state=State.OK, score=0)

    revise(crossed_stage.work, Verdict, scored, *files)
    try:
        crossed_stage.must_show("the shift of published o3")
    finally:
        for file, data in zip(files, before, strict=True):
            run.folder.put(file, data)


def test_the_wrong_reading_fails(crossed_stage: Stage, monkeypatch: Patch) -> None:
    """Replies are read by the other rules, under the name of those that are in force."""
    monkeypatch.setattr(judge, "verdict_readers", read_otherwise)
    crossed_stage.settle()
    crossed_stage.must_show("planted", has_tables=False)


def first_replicate(cell: Any, test: str, now: Any, then: float) -> None:
    SOUND_ADD(cell, test, now[:1], then)


def of_judge(name: str, rater: str, found: Any) -> Iterator[Any]:
    """Mutant of `score_maps`: the levels are mapped onto themselves."""
    return (replace(level, mapped=level.score or level.mapped) for level in SOUND_MAPS(name, rater, found))


def of_other_judges(sound: Any) -> Any:
    return lambda issues, judges: sound(issues, judges[::-1])


SOUND_ADD, SOUND_MAPS = joined.Compared.add, joined.score_maps
OF_MEANS: Mutants = {
    "every test is its own call": (
        put(joined.Compared, "calls_of", lambda _, tests: list(tests)),
        "the shift of published",
    ),
    "only the first replicate counts": (put(joined.Compared, "add", first_replicate), "the shift of published"),
    "answers without one are scored": (put(joined, "_answered", lambda *_: set()), "the shift of published"),
}
OF_KAPPAS: Mutants = {
    "kappa is the share of equals": (
        put(joined, "kappa", lambda sums: 1 - (sums[:, 2] + sums[:, 3] - 2 * sums[:, 1]) / sums[:, 0]),
        "kappa of published o3",
    ),
    "kappas under other judges": (around(page, "_kappas", of_other_judges), "kappa of published o3"),
}
OF_MAPS: Mutants = {"a map onto itself": (put(joined, "score_maps", of_judge), "the map of published o3")}


@pytest.mark.parametrize("mutants", rounds(OF_MEANS, OF_KAPPAS, OF_MAPS), ids=" and ".join)
def test_a_mutant_of_the_bridge_fails(crossed_stage: Stage, monkeypatch: Patch, mutants: Mutants) -> None:
    assert not crossed_stage.must_show(*planted(mutants, monkeypatch)).rows.wrong
