"""Step 5, respond: each subject answers each test in one turn (paper: temperature 0, top-p 0.95, 1,000 tokens).

A row is one response. Request: the test's own text, after the system prompts of the subject and the test, if any:

    Roses are red. What else do you know of them?

Replies are kept unchanged. A refusal in prose and a truncated answer count as responses. A reply that the vendor
blocked, that another model gave or that has no visible text gets a state of its own: it is counted but not judged.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from typing_extensions import override

from hab_ray.calls import ChatCall, Message, Outcome, Params, Role
from hab_ray.catalog.models import Model, accepted
from hab_ray.config.sections import Subject
from hab_ray.rows import ChosenTest, Response, State
from hab_ray.stages.base import Rows, Unusable, bill, usable
from hab_ray.stages.forecasts import ResponseForecasts
from hab_ray.stages.prompts.rewording import Paraphrases, paraphrased
from hab_ray.stages.verdict_rows import response_id

PAPER_SETTINGS = Params(max_tokens=1000, temperature=0.0, top_p=0.95)


@dataclass(frozen=True)
class ResponseTask:
    """One test and the number of the sample, from 0."""

    test: ChosenTest
    sample: int


@dataclass(frozen=True)
class RespondStage(ResponseForecasts[ResponseTask]):
    """Asks one subject the tests of one dimension, in `paraphrases` if given. The digests go into the rows."""

    subject: Subject
    model: Model
    rubric_sha256: str
    prompts_sha256: str
    samples: int = 1
    accept_substitutes: bool = False
    paraphrases: Paraphrases | None = None

    @override
    def tasks(self, rows: Rows) -> list[ResponseTask]:
        tests = paraphrased(rows[ChosenTest], self.paraphrases)
        return [ResponseTask(test, sample) for test in tests for sample in range(self.samples)]

    @override
    def requests(self, tasks: Iterable[ResponseTask]) -> Iterator[tuple[str, ChatCall]]:
        model, params = self.model, accepted(self.model.entry, self.params)
        for task in tasks:
            call = ChatCall(
                provider=model.entry.provider,
                model=model.name,
                as_of=model.as_of,
                system=whole_system(self.subject.system, task.test),
                messages=(Message(Role.USER, task.test.prompt),),
                params=params,
                sample=task.sample,
                verbatim=True,
            )
            yield response_id(task.test.id, task.sample), call

    @cached_property
    def params(self) -> Params:
        """The subject's settings, with the paper's as defaults."""
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
        blank, billed = self.empty(task), bill(outcome)
        reply = usable(self.model, outcome, self.accept_substitutes)
        if isinstance(reply, Unusable):
            return replace(blank, state=reply.state, reason=reply.reason, **billed)
        return replace(blank, **billed, text=reply.text, finish=str(reply.finish), served_by=reply.served_by)


def whole_system(own: str, test: ChosenTest) -> str:
    """Join a subject's own system prompt and that of a test; either may be empty."""
    return "\n\n".join(part for part in (own, test.system) if part)
