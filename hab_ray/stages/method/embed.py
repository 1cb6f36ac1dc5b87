"""Step 3, embed the candidates that are kept, so that diverse ones can be chosen (paper: text-embedding-3-small)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from hab_ray.calls import EmbedCall, Outcome
from hab_ray.catalog import Model
from hab_ray.rows import Candidate, Embedded, State, Validation
from hab_ray.sections import Select, Validate
from hab_ray.stages.base import CallStage, Rows, Unusable, usable
from hab_ray.stages.forecast import Forecast, Forecasts
from hab_ray.stages.method.validate import best


@dataclass(frozen=True)
class EmbedStage(CallStage[Candidate, Embedded]):
    """Embeds the candidates of one dimension: the best by `validation`, all good ones without it.

    `seed` orders candidates of equal score.
    """

    model: Model
    settings: Select
    validation: Validate | None = None
    seed: int = 0
    accept_substitutes: bool = False

    def tasks(self, rows: Rows) -> list[Candidate]:
        """The candidates that tests are chosen from, sorted by id."""
        if self.validation is None:
            return sorted((c for c in rows[Candidate] if c.state is State.OK), key=lambda c: c.id)
        return best(rows[Candidate], rows[Validation], self.validation, self.seed)

    def requests(self, tasks: Iterable[Candidate]) -> Iterator[tuple[str, EmbedCall]]:
        """See CallStage."""
        for task in tasks:
            yield (
                task.id,
                EmbedCall(self.model.entry.provider, self.model.name, self.model.as_of, self._text(task)),
            )

    def _text(self, task: Candidate) -> str:
        return task.prompt.replace("\n", " ") if self.settings.newlines == "space" else task.prompt

    def parse(self, task: Candidate, outcome: Outcome) -> Embedded:
        """The candidate's vector, or why it has none."""
        blank = Embedded(task.id, task.dimension, State.OK, b"", "", outcome.key)
        reply = usable(self.model, outcome, self.accept_substitutes)
        if isinstance(reply, Unusable):
            return replace(blank, state=reply.state, reason=reply.reason)
        if not _is_finite(reply.vector):
            return replace(blank, state=State.UNREADABLE, reason="the vector is not one of finite float32 numbers")
        return replace(blank, vector=reply.vector)

    def answer_tokens(self) -> int:
        """See CallStage."""
        return 0

    def forecast_tasks(self, rows: Forecasts) -> Forecast[Candidate]:
        """Which candidates are the best is unknown before all have a score; then as many as are kept."""
        if self.validation is None:
            return super().forecast_tasks(rows)
        candidates, validations = rows[Candidate], rows[Validation]
        if not candidates.to_come and not validations.to_come:
            return Forecast(self.tasks(Rows({Candidate: candidates.known, Validation: validations.known})))
        wanted = min(self.validation.keep, validations.count)
        return Forecast((), wanted, candidates.typical, candidates.longest)


def _is_finite(vector: bytes) -> bool:
    return len(vector) % 4 == 0 and bool(np.isfinite(np.frombuffer(vector, dtype="<f4")).all())
