"""Tasks of judges, and verdict rows without the fields that come from the reply's text."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hab_ray.calls import Outcome, Reply
from hab_ray.config.sections import Judge
from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.rubric import Rubric


@dataclass(frozen=True)
class VerdictTask:
    """A response to judge, for the `replicate`-th time (from 0).

    `ask` is 1 if the first reply was unreadable; `problem` then says why, and `other_score` is that reply's score by
    the reading that is not in force. All three follow from the stored first reply, so that a resumed run makes the same
    second call.
    """

    test: ChosenTest
    response: Response
    replicate: int = 0
    ask: int = 0
    problem: str | None = None
    other_score: int | None = None

    @property
    def id(self) -> str:
        """The verdict's id within its shard: the response's id, followed by the replicate unless it is 0."""
        of_response = response_id(self.test.id, self.response.sample)
        return f"{of_response}#{self.replicate}" if self.replicate else of_response

    @property
    def values(self) -> Mapping[str, str]:
        """The values for the request's template."""
        return {"prompt": self.test.prompt, "context": self.test.context, "response": self.response.text}


def response_id(test_id: str, sample: int) -> str:
    """Return the id of a response within its shard."""
    return f"{test_id}#{sample}"


@dataclass(frozen=True)
class BlankVerdicts:
    """Makes a judge's rows with every field that does not come from the reply's text."""

    judge: Judge
    rubric: Rubric
    prompts_sha256: str

    @cached_property
    def _settings_sha256(self) -> str:
        return self.judge.sha256

    def of(self, task: VerdictTask, outcome: Outcome, bill: Mapping[str, Any]) -> Verdict:
        """Return a task's row, with the cost and usage of its call, which are `bill`."""
        literal = self.rubric.literal
        return Verdict(
            test_id=task.test.id,
            dimension=task.test.dimension,
            subject=task.response.subject,
            sample=task.response.sample,
            judge=self.judge.name,
            state=State.UNREADABLE,
            issues=None,
            assessment="",
            score=None,
            asks=task.ask + 1,
            reason="",
            rubric_sha256=self.rubric.sha256,
            prompts_sha256=self.prompts_sha256,
            settings_sha256=self._settings_sha256,
            replicate=task.replicate,
            reading=literal.reading.value if literal and literal.judging else "",
            other_score=task.other_score,
            at=outcome.at.isoformat(timespec="seconds") if isinstance(outcome, Reply) else None,
            **bill,
        )
