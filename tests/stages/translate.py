"""A stage for the tests, between generating and validating: the validator translates each candidate into French."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hab_ray.calls import ChatCall, Message, Outcome, Params, Role
from hab_ray.catalog.models import Model
from hab_ray.config.sections import Validate
from hab_ray.rows import Candidate, State
from hab_ray.stages.base import CallStage, Forecast, Rows, Unusable, usable
from hab_ray.stages.spec import Asks, Grain, Part, ResolvedSweep, Source, StageSpec

SYSTEM = "Translate into French."


@dataclass(frozen=True)
class TranslateStage(CallStage[Candidate, Candidate]):
    """Translates the candidates of one dimension."""

    model: Model

    def tasks(self, rows: Rows) -> list[Candidate]:
        """The candidates that have a text."""
        return [candidate for candidate in rows[Candidate] if candidate.state is State.OK]

    def requests(self, tasks: Iterable[Candidate]) -> Iterator[tuple[str, ChatCall]]:
        for task in tasks:
            yield (
                task.id,
                ChatCall(
                    provider=self.model.entry.provider,
                    model=self.model.name,
                    as_of=self.model.as_of,
                    system=SYSTEM,
                    messages=(Message(Role.USER, task.prompt),),
                    params=Params(max_tokens=500),
                ),
            )

    def parse(self, task: Candidate, outcome: Outcome) -> Candidate:
        """The candidate in French, or why there is none."""
        reply = usable(self.model, outcome, accept_substitutes=True)
        if isinstance(reply, Unusable):
            return replace(task, state=reply.state, reason=reply.reason, reply_key=outcome.key)
        return replace(task, prompt=reply.text, reply_key=outcome.key)

    def answer_tokens(self) -> int:
        return 200

    def forecast_rows(
        self, tasks: Forecast[Candidate], rows: Sequence[Candidate], waiting: Sequence[Candidate]
    ) -> Forecast[Candidate]:
        """Translations are about as long as what they translate."""
        typical, longest = waiting or tasks.typical or rows, waiting or tasks.longest or rows
        return Forecast(rows, len(waiting) + tasks.to_come, typical, longest)


class TranslateSpec(StageSpec):
    """One part per dimension, where the sweep validates candidates."""

    behind = "generate"
    name = "translate"
    row = Candidate

    def parts(self, resolved: ResolvedSweep) -> Iterator[Part]:
        validation = resolved.sweep.validation
        if resolved.makes_tests and isinstance(validation, Validate):
            yield from (Part(validation.model, dimension) for dimension in resolved.rubrics)

    def file(self, part: Part) -> str:
        return f"translations/{part.dimension}.parquet"

    def sources(self, resolved: ResolvedSweep) -> tuple[Source, ...]:
        return (Source(Candidate, Grain.ALL),)

    def asks(self, resolved: ResolvedSweep, part: Part) -> Asks:
        return Asks(part.name, None)

    def make(self, resolved: ResolvedSweep, part: Part) -> TranslateStage:
        return TranslateStage(resolved.models[part.name])
