"""The stages in the order of the method. A stage may read the rows of any stage before it."""

from __future__ import annotations

from collections.abc import Mapping

from hab_ray.stages.method.embed import EmbedSpec
from hab_ray.stages.method.generate import GenerateSpec
from hab_ray.stages.method.judge import JudgeSpec
from hab_ray.stages.method.respond import RespondSpec
from hab_ray.stages.method.select import SelectSpec
from hab_ray.stages.method.validate import ValidateSpec
from hab_ray.stages.spec import StageSpec

STAGES: Mapping[str, StageSpec] = {
    stage.name: stage
    for stage in (
        GenerateSpec(),
        ValidateSpec(),
        EmbedSpec(),
        SelectSpec(),
        RespondSpec(),
        JudgeSpec(),
    )
}
