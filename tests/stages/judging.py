"""What tests of judges share: answers to judge, what is asked and read, and wording of other kinds."""

from collections.abc import Callable
from pathlib import Path

import yaml

from hab_ray.calls import ChatCall, Outcome, Reply
from hab_ray.resources import bundled
from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.rubric import LiteralPrompts, Rubric
from hab_ray.stages.base import Again
from hab_ray.stages.method.judge import JudgeStage
from hab_ray.stages.prompts.wording import Prompts, load_prompts
from hab_ray.stages.verdict_rows import VerdictTask

DIMENSION = "ask_clarifying_questions"
MakeReply = Callable[..., Reply]
MakeJudge = Callable[..., JudgeStage]


def asked(
    dimension: str = DIMENSION, text: str = "Go.", context: str = "", prompt: str = "What shall I do?", *, ask: int = 0
) -> VerdictTask:
    test = ChosenTest("t1", dimension, prompt, context, "", None)
    response = Response("t1", dimension, "subject", 0, State.OK, text, "ok", "{}", "m", "", "", "k")
    return VerdictTask(test, response, ask=ask)


def call_of(stage: JudgeStage, task: VerdictTask) -> ChatCall:
    ((_, call),) = stage.requests([task])
    return call


def verdict(stage: JudgeStage, task: VerdictTask, outcome: Outcome) -> Verdict:
    found = stage.parse(task, outcome)
    assert isinstance(found, Verdict), found
    return found


def task_again(stage: JudgeStage, task: VerdictTask, outcome: Outcome) -> VerdictTask:
    """The task of a verdict that is asked for once more."""
    found = stage.parse(task, outcome)
    assert isinstance(found, Again), found
    return found.task


def changed_prompts(folder: Path, **keys: str | None) -> Prompts:
    """The built-in prompts with keys of `judge` changed, from a file in a folder; None takes a key away."""
    own = yaml.safe_load(bundled("rubrics").joinpath("prompts.yaml").read_text(encoding="utf-8"))
    own["judge"] = {name: value for name, value in {**own["judge"], **keys}.items() if value is not None}
    (folder / "prompts.yaml").write_text(yaml.safe_dump(own), encoding="utf-8")
    return load_prompts(folder)


def with_imported_wording(rubric: Rubric, **more: object) -> Rubric:
    """A rubric whose judge is told in words what a verdict looks like, and gets no schema and no fence."""
    form = 'Answer with an object: under "issues" an array of letters in order, under "assessment" a text.\n'
    section = {"origin": {"source": "s"}, "judging": {"user": [form, {"value": "prompt"}, {"value": "response"}]}}
    return rubric.model_copy(update={"literal": LiteralPrompts.model_validate(section | more)})
