"""Step 5, respond: each subject answers each test in one turn (paper: temperature 0, top-p 0.95, 1,000 tokens).

A row is one answer. Asked is the test's own text, below the subject's system prompt and the dimension's, if any:

    Roses are red. What else do you know of them?

What comes back is kept as it is. A refusal in prose and a cut answer are answers; what a vendor blocks, what another
model says and a reply without visible text have a state that says so, and are counted, not judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from typing_extensions import override

from hab_ray.calls import ChatCall, Message, Outcome, Params, Role
from hab_ray.catalog.models import Model, accepted
from hab_ray.config.sections import Subject
from hab_ray.rows import ChosenTest, Response, State
from hab_ray.stages.base import Rows, Unusable, usable, with_bill
from hab_ray.stages.forecasts import ResponseForecasts
from hab_ray.stages.prompts.rewording import Paraphrases, as_asked
from hab_ray.stages.verdict_rows import response_id

PAPER_SETTINGS = Params(max_tokens=1000, temperature=0.0, top_p=0.95)


@dataclass(frozen=True)
class ResponseTask:
    """A test, asked for the `sample`-th time."""

    test: ChosenTest
    sample: int


@dataclass(frozen=True)
class RespondStage(ResponseForecasts[ResponseTask]):
    """Asks one subject the tests of one dimension. The digests of rubric and prompts go into the rows."""

    subject: Subject
    model: Model
    rubric_sha256: str
    prompts_sha256: str
    samples: int = 1
    accept_substitutes: bool = False
    words: Paraphrases | None = None

    @override
    def tasks(self, rows: Rows) -> list[ResponseTask]:
        tests = as_asked(rows[ChosenTest], self.words)
        return [ResponseTask(test, sample) for test in tests for sample in range(self.samples)]

    @override
    def requests(self, tasks: Iterable[ResponseTask]) -> Iterator[tuple[str, ChatCall]]:
        model, params = self.model, accepted(self.model.entry, self.params)
        for task in tasks:
            system, messages = whole_system(self.subject.system, task.test), (Message(Role.USER, task.test.prompt),)
            call = ChatCall(model.entry.provider, model.name, model.as_of, system, messages, params)
            yield response_id(task.test.id, task.sample), replace(call, sample=task.sample, verbatim=True)

    @cached_property
    def params(self) -> Params:
        """The settings of the subject, and the paper's where it says nothing."""
        return self.subject.params.over(PAPER_SETTINGS)

    @cached_property
    def _empty(self) -> Response:
        names, sent = Params.__dataclass_fields__, accepted(self.model.entry, self.params).canonical()
        settings = json.dumps({name: value for name, value in zip(names, sent, strict=True) if value is not None})
        digests = self.rubric_sha256, self.prompts_sha256, self.subject.sha256
        return Response("", "", self.subject.name, 0, State.OK, "", "", settings, "", "", "", "", *digests)

    @override
    def empty(self, task: ResponseTask) -> Response:
        return replace(self._empty, test_id=task.test.id, dimension=task.test.dimension, sample=task.sample)

    @override
    def parse(self, task: ResponseTask, outcome: Outcome) -> Response:
        blank = with_bill(replace(self.empty(task), reply_key=outcome.key), outcome)
        reply = usable(self.model, outcome, self.accept_substitutes)
        if isinstance(reply, Unusable):
            return replace(blank, state=reply.state, reason=reply.reason)
        return replace(blank, text=reply.text, finish=str(reply.finish), served_by=reply.served_by)


def whole_system(own: str, test: ChosenTest) -> str:
    """The system prompt of a subject that is asked a test: its own, then the test's."""
    return "\n\n".join(part for part in (own, test.system) if part)
