"""The stages in the order of the method. A stage may read the rows of any stage before it."""

from __future__ import annotations

from collections.abc import Mapping

from hab_ray.stages.choose import ChooseSpec
from hab_ray.stages.embed import EmbedSpec
from hab_ray.stages.generate import GenerateSpec
from hab_ray.stages.judge import JudgeSpec
from hab_ray.stages.respond import RespondSpec
from hab_ray.stages.spec import StageSpec
from hab_ray.stages.validate import ValidateSpec

STAGES: Mapping[str, StageSpec] = {
    stage.name: stage
    for stage in (
        GenerateSpec(),
        ValidateSpec(),
        EmbedSpec(),
        ChooseSpec(),
        RespondSpec(),
        JudgeSpec(),
    )
}
