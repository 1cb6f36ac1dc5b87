"""Step 2, validate candidates: a model names faults by letter; the score is 1000 minus their deductions.

The paper keeps the best 2,000 per dimension. The sum is ours: what a model adds up itself is not read, except where
imported wording asks for nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hab_ray.calls import ChatCall, Message, Outcome, Params, Reply, Role
from hab_ray.catalog import Model, accepted
from hab_ray.rows import Candidate, State, Validation
from hab_ray.rubric import VALIDATION_START, Reading, Rubric
from hab_ray.sections import Validate
from hab_ray.stages.base import CallStage, Rows, Unusable, seeded_order, usable
from hab_ray.stages.prompts.wording import Prompts, Wording, compact_schema
from hab_ray.stages.replies.copying import COPIED, Shown
from hab_ray.stages.replies.published import loose_total, tagged_score
from hab_ray.stages.replies.reading import Unreadable, named_letters, whole_text

LONGEST_ASSESSMENT = 600
TYPICAL_TOKENS = 200


def text_schema(model: Model, max_tokens: int) -> dict[str, Any]:
    """The schema of an assessment, or of one of its parts.

    Where the model's server bounds strings it gets a character a token, so that what follows it fits in as well.
    """
    if "strings" in model.entry.schema_bounds:
        return {"type": "string", "maxLength": min(LONGEST_ASSESSMENT, max_tokens)}
    return {"type": "string"}


def letters_schema(model: Model, key: str, letters: Sequence[str], assessment: Mapping[str, Any]) -> str | None:
    """The schema of an assessment followed by a list of letters, where the model's server can enforce one."""
    if not model.entry.json_schema:
        return None
    named: dict[str, Any] = {"type": "array", "items": {"type": "string", "enum": list(letters)}}
    if "lists" in model.entry.schema_bounds:
        named["maxItems"] = len(letters)
    return compact_schema({"assessment": assessment, key: named})


@dataclass(frozen=True)
class ValidateStage(CallStage[Candidate, Validation]):
    """Scores the candidates of one dimension."""

    rubric: Rubric
    prompts: Prompts
    model: Model
    settings: Validate
    accept_substitutes: bool = False

    def tasks(self, rows: Rows) -> list[Candidate]:
        """The candidates that are worth the call."""
        return [c for c in rows[Candidate] if c.state is State.OK]

    @cached_property
    def _deductions(self) -> Mapping[str, int]:
        return {c.letter: c.deduction for c in self.rubric.criteria}

    @cached_property
    def _wording(self) -> Wording:
        return Wording(self.prompts.validation)

    @cached_property
    def _system(self) -> str:
        return self._wording.system({"rubric": self.rubric})

    @cached_property
    def _shown(self) -> Shown:
        validation = self.rubric.validation
        return Shown(
            self._wording,
            {"rubric": self.rubric, "prompt": "-", "context": ""},
            (example.assessment for example in validation.examples) if validation else (),
            (criterion.text for criterion in self.rubric.criteria),
        )

    @cached_property
    def _params(self) -> Params:
        return accepted(self.model.entry, Params(self.settings.max_tokens, temperature=0.0))

    @property
    def _is_literal(self) -> bool:
        """Whether imported wording asks, for a total instead of letters."""
        return self.rubric.literal_validation is not None

    @cached_property
    def _schema(self) -> str | None:
        if self._is_literal:
            return None
        assessment = text_schema(self.model, self.settings.max_tokens)
        return letters_schema(self.model, "deductions", list(self._deductions), assessment)

    def requests(self, tasks: Iterable[Candidate]) -> Iterator[tuple[str, ChatCall]]:
        """See CallStage."""
        for task in tasks:
            values = {"rubric": self.rubric, "prompt": task.prompt, "context": task.context}
            yield (
                task.id,
                ChatCall(
                    provider=self.model.entry.provider,
                    model=self.model.name,
                    as_of=self.model.as_of,
                    system=self._system,
                    messages=(Message(Role.USER, self._wording.user(values)),),
                    params=self._params,
                    schema_json=self._schema,
                    verbatim=self._is_literal,
                ),
            )

    def parse(self, task: Candidate, outcome: Outcome) -> Validation:
        """The candidate's score, or why it has none."""
        blank = Validation(
            candidate_id=task.id,
            dimension=task.dimension,
            state=State.UNREADABLE,
            score=None,
            deductions=(),
            reason="",
            reply_key=outcome.key,
        )
        reply = usable(self.model, outcome, self.accept_substitutes)
        if isinstance(reply, Unusable):
            return replace(blank, state=reply.state, reason=reply.reason)
        try:
            return self._read(blank, reply)
        except Unreadable as problem:
            return replace(blank, reason=str(problem))

    def _read(self, blank: Validation, reply: Reply) -> Validation:
        literal = self.rubric.literal
        if literal and literal.validation and literal.reading is Reading.PUBLISHED:
            return replace(blank, state=State.OK, score=loose_total(reply.text))
        text = whole_text(reply)
        if self._is_literal:
            return replace(blank, state=State.OK, score=tagged_score(text))
        named = named_letters(text, "deductions", tuple(self._deductions))
        if self._shown.holds(named.assessment):
            raise Unreadable(COPIED)
        lost = sum(self._deductions[letter] for letter in named.letters)
        return replace(
            blank,
            state=State.OK,
            score=max(0, VALIDATION_START - lost),
            deductions=named.letters,
            reason=named.assessment,
        )

    def answer_tokens(self) -> int:
        """See CallStage."""
        return TYPICAL_TOKENS


def best(
    candidates: Sequence[Candidate], validations: Sequence[Validation], settings: Validate, seed: int
) -> list[Candidate]:
    """The `keep` best candidates at or above the floor, ties in a seeded order, sorted by id."""
    scores = {v.candidate_id: v.score for v in validations if v.score is not None}
    scored = sorted((c for c in candidates if c.id in scores), key=lambda c: c.id)
    order = seeded_order(len(scored), seed, "ties")
    ranked = sorted(
        (i for i in order if scores[scored[i].id] >= settings.floor),
        key=lambda i: scores[scored[i].id],
        reverse=True,
    )
    return sorted((scored[i] for i in ranked[: settings.keep]), key=lambda c: c.id)
