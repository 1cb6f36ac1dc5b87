"""What a plan assumes of the steps' calls and rows that do not exist yet: how many, and how long.

The lengths are meant to be a little high: 150 words are about 200 tokens.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from typing_extensions import override

from hab_ray.calls import Params
from hab_ray.catalog.models import Model
from hab_ray.config.sections import Generate, Validate
from hab_ray.rows import Candidate, Embedded, Response, State, Validation, Verdict
from hab_ray.rubric import Rubric
from hab_ray.stages.base import CallStage, Forecast, Forecasts, ReadStage, Rows, Task
from hab_ray.stages.prompts.wording import Prompts, Reasoning

BYTES_PER_TOKEN = 4
_TOKENS_A_QUERY, _TOKENS_A_VALIDATION, _TOKENS_A_RESPONSE = 200, 200, 300
_TOKENS_A_VERDICT, _TOKENS_AN_ISSUE = 250, 70


class CandidateForecasts(ReadStage[Task, Candidate]):
    """Candidates to come are like the rubric's seeds, at most as long as a whole reply."""

    rubric: Rubric
    settings: Generate

    @override
    def answer_tokens(self) -> int:
        return _TOKENS_A_QUERY * self.settings.per_call

    @override
    def forecast_rows(
        self, tasks: Forecast[Task], rows: Sequence[Candidate], waiting: Sequence[Task]
    ) -> Forecast[Candidate]:
        longest = stand_in(self.settings.max_tokens)
        return Forecast(
            known=rows,
            to_come=len(waiting),
            typical=[self._like(f"seed-{n}", s.prompt, s.context or "") for n, s in enumerate(self.rubric.seeds)],
            longest=[self._like("longest", longest, longest if self.rubric.context else "")],
        )

    def _like(self, id: str, prompt: str, context: str) -> Candidate:
        return Candidate(id, self.rubric.id, State.OK, prompt, context, theme="", reason="", reply_key="")


class ValidationForecasts(ReadStage[Task, Validation]):
    """Validations are short."""

    @override
    def answer_tokens(self) -> int:
        return _TOKENS_A_VALIDATION


class VectorForecasts(ReadStage[Candidate, Embedded]):
    """Which candidates are the best is unknown before all have a score; then as many as are kept."""

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
        wanted = min(self.validation.keep, validations.count)
        return Forecast((), wanted, candidates.typical, candidates.longest)


class ResponseForecasts(CallStage[Task, Response]):
    """Responses to come are as long as those that exist, at most as long as the output limit."""

    model: Model

    @abstractmethod
    def empty(self, task: Task) -> Response:
        """A task's row without an answer."""

    @property
    @abstractmethod
    def params(self) -> Params:
        """The settings that a subject is asked with, also those that its model does not take."""

    @override
    def answer_tokens(self) -> int:
        return _TOKENS_A_RESPONSE

    @override
    def forecast_rows(
        self, tasks: Forecast[Task], rows: Sequence[Response], waiting: Sequence[Task]
    ) -> Forecast[Response]:
        given = [len(row.text.encode()) / BYTES_PER_TOKEN for row in rows]
        text = stand_in(round(fmean(given)) if given else _TOKENS_A_RESPONSE)
        most = stand_in(self.model.entry.output_limit(self.params.max_tokens))
        return Forecast(
            known=rows,
            to_come=len(waiting) + tasks.to_come,
            typical=[replace(self.empty(task), text=text) for task in waiting or tasks.typical],
            longest=[replace(self.empty(task), text=most) for task in waiting or tasks.longest],
        )


class VerdictForecasts(CallStage[Task, Verdict]):
    """A verdict that thinks about each issue is as long as there are issues."""

    rubric: Rubric
    prompts: Prompts

    @override
    def answer_tokens(self) -> int:
        is_brief = self.prompts.reasoning is Reasoning.BRIEF
        return _TOKENS_A_VERDICT if is_brief else _TOKENS_AN_ISSUE * len(self.rubric.issue_letters())


def stand_in(tokens: int) -> str:
    """A text of so many tokens."""
    return "x" * (tokens * BYTES_PER_TOKEN)
