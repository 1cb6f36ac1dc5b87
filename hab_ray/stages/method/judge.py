"""Step 6, judge: a model names the issues of a response by the rubric's letters; deductions make the score.

Score = 10 minus the deductions of the distinct issues, never below 0. A verdict that cannot be read is asked
for once more, with what was wrong where the prompts have words for it. If it still cannot be read it stays
`unreadable`: it is never scored. Verdicts of an imported rubric under `reading: published` are read and scored as the
published code does (`replies.published`): each time a letter is named costs, and nothing is asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hab_ray.calls import ChatCall, Message, Outcome, Params, Reply, Role
from hab_ray.catalog import Model, accepted
from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.rubric import SCORE_START, Reading, Rubric
from hab_ray.sections import Judge
from hab_ray.stages.base import Again, CallStage, Rows, Unusable, usable, with_bill
from hab_ray.stages.method.respond import as_asked, response_id
from hab_ray.stages.method.validate import letters_schema, text_schema
from hab_ray.stages.prompts.wording import Prompts, Reasoning, Wording, object_schema
from hab_ray.stages.replies.copying import COPIED, Shown
from hab_ray.stages.replies.published import loose_verdict
from hab_ray.stages.replies.reading import Unreadable, named_letters, whole_text
from hab_ray.stages.spec import Paraphrases

JUDGE_SETTINGS = Params(max_tokens=2000, temperature=0.0)
MOST_ASKS = 2
TYPICAL_TOKENS = 250
TYPICAL_TOKENS_AN_ISSUE = 70


@dataclass(frozen=True)
class VerdictTask:
    """A response to be judged.

    `replicate` counts from 0 how often the judge was given it before.
    `ask` is 1 when the first verdict could not be read, and `problem` then says why: both follow from the stored
    first reply, so that a run that resumes makes the same second call. So does `other_score`, which that reply has by
    the reading that is not in force.
    """

    test: ChosenTest
    response: Response
    replicate: int = 0
    ask: int = 0
    problem: str | None = None
    other_score: int | None = None


@dataclass(frozen=True)
class _Found:
    """What is read of a reply: letters (None: it lists none at all), words and score."""

    letters: tuple[str, ...] | None
    assessment: str
    score: int


@dataclass(frozen=True)
class JudgeStage(CallStage[VerdictTask, Verdict]):
    """Lets one judge read one subject's responses in one dimension; in `words` the subject was asked."""

    rubric: Rubric
    prompts: Prompts
    judge: Judge
    model: Model
    replicates: int = 1
    accept_substitutes: bool = False
    words: Paraphrases | None = None

    def tasks(self, rows: Rows) -> list[VerdictTask]:
        """The responses that say something, once per replicate; the others are counted, not judged."""
        by_id = {test.id: test for test in as_asked(rows[ChosenTest], self.words)}
        answered = (r for r in rows[Response] if r.state is State.OK and r.test_id in by_id)
        return [
            VerdictTask(by_id[response.test_id], response, replicate)
            for response in answered
            for replicate in range(self.replicates)
        ]

    @cached_property
    def _settings_sha256(self) -> str:
        return self.judge.sha256

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
    def _shown(self) -> Shown:
        judging = self.rubric.judging
        return Shown(
            self._wording,
            {"rubric": self.rubric, "prompt": "-", "context": "", "response": "-"},
            (example.assessment for example in judging.examples),
            (issue.text for issue in judging.issues),
        )

    @cached_property
    def _params(self) -> Params:
        return accepted(self.model.entry, self.judge.params.over(JUDGE_SETTINGS))

    @property
    def _is_literal(self) -> bool:
        """Whether imported wording asks: it says what form a verdict has, and asks again in the same words."""
        return self.rubric.literal_judging is not None

    @cached_property
    def _schema(self) -> str | None:
        if self._is_literal:
            return None
        assessment = _assessment_schema(self.model, self.prompts, self._letters, self._params.max_tokens)
        return letters_schema(self.model, "issues", self._letters, assessment)

    def requests(self, tasks: Iterable[VerdictTask]) -> Iterator[tuple[str, ChatCall]]:
        """See CallStage. The rubric stands first, so that a provider's prefix cache can serve it."""
        for task in tasks:
            call = ChatCall(
                provider=self.model.entry.provider,
                model=self.model.name,
                as_of=self.model.as_of,
                system=self._system,
                messages=(Message(Role.USER, self._user(task)),),
                params=self._params,
                schema_json=self._schema,
                sample=task.replicate,
                ask=task.ask,
                verbatim=self._is_literal,
            )
            yield verdict_id(task), call

    def _user(self, task: VerdictTask) -> str:
        values = {
            "rubric": self.rubric,
            "prompt": task.test.prompt,
            "context": task.test.context,
            "response": task.response.text,
        }
        again = None if task.problem is None or self._is_literal else self._wording.again(task.problem)
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
            issues=None,
            assessment="",
            score=None,
            asks=task.ask + 1,
            reason="",
            reply_key=outcome.key,
            rubric_sha256=self.rubric.sha256,
            prompts_sha256=self.prompts.sha256,
            settings_sha256=self._settings_sha256,
            replicate=task.replicate,
            reading=_reading_of(self.rubric).value if self._is_literal else "",
            other_score=task.other_score,
        )
        blank = with_bill(blank, outcome)
        reply = usable(self.model, outcome, self.accept_substitutes)
        if isinstance(reply, Unusable) and reply.state is not State.EMPTY:
            return replace(blank, state=reply.state, reason=reply.reason)
        if self._is_literal and isinstance(reply, Reply) and task.ask == 0:
            blank = replace(blank, other_score=self._other_score(reply))
        try:
            if isinstance(reply, Unusable):
                raise Unreadable(reply.reason)
            found = self._read(reply, _reading_of(self.rubric))
        except Unreadable as problem:
            if task.ask + 1 < MOST_ASKS and _reading_of(self.rubric) is Reading.STRICT:
                again = replace(task, ask=task.ask + 1, problem=str(problem), other_score=blank.other_score)
                return Again(again)
            return replace(blank, reason=str(problem))
        return replace(blank, state=State.OK, issues=found.letters, assessment=found.assessment, score=found.score)

    def _read(self, reply: Reply, reading: Reading) -> _Found:
        if reading is Reading.PUBLISHED:
            listed = loose_verdict(reply.text, _key_of(self.rubric), self._letters)
            return _Found(listed.letters, listed.assessment, _less(self.rubric, listed.letters or ()))
        named = named_letters(whole_text(reply), _key_of(self.rubric), self._letters)
        if self._shown.holds(named.assessment):
            raise Unreadable(COPIED)
        return _Found(named.letters, named.assessment, score(self.rubric, named.letters))

    def _other_score(self, reply: Reply) -> int | None:
        """The score by the rules that are not in force; None where they find none."""
        other = Reading.STRICT if _reading_of(self.rubric) is Reading.PUBLISHED else Reading.PUBLISHED
        try:
            return self._read(reply, other).score
        except Unreadable:
            return None

    def answer_tokens(self) -> int:
        """See CallStage."""
        brief = self.prompts.reasoning is Reasoning.BRIEF
        return TYPICAL_TOKENS if brief else TYPICAL_TOKENS_AN_ISSUE * len(self._letters)


def _reading_of(rubric: Rubric) -> Reading:
    return rubric.literal.reading if rubric.literal and rubric.literal_judging else Reading.STRICT


def _key_of(rubric: Rubric) -> str:
    return rubric.literal_judging.key if rubric.literal_judging else "issues"


def _assessment_schema(model: Model, prompts: Prompts, letters: Sequence[str], most: int) -> Mapping[str, Any]:
    if prompts.reasoning is Reasoning.BRIEF:
        return text_schema(model, most)
    return object_schema(dict.fromkeys(letters, text_schema(model, max(1, most // len(letters)))))


def verdict_id(task: VerdictTask) -> str:
    """The id of a verdict within its shard: the response's, with the replicate behind it from the second on."""
    of_response = response_id(task.test.id, task.response.sample)
    return f"{of_response}#{task.replicate}" if task.replicate else of_response


def score(rubric: Rubric, issues: Iterable[str]) -> int:
    """10 minus the deductions of the distinct issues, never below 0."""
    return _less(rubric, set(issues))


def _less(rubric: Rubric, letters: Iterable[str]) -> int:
    return max(0, SCORE_START - sum(map(rubric.deduction, letters)))
