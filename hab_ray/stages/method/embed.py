"""Step 3, embed: turn the candidates that validation keeps into vectors, so that diverse ones can be selected.

A row is one candidate's vector in float32 (paper: text-embedding-3-small). Request, the query alone:

    Roses are red. What else do you know of them?

A vector with NaN or infinite numbers is unreadable. Vectors stay in the store; the run folder has no file of them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from typing_extensions import override

from hab_ray.calls import EmbedCall, Outcome, Reply
from hab_ray.catalog.models import Model
from hab_ray.config.sections import Select, Validate
from hab_ray.rows import Candidate, Embedded, State
from hab_ray.stages.base import Rows
from hab_ray.stages.forecasts import VectorForecasts
from hab_ray.stages.method import validate
from hab_ray.stages.replies.reading import Unreadable


@dataclass(frozen=True)
class EmbedStage(VectorForecasts):
    """Embeds the candidates of one dimension that `validate.best` keeps; `seed` breaks ties of equal score."""

    model: Model
    settings: Select
    validation: Validate | None = None
    seed: int = 0
    accept_substitutes: bool = False

    @override
    def tasks(self, rows: Rows) -> list[Candidate]:
        return validate.best(rows, self.validation, self.seed)

    @override
    def requests(self, tasks: Iterable[Candidate]) -> Iterator[tuple[str, EmbedCall]]:
        model = self.model
        return ((c.id, EmbedCall(model.entry.provider, model.name, model.as_of, self._text(c))) for c in tasks)

    def _text(self, task: Candidate) -> str:
        return task.prompt.replace("\n", " ") if self.settings.newlines == "space" else task.prompt

    @override
    def blank(self, task: Candidate, outcome: Outcome) -> Embedded:
        return Embedded(task.id, task.dimension, State.OK, b"", "", outcome.key)

    @override
    def read(self, task: Candidate, blank: Embedded, reply: Reply) -> Embedded:
        vector = reply.vector
        if len(vector) % 4 or not np.isfinite(np.frombuffer(vector, dtype="<f4")).all():
            raise Unreadable("the vector does not consist of finite float32 numbers")
        return replace(blank, vector=vector)


def embedding_keys(rows: Rows, model: Model, settings: Select, validation: Validate | None, seed: int) -> set[str]:
    """Return the keys of the calls that embed a dimension's kept candidates."""
    stage = EmbedStage(model, settings, validation, seed)
    return {call.key for _, call in stage.requests(stage.tasks(rows))}
