"""Step 1, generate candidates (paper: section on test creation, 3,000 per dimension).

Each slot shows its own few seed queries and one theme, drawn by hash from the sweep's seed, and asks for `per_call`
new queries; the candidates of a slot share that call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hab_ray.calls import ChatCall, Message, Outcome, Params, Role, clean_text, has_visible_text
from hab_ray.catalog import Model, accepted
from hab_ray.rows import Candidate, State
from hab_ray.rubric import Rubric
from hab_ray.sections import Deduplicate, Generate
from hab_ray.stages.base import CallStage, Rows, Unusable, seeded_order, usable
from hab_ray.stages.forecast import Forecast, stand_in
from hab_ray.stages.prompts.wording import Prompts, Wording, compact_schema
from hab_ray.stages.replies.published import numbered_queries
from hab_ray.stages.replies.reading import Unreadable, listed_objects, whole_text

CHARACTERS_A_TOKEN = 3
SHORTEST_TEXT = 80
TYPICAL_TOKENS = 200  # of one query


@dataclass(frozen=True)
class CandidateTask:
    """The `index`-th query of a generation slot."""

    slot: int
    index: int


@dataclass(frozen=True)
class GenerateStage(CallStage[CandidateTask, Candidate]):
    """Writes the candidates of one dimension."""

    rubric: Rubric
    themes: Sequence[str]
    prompts: Prompts
    model: Model
    settings: Generate
    seed: int
    accept_substitutes: bool = False
    deduplicate: Deduplicate = "exact"

    def tasks(self, rows: Rows) -> list[CandidateTask]:
        """One task per candidate wanted, slot by slot."""
        wanted, per_call = self.settings.candidates, self.settings.per_call
        return [CandidateTask(n // per_call, n % per_call) for n in range(wanted)]

    def requests(self, tasks: Iterable[CandidateTask]) -> Iterator[tuple[str, ChatCall]]:
        """See CallStage."""
        last: tuple[int, ChatCall] | None = None
        for task in tasks:
            if last is None or last[0] != task.slot:
                last = task.slot, self._call(task.slot)
            yield self._id(task), last[1]

    def _id(self, task: CandidateTask) -> str:
        return f"{self.rubric.id}-{task.slot:05d}-{task.index}"

    @cached_property
    def _wording(self) -> Wording:
        return Wording(self.prompts.generate)

    @cached_property
    def _system(self) -> str:
        return self._wording.system({"rubric": self.rubric})

    @cached_property
    def _params(self) -> Params:
        s = self.settings
        return accepted(self.model.entry, Params(s.max_tokens, s.temperature, s.top_p))

    def _theme(self, slot: int) -> str:
        return self.themes[seeded_order(len(self.themes), self.seed, self.rubric.id, "theme", slot)[0]]

    def _call(self, slot: int) -> ChatCall:
        seeds = self.rubric.seeds
        order = seeded_order(len(seeds), self.seed, self.rubric.id, "seeds", slot)
        values = {
            "rubric": self.rubric,
            "seeds": [seeds[i] for i in order[: self.settings.seeds_shown]],
            "theme": self._theme(slot),
            "count": self.settings.per_call,
        }
        is_literal = self.rubric.literal_generation is not None
        return ChatCall(
            provider=self.model.entry.provider,
            model=self.model.name,
            as_of=self.model.as_of,
            system=self._system,
            messages=(Message(Role.USER, self._wording.user(values)),),
            params=self._params,
            schema_json=self._schema if self.model.entry.json_schema and not is_literal else None,
            sample=slot,
            verbatim=is_literal,
        )

    @cached_property
    def _fields(self) -> tuple[str, ...]:
        """What a query is made of. A context that stands within the prompt comes between what is before and
        after it, so that it occurs there word for word by construction."""
        if self.rubric.context is None:
            return ("prompt",)
        in_parts = self.rubric.context.within_prompt and self.rubric.literal_generation is None
        return ("before", "context", "after") if in_parts else ("prompt", "context")

    @cached_property
    def _schema(self) -> str:
        text: dict[str, Any] = {"type": "string"}
        if "strings" in self.model.entry.schema_bounds:
            texts = self.settings.per_call * len(self._fields)
            text["minLength"] = SHORTEST_TEXT
            text["maxLength"] = max(SHORTEST_TEXT, self.settings.max_tokens * CHARACTERS_A_TOKEN // texts)
        query = json.loads(compact_schema({name: text for name in self._fields}))
        queries: dict[str, Any] = {"type": "array", "items": query}
        if "lists" in self.model.entry.schema_bounds:
            queries |= {"minItems": self.settings.per_call, "maxItems": self.settings.per_call}
        return compact_schema({"queries": queries})

    def parse(self, task: CandidateTask, outcome: Outcome) -> Candidate:
        """The candidate, or why there is none. A list with some bad members keeps the good ones."""
        blank = Candidate(
            id=self._id(task),
            dimension=self.rubric.id,
            state=State.REJECTED,
            prompt="",
            context="",
            theme=self._theme(task.slot),
            reason="",
            reply_key=outcome.key,
        )
        reply = usable(self.model, outcome, self.accept_substitutes)
        if isinstance(reply, Unusable):
            return replace(blank, state=reply.state, reason=reply.reason)
        try:
            text, literal = whole_text(reply), self.rubric.literal_generation
            members = listed_objects(text, "queries") if literal is None else numbered_queries(text, self._fields)
            if task.index >= len(members):
                raise Unreadable(f"the reply holds {len(members)} of {self.settings.per_call} queries")
            return self._read(blank, members[task.index])
        except Unreadable as problem:
            return replace(blank, state=State.UNREADABLE, reason=str(problem))

    def _read(self, blank: Candidate, member: Any) -> Candidate:
        parts = {name: member.get(name) for name in self._fields} if isinstance(member, dict) else {}
        texts = {name: clean_text(part).strip() for name, part in parts.items() if isinstance(part, str)}
        context = texts.get("context", "")
        prompt = texts["prompt"] if "prompt" in texts else " ".join(part for part in texts.values() if part)
        needed = [prompt, context] if self.rubric.context else [prompt]
        if len(texts) < len(self._fields) or not all(map(has_visible_text, needed)):
            raise Unreadable(f"the query needs texts {', '.join(self._fields)}")
        return replace(blank, state=State.OK, prompt=prompt, context=context)

    def kept(self, rows: Sequence[Candidate]) -> Sequence[Candidate]:
        """All candidates; with exact deduplication, those that repeat an earlier one are rejected."""
        return without_duplicates(rows) if self.deduplicate == "exact" else rows

    def answer_tokens(self) -> int:
        """See CallStage."""
        return TYPICAL_TOKENS * self.settings.per_call

    def forecast_rows(
        self, tasks: Forecast[CandidateTask], rows: Sequence[Candidate], waiting: Sequence[CandidateTask]
    ) -> Forecast[Candidate]:
        """Candidates to come are like the rubric's seeds, at most as long as a whole reply."""
        longest = stand_in(self.settings.max_tokens)
        seeds = enumerate(self.rubric.seeds)
        return Forecast(
            known=rows,
            to_come=len(waiting),
            typical=[_stand_in(self.rubric, f"seed-{n}", seed.prompt, seed.context or "") for n, seed in seeds],
            longest=[_stand_in(self.rubric, "longest", longest, longest if self.rubric.context else "")],
        )


def _stand_in(rubric: Rubric, id: str, prompt: str, context: str) -> Candidate:
    return Candidate(id, rubric.id, State.OK, prompt, context, theme="", reason="", reply_key="")


def without_duplicates(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same candidates, each that repeats an earlier one's words rejected before its validation is paid for."""
    first: dict[str, str] = {}
    kept = []
    for candidate in candidates:
        words = " ".join(candidate.prompt.casefold().split())
        original = first.setdefault(words, candidate.id) if candidate.state is State.OK else candidate.id
        repeated = original != candidate.id
        reason = f"same words as {original}"
        kept.append(replace(candidate, state=State.REJECTED, reason=reason) if repeated else candidate)
    return kept
