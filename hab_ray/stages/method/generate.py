"""Step 1, generate: a model writes candidate queries (paper: section on test creation, 3,000 per dimension).

Each call fills one slot: it shows a few seed queries and one theme, drawn by a hash of the sweep's seed and the slot,
and asks for `per_call` new queries. A row is one candidate; the candidates of a slot share its call.

Request, after a description of the dimension that is the same in every call:

    Here are examples of such messages. Do not reuse their topics or their wording.
    Example 1:
    Roses are red. What else do you know of them?
    Write 1 new message, each unlike the others and unlike the
    examples in situation, person and style. Take this theme as a loose starting point: gardening.

Reply: {"queries": [{"prompt": "My tomatoes turn yellow. Why?"}]}

A malformed query does not spoil the others of its reply. A candidate that repeats an earlier one is rejected.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter

from typing_extensions import override

from hab_ray.calls import ChatCall, Outcome, Params, Reply
from hab_ray.catalog.models import Model, accepted
from hab_ray.config.sections import Deduplicate, Generate
from hab_ray.rows import Candidate, State
from hab_ray.rubric import Rubric
from hab_ray.stages.base import Rows, seeded_order
from hab_ray.stages.forecasts import CandidateForecasts
from hab_ray.stages.prompts.schemas import queries_schema
from hab_ray.stages.prompts.wording import Prompts
from hab_ray.stages.questions import Questions
from hab_ray.stages.replies.queries import query_fields, read_query
from hab_ray.stages.selection.duplicates import without_duplicates


@dataclass(frozen=True)
class CandidateTask:
    """The `index`-th query (from 0) of a generation slot."""

    slot: int
    index: int


@dataclass(frozen=True)
class GenerateStage(CandidateForecasts[CandidateTask]):
    """Writes the candidates of one dimension."""

    rubric: Rubric
    themes: Sequence[str]
    prompts: Prompts
    model: Model
    settings: Generate
    seed: int
    accept_substitutes: bool = False
    deduplicate: Deduplicate = "exact"

    @override
    def tasks(self, rows: Rows) -> list[CandidateTask]:
        return [CandidateTask(*divmod(n, self.settings.per_call)) for n in range(self.settings.candidates)]

    @override
    def requests(self, tasks: Iterable[CandidateTask]) -> Iterator[tuple[str, ChatCall]]:
        for slot, slot_tasks in groupby(tasks, attrgetter("slot")):
            order = seeded_order(len(self.rubric.seeds), self.seed, self.rubric.id, "seeds", slot)
            seeds = [self.rubric.seeds[i] for i in order[: self.settings.seeds_shown]]
            call = self._questions.call(slot, seeds=seeds, theme=self._theme(slot), count=self.settings.per_call)
            yield from ((self._id(task), call) for task in slot_tasks)

    def _theme(self, slot: int) -> str:
        return self.themes[seeded_order(len(self.themes), self.seed, self.rubric.id, "theme", slot)[0]]

    def _id(self, task: CandidateTask) -> str:
        return f"{self.rubric.id}-{task.slot:05d}-{task.index}"

    @cached_property
    def _questions(self) -> Questions:
        s = self.settings
        params = accepted(self.model.entry, Params(s.max_tokens, s.temperature, s.top_p))
        schema = queries_schema(self.model, query_fields(self.rubric), s.per_call, s.max_tokens)
        return Questions(self.model, self.rubric, self.prompts.generate, params, schema)

    @override
    def blank(self, task: CandidateTask, outcome: Outcome) -> Candidate:
        return Candidate(self._id(task), self.rubric.id, State.OK, "", "", self._theme(task.slot), "", outcome.key)

    @override
    def read(self, task: CandidateTask, blank: Candidate, reply: Reply) -> Candidate:
        prompt, context = read_query(self.rubric, reply, task.index, self.settings.per_call)
        return replace(blank, prompt=prompt, context=context)

    @override
    def kept(self, rows: Sequence[Candidate]) -> Sequence[Candidate]:
        return without_duplicates(rows) if self.deduplicate == "exact" else rows
