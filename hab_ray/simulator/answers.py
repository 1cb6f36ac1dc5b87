"""What a simulated model says: a function of seed, model and request, the same for every vendor."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from hab_ray.simulator import prose, schemas
from hab_ray.simulator.accounts import SimulatedModel
from hab_ray.simulator.asks import Ask, Bill, Caching, ChatAsk, EmbedAsk, Finish, Sighting, Usage, tokens
from hab_ray.simulator.draws import stream, unit
from hab_ray.simulator.malformed import written
from hab_ray.simulator.planted import PlannedVerdict, Truth, query_mark
from hab_ray.simulator.schemas import letters_of

_CACHE_FROM = 1024
_CACHE_STEP = 128
_CHARACTERS_PER_TOKEN = 4
REFUSAL = "I'm sorry, but I can't help with that."


@dataclass(frozen=True, slots=True)
class Said:
    """A chat reply before a vendor wraps it; `sighting` where the text carries its marker."""

    text: str
    finish: Finish
    bill: Bill
    sighting: Sighting | None


@dataclass(frozen=True, slots=True)
class Mind:
    """Answers for all models: the seed of the run and the truth planted in it.

    `service_tier` is how they are served. In the share `separators` of the answers U+2028 stands between sentences.
    """

    seed: int
    truth: Truth
    service_tier: str = "standard"
    separators: float = 0.0

    def say(self, ask: ChatAsk) -> Said:
        """Compose the reply to a chat request and its bill."""
        rng = stream(self.seed, "answer", ask.identity)
        reasoning = rng.randint(*ask.model.thinking_tokens) if ask.thinks else 0
        fate = rng.random()
        refused, empty = ask.model.refused, ask.model.refused + ask.model.empty
        sighting = self.truth.sighting(ask) if ask.schema is None and fate >= empty else None
        if fate < refused:
            text, finish = REFUSAL, Finish.REFUSED
        elif fate < empty:
            text, finish = "", Finish.DONE
        else:
            text, finish = self._separated(ask, self._compose(ask, rng, sighting)), Finish.DONE
            if rng.random() < ask.model.cut:
                text, finish = text[: len(text) // 2], Finish.LENGTH
        if ask.limit is not None and reasoning + tokens(text) > ask.limit:
            reasoning = min(reasoning, ask.limit)
            text, finish = text[: _CHARACTERS_PER_TOKEN * (ask.limit - reasoning)], Finish.LENGTH
        cached, written = _caching(ask, rng.random())
        usage = Usage(ask.input_tokens, cached, written, reasoning + tokens(text), reasoning)
        seen = sighting if sighting is not None and sighting.marker in text else None
        if seen is not None:
            self.truth.judging.note_answer(seen.marker, ask.prompt, text)
        return Said(text, finish, bill(ask.model, usage), seen)

    def _compose(self, ask: ChatAsk, rng: Random, sighting: Sighting | None) -> str:
        if ask.schema is None:
            text = prose.answer(rng, rng.randint(*ask.model.answer_sentences))
            return text if sighting is None else f"{sighting.marker} {text}"
        dimension = self.truth.wanted_queries(ask)
        mark = None if dimension is None else query_mark(dimension, rng.getrandbits(32))
        author = prose.Author() if mark is None else prose.QueryAuthor(mark)
        value = schemas.sample(ask.schema, rng, author)
        verdict = self.truth.verdict(ask)
        return json.dumps(value, ensure_ascii=False) if verdict is None else self._judge(ask, verdict, value)

    def _judge(self, ask: ChatAsk, verdict: PlannedVerdict, value: dict[str, Any]) -> str:
        """A verdict in the words of `value`; or what the request lacks, which no client can take for one."""
        if verdict.lacks is not None:
            return f"I cannot judge this. The request lacks {verdict.lacks}."
        value["issues"] = list(verdict.letters)
        letters = letters_of(ask.schema, "issues") if ask.schema is not None else ()
        # A repeated request is longer than the first; codes of fences differ between runs and are of one length.
        rng = stream(self.seed, "malformed", ask.name, verdict.mark.whole, len(ask.transcript))
        said = written(value, letters, self.truth.planted.malformed, rng)
        self.truth.judging.note_verdict(ask.name, verdict.mark, verdict.wording, verdict.meant, said.is_readable)
        return said.text

    def _separated(self, ask: ChatAsk, text: str) -> str:
        if not self.separators or unit(self.seed, "separators", ask.identity) >= self.separators:
            return text
        return text.replace(". ", ".\u2028")

    def reported_name(self, ask: Ask) -> str:
        """The model named in the reply."""
        model = ask.model
        if model.reports_as is None:
            return ask.name
        honest = unit(self.seed, "reports", ask.identity) >= model.reports_as_share
        return ask.name if honest else model.reports_as


def embedding_bill(ask: EmbedAsk) -> Bill:
    """What a request for vectors costs."""
    return bill(ask.model, Usage(input=ask.input_tokens))


def bill(model: SimulatedModel, usage: Usage) -> Bill:
    """The charge for these tokens."""
    fresh = usage.input - usage.cached - usage.written
    return Bill(usage, model.price.nanousd(fresh, usage.cached, usage.written, usage.output))


def _caching(ask: ChatAsk, draw: float) -> tuple[int, int]:
    """Tokens read from and written to the cache: a prefix of 1,024 tokens or more, in steps of 128."""
    if ask.caching is Caching.NEVER or ask.input_tokens <= _CACHE_FROM:
        return 0, 0
    prefix = (ask.input_tokens - 1) // _CACHE_STEP * _CACHE_STEP
    if draw < ask.model.cached:
        return prefix, 0
    return 0, prefix if ask.caching is Caching.BY_REQUEST else 0
