"""Rehearsals of sweeps that ask the same twice: every replicate and variant is there, and is what was planted."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.analysis.tables.variants import variants
from hab_ray.calls import ChatCall
from hab_ray.rehearse.profile import Play
from hab_ray.rehearse.rows import compare_rows
from hab_ray.rehearse.trouble import People, Trouble
from hab_ray.rehearse.truth import Truth
from hab_ray.report import write_report
from hab_ray.resources import bundled
from hab_ray.results import open_run
from hab_ray.rows import id_of_test
from hab_ray.rubric import load_rubrics
from hab_ray.stages.method import judge
from hab_ray.stages.method.judge import JudgeStage
from hab_ray.stages.method.respond import RespondStage, ResponseTask
from hab_ray.stages.spec import ResolvedSweep
from hab_ray.sweep.monitoring import reporting
from hab_simulator import Malformed
from tests.rehearse.conftest import ASKED, DIMENSIONS, HOSTILE, JUDGES, SUBJECTS, TESTS, StageOf, problems
from tests.rehearse.mutants import then

SUBJECT_VARIANTS = [{"name": "terse", "system": "Answer in at most three sentences."}]
JUDGE_VARIANTS = [{"name": "reversed", "issues": "reversed"}]


def reworded(folder: Path) -> dict[str, str]:
    """A variant of judges with one rubric, whose issues are in other words."""
    content = yaml.safe_load((bundled("rubrics") / f"{DIMENSIONS[1]}.yaml").read_text(encoding="utf-8"))
    for issue in content["judging"]["issues"]:
        issue["text"] = f"In other words: {issue['text']}"
    folder.mkdir()
    (folder / f"{DIMENSIONS[1]}.yaml").write_text(yaml.safe_dump(content))
    return {"name": "reworded", "rubrics": str(folder)}


def test_variants_and_replicates_are_recovered(stage: StageOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    varied = {"subjects": SUBJECT_VARIANTS, "judges": [*JUDGE_VARIANTS, reworded(tmp_path / "reworded")]}
    people = People(raters=2, share=0.5, bias=-1.0)
    trouble = Trouble(judge_alpha=0.5, verdicts=Malformed(broken_off=0.4), people=people)
    beside = stage(Play(trouble=trouble), variants=varied, replicates=2)
    done = beside.rehearse()
    assert problems(done.comparison) == "" and done.passed and done.comparison.people.compared
    run = open_run(beside.work.run_path)
    assert run.subjects == SUBJECTS and run.panel == JUDGES
    varied_judges = [f"{judge} ({name})" for judge in JUDGES for name in ("reversed", "reworded")]
    assert run.raters == (*JUDGES, *varied_judges, "person-1", "person-2")
    assert {score.subject for score in done.summary.scores} == set(SUBJECTS)
    found = variants(done.summary)
    judged = [change for change in found if change.is_judge]
    assert len(found) - len(judged) == len(SUBJECTS) * len(DIMENSIONS)
    assert len(judged) == len(JUDGES) * (len(DIMENSIONS) + 1)
    assert any(change.n < change.asked for change in found)
    page = write_report(done.summary).path.read_text()
    assert "Variants</h2>" in page and "plain (terse)" in page and "Replicates</h2>" in page
    rows = run.verdicts().to_pylist()
    answers = len(SUBJECTS) * ASKED * len(JUDGES)
    assert Counter(row["replicate"] for row in rows) == {0: answers, 1: answers}
    assert len({row["reply_key"] for row in rows}) == len(rows)
    then(JudgeStage, "tasks", lambda tasks: tasks[:-1])(monkeypatch)  # one replicate of one answer is lost
    beside.settle()
    compared = compare_rows(run, Truth(beside.work, beside.client))
    assert any("there 0 times (sample 0, replicate 1)" in str(problem) for problem in compared.wrong)


def test_variants_who_are_asked_as_their_bases_are(stage: StageOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judges are shown the rubric as it is written, subjects asked under the system prompt of their base."""
    monkeypatch.setattr(ResolvedSweep, "rubric_of", lambda self, judge, dimension: self.rubrics[dimension])
    sound = RespondStage.requests

    def requests(self: RespondStage, tasks: Iterable[ResponseTask]) -> Iterator[tuple[str, ChatCall]]:
        base = {f"{name} (terse)": system for name, system in zip(SUBJECTS, ("", "Be kind."), strict=True)}
        own = base.get(self.subject.name, self.subject.system)
        return sound(replace(self, subject=self.subject.model_copy(update={"system": own})), tasks)

    monkeypatch.setattr(RespondStage, "requests", requests)
    variants = {"subjects": SUBJECT_VARIANTS, "judges": JUDGE_VARIANTS}
    told = problems(stage(Play(trouble=Trouble(judge_alpha=0.5)), variants=variants).rehearse().comparison)
    assert "plain (terse), correct_misinformation, test" in told
    assert "judge first (reversed)" in told and "gave none on this answer" in told


