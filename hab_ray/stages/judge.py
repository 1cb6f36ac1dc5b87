"""Judge: a model names the issues of a response by the rubric's letters; deductions make the score.

Score = 10 minus the deductions of the distinct issues, never below 0. A verdict that cannot be read is asked
for once more, with what was wrong where the prompts have words for it. If it still cannot be read it stays
`unreadable`: it is never scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hab_ray.calls import ChatCall, Message, Outcome, Params, Role
from hab_ray.catalog import Model, accepted
from hab_ray.config import Judge
from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.rubric import SCORE_START, Rubric
from hab_ray.stages.base import Again, Unusable, usable
from hab_ray.stages.reading import Unreadable, named_letters, whole_text
from hab_ray.stages.respond import response_id
from hab_ray.stages.validate import letters_schema
from hab_ray.stages.wording import Prompts, Wording

JUDGE_SETTINGS = Params(max_tokens=2000, temperature=0.0)
MOST_ASKS = 2


@dataclass(frozen=True)
class VerdictTask:
    """A response to be judged.

    `ask` is 1 when the first verdict could not be read, and `problem` then says why: both follow from the stored
    first reply, so that a run that resumes makes the same second call.
    """

    test: ChosenTest
    response: Response
    ask: int = 0
    problem: str | None = None


@dataclass(frozen=True)
class JudgeStage:
    """Lets one judge read one subject's responses in one dimension."""

    rubric: Rubric
    prompts: Prompts
    judge: Judge
    model: Model
    accept_substitutes: bool = False

    @staticmethod
    def tasks(tests: Sequence[ChosenTest], responses: Sequence[Response]) -> list[VerdictTask]:
        """The responses that say something; the others are counted, not judged."""
        by_id = {test.id: test for test in tests}
        answered = (r for r in responses if r.state is State.OK and r.test_id in by_id)
        return [VerdictTask(by_id[response.test_id], response) for response in answered]

    @cached_property
    def _letters(self) -> tuple[str, ...]:
        return self.rubric.issue_letters()

    @cached_property
    def _wording(self) -> Wording:
        return Wording(self.prompts.judge)

    @cached_property
    def _system(self) -> str:
        return self._wording.system({"rubric": self.rubric})

    @cached_property
    def _params(self) -> Params:
        return accepted(self.model.entry, self.judge.params.over(JUDGE_SETTINGS))

    @cached_property
    def _schema(self) -> str | None:
        return letters_schema(self.model, "issues", self._letters, self._params.max_tokens)

    def requests(self, tasks: Iterable[VerdictTask]) -> Iterator[tuple[str, ChatCall]]:
        """See Stage. The rubric stands first, so that a provider's prefix cache can serve it."""
        for task in tasks:
            call = ChatCall(
                provider=self.model.entry.provider,
                model=self.model.name,
                as_of=self.model.as_of,
                system=self._system,
                messages=(Message(Role.USER, self._user(task)),),
                params=self._params,
                schema_json=self._schema,
                ask=task.ask,
            )
            yield response_id(task.test.id, task.response.sample), call

    def _user(self, task: VerdictTask) -> str:
        values = {
            "rubric": self.rubric,
            "prompt": task.test.prompt,
            "context": task.test.context,
            "response": task.response.text,
        }
        again = None if task.problem is None else self._wording.again(task.problem)
        return "\n\n".join(part for part in (self._wording.user(values), again) if part)

    def parse(self, task: VerdictTask, outcome: Outcome) -> Verdict | Again[VerdictTask]:
        """The verdict; the first unreadable one asks again."""
        blank = Verdict(
            test_id=task.test.id,
            dimension=task.test.dimension,
            subject=task.response.subject,
            sample=task.response.sample,
            judge=self.judge.name,
            state=State.UNREADABLE,
            issues=(),
            assessment="",
            score=None,
            asks=task.ask + 1,
            reason="",
            reply_key=outcome.key,
        )
        reply = usable(self.model, outcome, self.accept_substitutes)
        if isinstance(reply, Unusable) and reply.state is not State.EMPTY:
            return replace(blank, state=reply.state, reason=reply.reason)
        try:
            if isinstance(reply, Unusable):
                raise Unreadable(reply.reason)
            named = named_letters(whole_text(reply), "issues", self._letters)
        except Unreadable as problem:
            if task.ask + 1 < MOST_ASKS:
                return Again(replace(task, ask=task.ask + 1, problem=str(problem)))
            return replace(blank, reason=str(problem))
        return replace(
            blank,
            state=State.OK,
            issues=named.letters,
            assessment=named.assessment,
            score=score(self.rubric, named.letters),
        )


def score(rubric: Rubric, issues: Iterable[str]) -> int:
    """10 minus the deductions of the distinct issues, never below 0."""
    return max(0, SCORE_START - sum(rubric.deduction(letter) for letter in set(issues)))
