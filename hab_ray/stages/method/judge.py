"""Step 6, judge: a model names the issues of a response by the rubric's letters; deductions make the score.

A row is one judge's verdict on one response. Request, after the rubric, which is the same in every call:

    <<<USER [hab-fence-code]>>>
    Roses are red. What else do you know of them?
    <<<END USER [hab-fence-code]>>>
    <<<ASSISTANT [hab-fence-code]>>>
    They have thorns.
    <<<END ASSISTANT [hab-fence-code]>>>

    Which issues does the assistant's answer have?

Reply: {"assessment": {"A": "It names the thorns, but not how they grow."}, "issues": ["A"]}

Score = 10 minus the deductions of the distinct issues, at least 0. An unreadable reply is requested once more; if the
second is unreadable too, the row has that state and no score. `replies.verdicts` reads the replies.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from typing_extensions import override

from hab_ray.calls import ChatCall, Outcome, Params, Reply
from hab_ray.catalog.models import Model, accepted
from hab_ray.config.sections import Judge
from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.rubric import Rubric
from hab_ray.stages.base import Again, Rows, Unusable, bill, usable
from hab_ray.stages.forecasts import VerdictForecasts
from hab_ray.stages.prompts.rewording import Paraphrases, paraphrased
from hab_ray.stages.prompts.schemas import letters_schema
from hab_ray.stages.prompts.wording import Prompts
from hab_ray.stages.questions import Questions
from hab_ray.stages.replies.reading import Unreadable, whole_text
from hab_ray.stages.replies.verdicts import VerdictReaders, score, verdict_readers
from hab_ray.stages.verdict_rows import BlankVerdicts, VerdictTask

JUDGE_SETTINGS = Params(max_tokens=2000, temperature=0.0)


@dataclass(frozen=True)
class JudgeStage(VerdictForecasts[VerdictTask]):
    """Has one judge read one subject's responses in one dimension. The subject was asked in `paraphrases`, if any."""

    rubric: Rubric
    prompts: Prompts
    judge: Judge
    model: Model
    replicates: int = 1
    accept_substitutes: bool = False
    paraphrases: Paraphrases | None = None

    @override
    def tasks(self, rows: Rows) -> list[VerdictTask]:
        by_id = {test.id: test for test in paraphrased(rows[ChosenTest], self.paraphrases)}
        answered = [r for r in rows[Response] if r.state is State.OK and r.test_id in by_id]
        return [VerdictTask(by_id[r.test_id], r, replicate) for r in answered for replicate in range(self.replicates)]

    @override
    def requests(self, tasks: Iterable[VerdictTask]) -> Iterator[tuple[str, ChatCall]]:
        return ((t.id, self._questions.call(t.replicate, t.ask, t.problem, **t.values)) for t in tasks)

    @cached_property
    def _questions(self) -> Questions:
        params = accepted(self.model.entry, self.judge.params.over(JUDGE_SETTINGS))
        letters, reasoning = self.rubric.issue_letters(), self.prompts.reasoning
        schema = letters_schema(self.model, "issues", letters, params.max_tokens, reasoning)
        return Questions(self.model, self.rubric, self.prompts.judge, params, schema)

    @cached_property
    def _readers(self) -> VerdictReaders:
        return verdict_readers(self.rubric, self._questions.wording)

    @cached_property
    def _blanks(self) -> BlankVerdicts:
        return BlankVerdicts(self.judge, self.rubric, self.prompts.sha256)

    @override
    def parse(self, task: VerdictTask, outcome: Outcome) -> Verdict | Again[VerdictTask]:
        blank = self._blanks.of(task, outcome, bill(outcome))
        reply = usable(self.model, outcome, self.accept_substitutes)
        if isinstance(reply, Unusable) and reply.state is not State.EMPTY:
            return replace(blank, state=reply.state, reason=reply.reason)
        if isinstance(reply, Reply) and task.ask == 0 and self._readers.other:
            blank = replace(blank, other_score=self._readers.other_score(self.rubric, reply))
        try:
            if isinstance(reply, Unusable):
                raise Unreadable(reply.reason)
            verdict = (own := self._readers.own).read(whole_text(reply) if own.is_strict else reply.text)
        except Unreadable as problem:
            if task.ask == 0 and self._readers.own.is_strict:
                return Again(replace(task, ask=1, problem=str(problem), other_score=blank.other_score))
            return replace(blank, reason=str(problem))
        found = score(self.rubric, verdict.letters or ())
        return replace(blank, state=State.OK, issues=verdict.letters, assessment=verdict.assessment, score=found)
