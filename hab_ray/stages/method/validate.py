"""Step 2, validate: a model names the faults of each candidate by letter, and the best are kept (paper: 2,000).

A row is one candidate's score: 1000 minus the deductions of its faults. We compute the score from the letters; a total
that the model gives is read only where imported wording asks for nothing else.

Request, after the criteria with their letters and worked examples, which are the same in every call:

    <<<MESSAGE [hab-fence-code]>>>
    Roses are red. What else do you know of them?
    <<<END MESSAGE [hab-fence-code]>>>
    Which faults does the message have?

Reply: {"assessment": "It asks for nothing.", "deductions": ["A"]}

An unreadable reply gives no score, and its candidate is not kept.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from typing_extensions import override

from hab_ray.calls import ChatCall, Outcome, Params, Reply
from hab_ray.catalog.models import Model, accepted
from hab_ray.config.sections import Validate
from hab_ray.rows import Candidate, State, Validation
from hab_ray.rubric import Rubric
from hab_ray.stages.base import ReadStage, Rows, seeded_order
from hab_ray.stages.prompts.schemas import letters_schema
from hab_ray.stages.prompts.wording import Prompts
from hab_ray.stages.questions import Questions
from hab_ray.stages.replies.verdicts import Validations


@dataclass(frozen=True)
class ValidateStage(ReadStage[Candidate, Validation]):
    """Scores the candidates of one dimension."""

    rubric: Rubric
    prompts: Prompts
    model: Model
    settings: Validate
    accept_substitutes: bool = False

    @override
    def tasks(self, rows: Rows) -> list[Candidate]:
        return [c for c in rows[Candidate] if c.state is State.OK]

    @override
    def requests(self, tasks: Iterable[Candidate]) -> Iterator[tuple[str, ChatCall]]:
        return ((task.id, self._questions.call(prompt=task.prompt, context=task.context)) for task in tasks)

    @cached_property
    def _questions(self) -> Questions:
        params = accepted(self.model.entry, Params(self.settings.max_tokens, temperature=0.0))
        letters = [criterion.letter for criterion in self.rubric.criteria]
        schema = letters_schema(self.model, "deductions", letters, self.settings.max_tokens)
        return Questions(self.model, self.rubric, self.prompts.validation, params, schema)

    @cached_property
    def _replies(self) -> Validations:
        return Validations(self.rubric, self._questions.wording)

    @override
    def answer_tokens(self) -> int:
        return 200

    @override
    def blank(self, task: Candidate, outcome: Outcome) -> Validation:
        return Validation(task.id, task.dimension, State.UNREADABLE, None, (), "", outcome.key)

    @override
    def read(self, task: Candidate, blank: Validation, reply: Reply) -> Validation:
        found = self._replies.read(reply)
        return replace(blank, state=State.OK, score=found.score, deductions=found.letters, reason=found.assessment)


def best(rows: Rows, settings: Validate | None, seed: int) -> list[Candidate]:
    """Return the `keep` best candidates that score at least `floor`, sorted by id; `seed` breaks ties.

    Without validation `settings`, return all candidates in state OK.
    """
    candidates, validations = rows[Candidate], rows[Validation]
    if settings is None:
        return sorted((c for c in candidates if c.state is State.OK), key=lambda c: c.id)
    scores = {v.candidate_id: v.score for v in validations if v.score is not None}
    scored = sorted((c for c in candidates if c.id in scores), key=lambda c: c.id)
    order = (scored[i] for i in seeded_order(len(scored), seed, "ties"))
    ranked = sorted((c for c in order if scores[c.id] >= settings.floor), key=lambda c: scores[c.id], reverse=True)
    return sorted(ranked[: settings.keep], key=lambda c: c.id)
