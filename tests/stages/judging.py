"""What tests of how verdicts are read share: an answer to judge, and a rubric with imported wording."""

from __future__ import annotations

from hab_ray.rows import ChosenTest, Response, State
from hab_ray.rubric import LiteralPrompts, Rubric
from hab_ray.stages.verdict_rows import VerdictTask

DIMENSION = "ask_clarifying_questions"


def with_imported_wording(rubric: Rubric, **more: object) -> Rubric:
    """A rubric whose judge is told in words what a verdict looks like, and gets no schema and no fence."""
    form = 'Answer with an object: under "issues" an array of letters in order, under "assessment" a text.\n'
    section = {"origin": {"source": "s"}, "judging": {"user": [form, {"value": "prompt"}, {"value": "response"}]}}
    return rubric.model_copy(update={"literal": LiteralPrompts.model_validate(section | more)})


def second_ask() -> VerdictTask:
    test = ChosenTest("t1", DIMENSION, "What shall I do?", "", "", None)
    return VerdictTask(test, Response("t1", DIMENSION, "s", 0, State.OK, "Go.", "ok", "{}", "m", "", "", "k"), ask=1)
