"""Imported wording, used verbatim in place of a template. It specifies the form of the answer itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from hab_ray.errors import ConfigError
from hab_ray.rubric import LiteralRequest, LiteralValues, Rubric, rendered
from hab_ray.stages.prompts.wording import Wording


@dataclass(frozen=True)
class LiteralWording:
    """A rubric's imported wording for one step (`stage`), with the interface of `Wording`.

    Raises:
        ConfigError: it refers to more seeds than the sweep shows.
    """

    request: LiteralRequest
    stage: str
    is_literal: ClassVar[bool] = True

    def fill_system(self, values: Mapping[str, Any]) -> str:
        return self.request.system

    def fill_user(self, values: Mapping[str, Any]) -> str:
        seeds = tuple(seed.prompt for seed in values.get("seeds", ()))
        others = {name: value for name, value in values.items() if name not in ("rubric", "seeds")}
        try:
            return rendered(self.request.user, LiteralValues(**others, seeds=seeds))
        except ValueError as error:
            raise ConfigError(
                f"the imported wording of {values['rubric'].id} (literal, {self.stage}) {error}; for a "
                "position beyond the seeds shown, raise `generate: seeds_shown`"
            ) from None

    def fill_again(self, problem: str) -> None:
        """Return None: a repeated request has the same text."""


AnyWording = Wording | LiteralWording


def wording_of(ours: Wording, rubric: Rubric) -> AnyWording:
    """Return the rubric's imported wording for the step of `ours`, or `ours` if it has none."""
    literal: Mapping[str, LiteralRequest | None] = {
        "generate": rubric.literal_generation,
        "validate": rubric.literal_validation,
        "judge": rubric.literal_judging,
    }
    request = literal[ours.stage]
    return ours if request is None else LiteralWording(request, ours.stage)
