"""The keys of the calls that embedded the candidates of a dimension, which no view has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hab_ray.catalog.models import Model
from hab_ray.config.sections import Select, Validate
from hab_ray.rows import Candidate, Validation
from hab_ray.stages.base import Rows
from hab_ray.stages.method.embed import EmbedStage


def embedding_keys(
    model: Model,
    select: Select,
    validate: Validate | None,
    seed: int,
    candidates: Sequence[Candidate],
    validations: Sequence[Validation],
) -> Iterator[str]:
    """Yield the keys of the calls that embedded the candidates which passed validation."""
    stage = EmbedStage(model, select, validate, seed)
    tasks = stage.tasks(Rows({Candidate: list(candidates), Validation: list(validations)}))
    yield from (call.key for _, call in stage.requests(tasks))
