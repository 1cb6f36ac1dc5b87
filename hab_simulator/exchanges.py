"""What models were told, and what they meant by their replies: one record for each reply that was delivered.

Requests that share model, system text, settings and schema share a manner. Texts between marks of the form
`<<<NAME code>>> ... <<<END NAME code>>>` are known by name and fingerprint, so that it can be checked which text stood
where without keeping them.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from hab_simulator.asks import ChatAsk, MeantReply, Sighting
from hab_simulator.truth.judging import TOP, normal

_MARKED = re.compile(r"<<<(\w+) (\S+)>>>\n(.*?)\n<<<END \1 \2>>>", re.DOTALL)


def fingerprint(text: str) -> str:
    """A text as it is known by: the digest (hex) of its normal form."""
    return blake2b(normal(text).encode("utf-8", "replace"), digest_size=16).hexdigest()


def marked(text: str) -> dict[str, str]:
    """The fingerprints of the texts that stand between marks, by name."""
    return {name: fingerprint(inside) for name, inside in between_marks(text).items()}


def between_marks(text: str) -> dict[str, str]:
    """The texts that stand between marks, by name."""
    return {name: inside for name, _, inside in _MARKED.findall(text)}


class Manner(NamedTuple):
    """What requests share beside their messages; `schema` is JSON text, "" for none."""

    model: str
    system: str
    limit: int | None
    temperature: float | None
    top_p: float | None
    effort: str | None
    schema: str


@dataclass(frozen=True, slots=True)
class Heard:
    """All replies that were delivered. Manners are known by their number."""

    _manners: dict[Manner, int] = field(default_factory=dict)
    _exchanges: Counter[MeantReply] = field(default_factory=Counter)
    _equal: Counter[bytes] = field(default_factory=Counter)
    _broken: Counter[bytes] = field(default_factory=Counter)

    def manner(self, ask: ChatAsk) -> int:
        """The number of a request's manner."""
        schema = "" if ask.schema is None else json.dumps(ask.schema, ensure_ascii=False)
        manner = Manner(ask.name, ask.system, ask.limit, ask.temperature, ask.top_p, ask.effort, schema)
        return self._manners.setdefault(manner, len(self._manners))

    def add(self, exchange: MeantReply) -> None:
        self._exchanges[exchange] += 1
        (self._equal if exchange.is_readable else self._broken)[exchange.label] += 1

    def before(self, label: bytes) -> int:
        """How many equal requests have been answered."""
        return self._equal[label]

    def broken(self, label: bytes) -> int:
        """How many equal requests got a reply that cannot be read."""
        return self._broken[label]

    def manners(self) -> list[Mapping[str, Any]]:
        """Wire JSON of `GET /_truth/manners`, in the order of their numbers."""
        return [manner._asdict() for manner in self._manners]

    def means(self) -> list[Mapping[str, Any]]:
        """Wire JSON of `GET /_truth`, over the known prompts that a subject answered, each counted once.

        The mean score in 0..1 is numerator / denominator, exactly.
        """
        answered: dict[tuple[str, str], dict[bytes, Sighting]] = {}
        for exchange in self._exchanges:
            if (seen := exchange.sighting) is not None:
                answered.setdefault((seen.subject, seen.dimension), {})[seen.prompt] = seen
        return [
            {
                "subject": subject,
                "dimension": dimension,
                "n": len(by_prompt),
                "numerator": sum(one.score for one in by_prompt.values()),
                "denominator": TOP * len(by_prompt),
                "issues": dict(sorted(Counter("".join(one.letters for one in by_prompt.values())).items())),
            }
            for (subject, dimension), by_prompt in sorted(answered.items())
        ]

    def answers(self) -> list[Mapping[str, Any]]:
        """Wire JSON of `GET /_truth/answers`: what each answer shows, by the sha256 (hex) of its prompt."""
        return [
            {
                "subject": seen.subject,
                "dimension": seen.dimension,
                "prompt": seen.prompt.hex(),
                "letters": seen.letters,
                "mark": seen.marker,
                "manner": exchange.manner,
                "times": times,
            }
            for exchange, times in self._exchanges.items()
            if (seen := exchange.sighting)
        ]

    def verdicts(self) -> list[Mapping[str, Any]]:
        """Wire JSON of `GET /_truth/verdicts`: what was meant, and how often it could be read and could not."""
        found: dict[tuple[Any, ...], Counter[str]] = {}
        for exchange, times in self._exchanges.items():
            if exchange.verdict:
                key = exchange.manner, exchange.parts, exchange.verdict
                counts = found.setdefault(key, Counter(readable=0, unreadable=0, in_braces=0))
                counts["readable" if exchange.is_readable else "unreadable"] += times
                counts["in_braces"] += times * exchange.in_braces
        return [
            {**verdict._asdict(), "manner": manner, "parts": dict(parts), **counts}
            for (manner, parts, verdict), counts in found.items()
        ]

    def checks(self) -> list[Mapping[str, Any]]:
        """Wire JSON of `GET /_truth/checks`: the letters that were named of a query, without an answer to it."""
        return [
            {"manner": exchange.manner, "parts": dict(exchange.parts), "letters": exchange.named, "times": times}
            for exchange, times in self._exchanges.items()
            if exchange.named is not None
        ]

    def written(self) -> Iterator[Mapping[str, Any]]:
        """Wire JSON of `GET /_truth/queries`: each request for queries, and the queries that it got."""
        for exchange, times in self._exchanges.items():
            if exchange.queries:
                queries = json.loads(exchange.queries)
                yield {"manner": exchange.manner, "asked": exchange.asked, "queries": queries, "times": times}