def paraphrases(folder: Path) -> str:
    """A file that has the first two of three tests of each dimension in other words."""
    lines = []
    for name in DIMENSIONS:
        first, second, *_ = load_rubrics()[name].seeds
        hostile = id_of_test(name, f"{second.prompt}{HOSTILE}", second.context or "")
        for seed, test in ((first, {"paraphrase_of": first.prompt}), (second, {"test_id": hostile})):
            lines.append({"dimension": name, "prompt": f"So: {seed.prompt}", "context": seed.context or "", **test})
    path = folder / "paraphrases.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_paraphrases_are_recovered_and_a_judge_who_is_shown_the_test_is_noticed(
    stage: StageOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    variants_of = {"variants": {"subjects": [{"name": "so", "tests": paraphrases(tmp_path)}]}}
    done = stage(**variants_of).rehearse()
    assert problems(done.comparison) == "" and done.passed
    found = variants(done.summary)
    assert {(change.n, change.asked) for change in found if not change.is_judge} == {(2, TESTS), (2, 2)}
    monkeypatch.setattr(judge, "paraphrased", lambda tests, _: list(tests))
    found_out = stage(**variants_of, judges=[{"model": "lab/first", "name": JUDGES[0]}]).rehearse()
    assert "lacked the test to which the answer was given" in problems(found_out.comparison)


def test_given_tests_that_share_a_generation_call_are_recovered(stage: StageOf, tmp_path: Path) -> None:
    seeds = load_rubrics()[DIMENSIONS[1]].seeds[:4]
    lines = [
        {"dimension": DIMENSIONS[1], "prompt": seed.prompt, "call": f"c{at // 2}"} for at, seed in enumerate(seeds)
    ]
    (tests := tmp_path / "of-calls.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = stage(tests=str(tests), dimensions=[DIMENSIONS[1]]).rehearse()
    assert problems(done.comparison) == "" and done.passed
    assert {score.calls for score in done.summary.scores} == {2}


EXPERIMENTS = Path(__file__).parents[2] / "jobs/experiments"
SHIPPED = sorted(file.stem for file in EXPERIMENTS.glob("*.yaml"))


def experiment(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((EXPERIMENTS / f"{name}.yaml").read_text())
    return content | ({"rubrics": str(EXPERIMENTS / content["rubrics"])} if "rubrics" in content else {})


def scaled(name: str, folder: Path) -> dict[str, Any]:
    """A shipped experiment on three tests of one dimension, as changes to the sweep that is staged.

    Only what goes without validation makes its tests here, by batch: that takes seconds, and other rehearsals do it
    online as well.
    """
    sweep = {**experiment(name), "mode": "online", "providers": {}}
    if sweep["dimensions"] == "all":
        sweep["dimensions"] = [DIMENSIONS[0]]
    if sweep["validate"] is False:
        sweep["generate"]["candidates"], sweep["select"]["tests"], sweep["tests"] = 9, TESTS, None
        sweep["mode"] = "batch"
    elif "rubrics" in sweep:
        (dimension,), tests = sweep["dimensions"], folder / "own-tests.jsonl"
        seeds = load_rubrics(Path(sweep["rubrics"]))[dimension].seeds[:TESTS]
        lines = [json.dumps({"dimension": dimension, "prompt": seed.prompt}) for seed in seeds]
        tests.write_text("\n".join(lines))
        sweep["tests"] = str(tests)
    return sweep


def test_the_experiments_that_ship_are_the_papers_and_their_ablation() -> None:
    assert SHIPPED == ["filter-ablation", "filter-ablation-off", "human-check", "seventh-dimension"]
    one, other = map(experiment, SHIPPED[:2])
    differing = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
    assert differing == {"name", "validate", "budget_usd"} and other["validate"] is False


@pytest.mark.parametrize("name", SHIPPED[1:])
def test_a_shipped_experiment_is_recovered(
    stage: StageOf, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run shows its progress now and then, or never: what it asks does not hang on that, nor what is planted.

    The simulator learns of chosen tests in time by batch too.
    """
    monkeypatch.setattr(reporting, "SHOW_EVERY_S", 3.0)
    staged = stage(Play(turnaround_s=0.2), **scaled(name, tmp_path))
    done = staged.rehearse()
    assert problems(done.comparison) == "" and done.passed
    found = open_run(staged.work.run_path)
    assert found.tests().num_rows == TESTS * len(found.dimensions)
    assert write_report(done.summary).path.is_file()
