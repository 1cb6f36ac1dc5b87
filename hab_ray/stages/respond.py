"""Respond: each subject answers each test in a single turn (paper: temperature 0, top-p 0.95, 1,000 tokens)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hab_ray.calls import ChatCall, Message, Outcome, Params, Role
from hab_ray.catalog import Model, accepted
from hab_ray.config import Subject
from hab_ray.rows import ChosenTest, Response, State
from hab_ray.stages.base import Unusable, usable

PAPER_SETTINGS = Params(max_tokens=1000, temperature=0.0, top_p=0.95)


@dataclass(frozen=True)
class ResponseTask:
    """A test, asked for the `sample`-th time."""

    test: ChosenTest
    sample: int


def response_id(test_id: str, sample: int) -> str:
    """The id of a response within its shard."""
    return f"{test_id}#{sample}"


@dataclass(frozen=True)
class RespondStage:
    """Asks one subject the tests of one dimension."""

    subject: Subject
    model: Model
    samples: int = 1
    accept_substitutes: bool = False

    def tasks(self, tests: Sequence[ChosenTest]) -> list[ResponseTask]:
        """Every test, as often as the sweep samples."""
        return [ResponseTask(test, sample) for test in tests for sample in range(self.samples)]

    @cached_property
    def _params(self) -> Params:
        return accepted(self.model.entry, self.subject.params.over(PAPER_SETTINGS))

    @cached_property
    def _settings(self) -> str:
        names = Params.__dataclass_fields__
        sent = dict(zip(names, self._params.canonical(), strict=True))
        return json.dumps({name: value for name, value in sent.items() if value is not None})

    def _system(self, test: ChosenTest) -> str:
        return "\n\n".join(part for part in (self.subject.system, test.system) if part)

    def requests(self, tasks: Iterable[ResponseTask]) -> Iterator[tuple[str, ChatCall]]:
        """See Stage."""
        for task in tasks:
            yield (
                response_id(task.test.id, task.sample),
                ChatCall(
                    provider=self.model.entry.provider,
                    model=self.model.name,
                    as_of=self.model.as_of,
                    system=self._system(task.test),
                    messages=(Message(Role.USER, task.test.prompt),),
                    params=self._params,
                    sample=task.sample,
                    verbatim=True,
                ),
            )

    def parse(self, task: ResponseTask, outcome: Outcome) -> Response:
        """What the subject answered; a refusal in prose and a cut answer are answers."""
        blank = Response(
            test_id=task.test.id,
            dimension=task.test.dimension,
            subject=self.subject.name,
            sample=task.sample,
            state=State.OK,
            text="",
            finish="",
            settings=self._settings,
            model_reported="",
            served_by="",
            reason="",
            reply_key=outcome.key,
        )
        reply = usable(self.model, outcome, self.accept_substitutes)
        if isinstance(reply, Unusable):
            return replace(blank, state=reply.state, reason=reply.reason)
        return replace(
            blank,
            text=reply.text,
            finish=str(reply.finish),
            model_reported=reply.model_reported,
            served_by=reply.served_by,
        )
