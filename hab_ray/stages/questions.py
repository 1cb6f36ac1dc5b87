"""The requests of one step about one rubric: what stays the same in all of them, and what each is about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hab_ray.calls import ChatCall, Message, Params, Role
from hab_ray.catalog.models import Model
from hab_ray.rubric import Rubric
from hab_ray.stages.prompts.literal import AnyWording, wording_of
from hab_ray.stages.prompts.wording import Wording


@dataclass(frozen=True)
class Questions:
    """Makes calls of values. Imported wording is sent byte for byte and says itself what to answer: without schema."""

    model: Model
    rubric: Rubric
    ours: Wording
    params: Params
    schema: str | None

    @cached_property
    def wording(self) -> AnyWording:
        """The words of the rubric's own where it has imported some for this step, else ours."""
        return wording_of(self.ours, self.rubric)

    @cached_property
    def _system(self) -> str:
        return self.wording.fill_system({"rubric": self.rubric})

    def call(self, sample: int = 0, ask: int = 0, problem: str | None = None, **values: object) -> ChatCall:
        """The call about these values; `problem` says why an earlier answer to it could not be used."""
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
