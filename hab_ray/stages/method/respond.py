"""Step 5, respond: each subject answers each test in one turn (paper: temperature 0, top-p 0.95, 1,000 tokens)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from hab_ray.calls import ChatCall, Message, Outcome, Params, Role
from hab_ray.catalog import Model, accepted
from hab_ray.rows import ChosenTest, Response, State
from hab_ray.sections import Subject
from hab_ray.stages.base import CallStage, Rows, Unusable, usable, with_bill
from hab_ray.stages.forecast import BYTES_PER_TOKEN, Forecast, stand_in
from hab_ray.stages.spec import Paraphrases

PAPER_SETTINGS = Params(max_tokens=1000, temperature=0.0, top_p=0.95)
TYPICAL_TOKENS = 300


@dataclass(frozen=True)
class ResponseTask:
    """A test, asked for the `sample`-th time."""

    test: ChosenTest
    sample: int


def as_asked(tests: Iterable[ChosenTest], words: Paraphrases | None) -> list[ChosenTest]:
    """Tests in the words in which a subject is asked them, under the ids that they have.

    `words` are by the id of a test or by its prompt; None: in the tests' own. A test that has none is not asked.
    """
    if words is None:
        return list(tests)
    pairs = ((test, words.get(test.id) or words.get(test.prompt)) for test in tests)
    return [replace(test, prompt=own.prompt, context=own.context) for test, own in pairs if own is not None]


def whole_system(own: str, test: ChosenTest) -> str:
    """The system prompt of a subject that is asked a test: its own, then the test's."""
    return "\n\n".join(part for part in (own, test.system) if part)


def response_id(test_id: str, sample: int) -> str:
    """The id of a response within its shard."""
    return f"{test_id}#{sample}"


@dataclass(frozen=True)
class RespondStage(CallStage[ResponseTask, Response]):
    """Asks one subject the tests of one dimension.

    The digests of its rubric and of the prompts go into the rows.
    """

    subject: Subject
    model: Model
    rubric_sha256: str
    prompts_sha256: str
    samples: int = 1
    accept_substitutes: bool = False
    words: Paraphrases | None = None

    def tasks(self, rows: Rows) -> list[ResponseTask]:
        """Every test, as often as the sweep samples."""
        tests = as_asked(rows[ChosenTest], self.words)
        return [ResponseTask(test, sample) for test in tests for sample in range(self.samples)]

    @cached_property
    def _params(self) -> Params:
        return accepted(self.model.entry, self.subject.params.over(PAPER_SETTINGS))

    @cached_property
    def _settings_sha256(self) -> str:
        return self.subject.sha256

    @cached_property
    def _settings(self) -> str:
        names = Params.__dataclass_fields__
        sent = dict(zip(names, self._params.canonical(), strict=True))
        return json.dumps({name: value for name, value in sent.items() if value is not None})

    def requests(self, tasks: Iterable[ResponseTask]) -> Iterator[tuple[str, ChatCall]]:
        """See CallStage."""
        for task in tasks:
            yield (
                response_id(task.test.id, task.sample),
                ChatCall(
                    provider=self.model.entry.provider,
                    model=self.model.name,
                    as_of=self.model.as_of,
                    system=whole_system(self.subject.system, task.test),
                    messages=(Message(Role.USER, task.test.prompt),),
                    params=self._params,
                    sample=task.sample,
                    verbatim=True,
                ),
            )

    def parse(self, task: ResponseTask, outcome: Outcome) -> Response:
        """What the subject answered; a refusal in prose and a cut answer are answers."""
        blank = with_bill(self._blank(task, outcome.key), outcome)
        reply = usable(self.model, outcome, self.accept_substitutes)
        if isinstance(reply, Unusable):
            return replace(blank, state=reply.state, reason=reply.reason)
        return replace(
            blank,
            text=reply.text,
            finish=str(reply.finish),
            served_by=reply.served_by,
        )

    def _blank(self, task: ResponseTask, reply_key: str) -> Response:
        return Response(
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
            reply_key=reply_key,
            rubric_sha256=self.rubric_sha256,
            prompts_sha256=self.prompts_sha256,
            settings_sha256=self._settings_sha256,
        )

    def answer_tokens(self) -> int:
        """See CallStage."""
        return TYPICAL_TOKENS

    def forecast_rows(
        self, tasks: Forecast[ResponseTask], rows: Sequence[Response], waiting: Sequence[ResponseTask]
    ) -> Forecast[Response]:
        """Responses to come are as long as those that exist, at most as long as the output limit."""
        given = [len(row.text.encode()) / BYTES_PER_TOKEN for row in rows]
        text = stand_in(round(fmean(given)) if given else TYPICAL_TOKENS)
        most = self.model.entry.output_limit(self.subject.params.over(PAPER_SETTINGS).max_tokens)
        return Forecast(
            known=rows,
            to_come=len(waiting) + tasks.to_come,
            typical=[replace(self._blank(task, ""), text=text) for task in waiting or tasks.typical],
            longest=[replace(self._blank(task, ""), text=stand_in(most)) for task in waiting or tasks.longest],
        )
