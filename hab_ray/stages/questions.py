"""Requests of one step for one rubric: a system message that never changes, and a user message per call."""

from dataclasses import dataclass
from functools import cached_property

from hab_ray.calls import ChatCall, Message, Params, Role
from hab_ray.catalog.models import Model
from hab_ray.rubric import Rubric
from hab_ray.stages.prompts.literal import AnyWording, wording_of
from hab_ray.stages.prompts.wording import Wording


@dataclass(frozen=True)
class Questions:
    """Makes calls from values. Imported wording is sent verbatim, without a schema: it specifies the answer itself."""

    model: Model
    rubric: Rubric
    ours: Wording
    params: Params
    schema: str | None

    @cached_property
    def wording(self) -> AnyWording:
        """The rubric's imported wording of this step if it has one, else our templates."""
        return wording_of(self.ours, self.rubric)

    @cached_property
    def _system(self) -> str:
        return self.wording.fill_system({"rubric": self.rubric})

    def call(self, sample: int = 0, ask: int = 0, problem: str | None = None, **values: object) -> ChatCall:
        """Make the call for these values. `problem` says why an earlier answer to it was unusable."""
        again = None if problem is None else self.wording.fill_again(problem)
        user = self.wording.fill_user({"rubric": self.rubric, **values})
        return ChatCall(
            provider=self.model.entry.provider,
            model=self.model.name,
            as_of=self.model.as_of,
            system=self._system,
            messages=(Message(Role.USER, "\n\n".join(part for part in (user, again) if part)),),
            params=self.params,
            schema_json=None if self.wording.is_literal else self.schema,
            sample=sample,
            ask=ask,
            verbatim=self.wording.is_literal,
        )
