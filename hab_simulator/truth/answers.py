"""What a simulated model says: a function of seed, model and request, the same for every vendor."""

import json
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

from hab_simulator import schemas
from hab_simulator.accounts import SimulatedModel
from hab_simulator.asks import Ask, Bill, ChatAsk, Finish, MeantReply, SaidOfAnswer, Usage, tokens
from hab_simulator.exchanges import marked
from hab_simulator.schemas import letters_of
from hab_simulator.truth import prose
from hab_simulator.truth.draws import stream, unit
from hab_simulator.truth.malformed import written
from hab_simulator.truth.planted import PlannedVerdict, Truth, query_mark

_CACHE_FROM = 1024
_CACHE_STEP = 128
_CHARACTERS_PER_TOKEN = 4
_REPEATED = 2
REFUSAL = "I'm sorry, but I can't help with that."


@dataclass(frozen=True, slots=True)
class Said:
    """A chat reply before a vendor wraps it; `exchange` says what is meant by it."""

    text: str
    finish: Finish
    bill: Bill
    exchange: MeantReply


@dataclass(frozen=True, slots=True)
class Mind:
    """Answers for all models: the seed of the run and the truth planted in it.

    `service_tier` is how they are served. In the share `separators` of the answers U+2028 stands between sentences.
    `ahead` counts, in a batch, the equal requests that stand before one.
    """

    seed: int
    truth: Truth
    service_tier: str = "standard"
    separators: float = 0.0
    ahead: Counter[bytes] | None = None

    def say(self, ask: ChatAsk) -> Said:
        """Compose the reply to a chat request and its bill."""
        rng = stream(self.seed, "answer", ask.identity)
        reasoning = ask.model.lengths.drawn(rng, *ask.model.thinking_tokens) if ask.thinks else 0
        fate = rng.random()
        refused, empty = ask.model.refused, ask.model.refused + ask.model.empty
        exchange = MeantReply(self.truth.heard.manner(ask), ask.identity, tuple(marked(ask.prompt).items()))
        if ask.schema is None and fate >= empty:
            exchange = exchange._replace(sighting=self.truth.sighting(ask, self._draw(ask.identity)))
        if fate < refused:
            text, finish = REFUSAL, Finish.REFUSED
        elif fate < empty:
            text, finish = "", Finish.DONE
        else:
            text, exchange = self._compose(ask, rng, exchange)
            if self.separators and unit(self.seed, "separators", ask.identity) < self.separators:
                text = text.replace(". ", ".\u2028")
            finish = Finish.DONE
            if rng.random() < ask.model.cut:
                text, finish = text[: len(text) // 2], Finish.LENGTH
        if ask.limit is not None and reasoning + tokens(text) > ask.limit:
            reasoning = min(reasoning, ask.limit)
            text, finish = text[: _CHARACTERS_PER_TOKEN * (ask.limit - reasoning)], Finish.LENGTH
        cached = _cached(ask, rng.random())
        usage = Usage(ask.input_tokens, cached, reasoning + tokens(text), reasoning)
        if (seen := exchange.sighting) is not None:
            if seen.marker in text:
                self.truth.judging.note_answer(seen.marker, ask.prompt, text)
            else:
                exchange = exchange._replace(sighting=None)
        return Said(text, finish, bill(ask.model, usage), exchange)

    def _draw(self, label: bytes) -> int:
        """How many equal requests were answered before, where each is answered anew."""
        if not self.truth.planted.anew:
            return 0
        before = self.truth.heard.before(label)
        if self.ahead is not None:
            before += self.ahead[label]
            self.ahead[label] += 1
        return before

    def _compose(self, ask: ChatAsk, rng: Random, exchange: MeantReply) -> tuple[str, MeantReply]:
        """The text of a reply, and what is meant by it."""

        def draw_of(label: bytes) -> int:
            return self._draw(b"%d %s" % (exchange.manner, label))

        if ask.schema is None:
            text = prose.answer(rng, ask.model.lengths.drawn(rng, *ask.model.answer_sentences))
            if exchange.sighting is not None:
                return f"{exchange.sighting.marker} {text}", exchange
            verdict = self.truth.verdict(ask, draw_of)
            return (text, exchange) if verdict is None else self._judge(ask, verdict, {"assessment": text}, exchange)
        dimension = self.truth.wanted_queries(ask)
        mark = None if dimension is None else query_mark(dimension, rng.getrandbits(32))
        author = prose.Author() if mark is None else prose.QueryAuthor(mark)
        value = schemas.sample(ask.schema, rng, author)
        verdict = self.truth.verdict(ask, draw_of)
        if verdict is not None:
            return self._judge(ask, verdict, value, exchange)
        if self.truth.planted.anew:
            exchange = self._planted(ask, rng, value, exchange)
        return json.dumps(value, ensure_ascii=False), exchange

    def _planted(self, ask: ChatAsk, rng: Random, value: dict[str, Any], exchange: MeantReply) -> MeantReply:
        """Plant the faults of a query that is checked, and queries that repeat others, into a reply."""
        assert ask.schema is not None
        if letters := letters_of(ask.schema, "deductions"):
            named = self.truth.faults(ask, exchange.parts, letters)
            value["deductions"] = list(named)
            return exchange._replace(named="".join(named))
        queries = value.get("queries")
        if not isinstance(queries, list):
            return exchange
        for at, query in enumerate(queries):
            if rng.random() < self.truth.planted.repeated:
                again = stream(self.seed, "repeated", ask.system, rng.randrange(_REPEATED))
                words = {name: prose.answer(again, 2) for name in query}
                queries[at] = {name: text.upper() if at % 2 else text for name, text in words.items()}
        return exchange._replace(asked=ask.prompt, queries=json.dumps(queries, ensure_ascii=False))

    def _judge(
        self, ask: ChatAsk, verdict: PlannedVerdict, value: dict[str, Any], exchange: MeantReply
    ) -> tuple[str, MeantReply]:
        """A verdict in the words of `value`; or what the request lacks, which no client can take for one."""
        if verdict.lacks is not None:
            return f"I cannot judge this. The request lacks {verdict.lacks}.", exchange
        value[verdict.key] = list(verdict.letters)
        # A repeated request is longer than the first; codes of fences differ between runs and are of one length.
        # One in fixed words is the same: it is told by the broken replies before.
        label = b"%d %s" % (exchange.manner, verdict.label)
        again = (self.truth.heard.broken(label),) if verdict.request else ()
        rng = stream(self.seed, "malformed", ask.name, verdict.mark.whole, len(ask.transcript), *again)
        said = written(value, verdict.key, verdict.allowed, self.truth.planted.malformed, rng)
        mark = verdict.mark
        meant = SaidOfAnswer(ask.name, mark.dimension, mark.whole, verdict.wording, verdict.meant, said.twice)
        if verdict.request:
            exchange = exchange._replace(parts=(("request", verdict.request),))
        elif mark.seen:
            exchange = exchange._replace(parts=(*exchange.parts, ("given", mark.seen)))
        return said.text, exchange._replace(
            label=label, verdict=meant, is_readable=said.is_readable, in_braces=said.in_braces
        )

    def reported_name(self, ask: Ask) -> str:
        """The model named in the reply."""
        model = ask.model
        if model.reports_as is None:
            return ask.name
        honest = unit(self.seed, "reports", ask.identity) >= model.reports_as_share
        return ask.name if honest else model.reports_as


def bill(model: SimulatedModel, usage: Usage) -> Bill:
    """The charge for these tokens."""
    return Bill(usage, model.price.nanousd(usage.input - usage.cached, usage.cached, usage.output))


def _cached(ask: ChatAsk, draw: float) -> int:
    """Tokens read from the cache: a prefix of 1,024 tokens or more, in steps of 128."""
    if not ask.caches or ask.input_tokens <= _CACHE_FROM or draw >= ask.model.cached:
        return 0
    return (ask.input_tokens - 1) // _CACHE_STEP * _CACHE_STEP
