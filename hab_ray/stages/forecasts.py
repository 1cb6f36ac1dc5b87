"""Forecasts of calls and rows that do not exist yet, for plans: how many there will be and how long.

The assumed lengths are deliberately a little high. 150 words are about 200 tokens.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from typing_extensions import override

from hab_ray.calls import Params
from hab_ray.catalog.models import Model
from hab_ray.catalog.prices import BYTES_PER_TOKEN
from hab_ray.config.sections import Generate, Validate
from hab_ray.rows import Candidate, Embedded, Response, State, Validation, Verdict
from hab_ray.rubric import Rubric
from hab_ray.stages.base import CallStage, Forecast, Forecasts, ReadStage, Rows, Task
from hab_ray.stages.prompts.wording import Prompts, Reasoning

_QUERY_TOKENS, _RESPONSE_TOKENS = 200, 300
_VERDICT_TOKENS, _ISSUE_TOKENS = 250, 70


class CandidateForecasts(ReadStage[Task, Candidate]):
    """Forecasts candidates as long as the rubric's seeds, and at most as long as a whole reply."""

    rubric: Rubric
    settings: Generate

    @override
    def answer_tokens(self) -> int:
        return _QUERY_TOKENS * self.settings.per_call

    @override
    def forecast_rows(
        self, tasks: Forecast[Task], rows: Sequence[Candidate], waiting: Sequence[Task]
    ) -> Forecast[Candidate]:
        longest = _placeholder(self.settings.max_tokens)
        return Forecast(
            known=rows,
            to_come=len(waiting),
            typical=[self._candidate(f"seed-{n}", s.prompt, s.context or "") for n, s in enumerate(self.rubric.seeds)],
            longest=[self._candidate("longest", longest, longest if self.rubric.context else "")],
        )

    def _candidate(self, id: str, prompt: str, context: str) -> Candidate:
        return Candidate(id, self.rubric.id, State.OK, prompt, context, theme="", reason="", reply_key="")


class VectorForecasts(ReadStage[Candidate, Embedded]):
    """Forecasts one vector per kept candidate; which candidates are kept is unknown until all have a score."""

    validation: Validate | None

    @override
    def answer_tokens(self) -> int:
        return 0

    @override
    def forecast_tasks(self, rows: Forecasts) -> Forecast[Candidate]:
        if self.validation is None:
            return super().forecast_tasks(rows)
        candidates, validations = rows[Candidate], rows[Validation]
        if not candidates.to_come and not validations.to_come:
            return Forecast(self.tasks(Rows({Candidate: candidates.known, Validation: validations.known})))
        return Forecast((), min(self.validation.keep, validations.count), candidates.typical, candidates.longest)


class ResponseForecasts(CallStage[Task, Response]):
    """Forecasts responses as long as the answered ones on average, and at most as long as the output limit."""

    model: Model

    @abstractmethod
    def empty(self, task: Task) -> Response:
        """Return a task's row without a response text."""

    @property
    @abstractmethod
    def params(self) -> Params:
        """The subject's settings, including those that its model does not accept."""

    @override
    def answer_tokens(self) -> int:
        return _RESPONSE_TOKENS

    @override
    def forecast_rows(
        self, tasks: Forecast[Task], rows: Sequence[Response], waiting: Sequence[Task]
    ) -> Forecast[Response]:
        lengths = [len(row.text.encode()) / BYTES_PER_TOKEN for row in rows if row.state is State.OK]
        typical = _placeholder(round(fmean(lengths)) if lengths else _RESPONSE_TOKENS)
        longest = _placeholder(self.model.entry.output_limit(self.params.max_tokens))
        return Forecast(
            known=rows,
            to_come=len(waiting) + tasks.to_come,
            typical=[replace(self.empty(task), text=typical) for task in waiting or tasks.typical],
            longest=[replace(self.empty(task), text=longest) for task in waiting or tasks.longest],
        )


class VerdictForecasts(CallStage[Task, Verdict]):
    """Forecasts verdicts; with a thought on each issue their length grows with the number of issues."""

    rubric: Rubric
    prompts: Prompts

    @override
    def answer_tokens(self) -> int:
        is_brief = self.prompts.reasoning is Reasoning.BRIEF
        return _VERDICT_TOKENS if is_brief else _ISSUE_TOKENS * len(self.rubric.issue_letters())


def _placeholder(tokens: int) -> str:
    return "x" * (tokens * BYTES_PER_TOKEN)
