"""What a request asks, what comes back and what is charged, in the same words for every vendor."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Any, NamedTuple

from hab_simulator.accounts import SimulatedModel
from hab_simulator.schemas import Schema

_MESSAGE_TOKENS = 3
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_CHARACTERS_PER_TOKEN = 4


class VectorForm(StrEnum):
    """How vectors are written: lists of numbers, base64 of little-endian float32, or one list alone."""

    LISTS = "lists"
    BASE64 = "base64"
    SINGLE = "single"


class Finish(StrEnum):
    """How a reply ended."""

    DONE = "done"
    LENGTH = "length"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply: `cached` is a part of `input`, `reasoning` of `output`."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Bill:
    """What one reply is charged."""

    usage: Usage
    nanousd: int


class Sighting(NamedTuple):
    """A subject's answer to one known prompt: its true issues and score (0..10), and the marker it carries."""

    subject: str
    dimension: str
    prompt: bytes
    letters: str
    score: int
    marker: str


class SaidOfAnswer(NamedTuple):
    """A judge's verdict on the answer with this mark: the letters it meant, and the wording that it was shown.

    `twice` is the letter that it named twice, "" for none.
    """

    judge: str
    dimension: str
    mark: str
    wording: int
    letters: str
    twice: str = ""


class MeantReply(NamedTuple):
    """One request for a chat reply, and what is meant by the reply.

    `label` is what equal requests share; `parts` are fingerprints of the texts between marks, by name. `in_braces` says
    whether a verdict is what stands from the first brace to the last. `named` are the letters named of a query,
    `queries` the JSON text of those written at the request `asked`.
    """

    manner: int
    label: bytes
    parts: tuple[tuple[str, str], ...] = ()
    sighting: Sighting | None = None
    verdict: SaidOfAnswer | None = None
    is_readable: bool = True
    in_braces: bool = True
    named: str | None = None
    asked: str = ""
    queries: str = ""


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """What a vendor says to one request; `bill` is None where nothing is charged."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    bill: Bill | None = None
    exchange: MeantReply | None = None


class Refused(Exception):
    """The vendor turns a request down; nothing is charged."""

    def __init__(self, answer: WireAnswer, model: str = "") -> None:
        super().__init__(answer.body.decode())
        self.answer = answer
        self.model = model


@dataclass(frozen=True, slots=True)
class ChatAsk:
    """A request for one chat reply; `effort` is a level in lower case, or a number of tokens.

    `caches` says whether its vendor caches prompts unasked. `identity` stands for model and content in every seeded
    draw.
    """

    name: str
    model: SimulatedModel
    system: str
    prompt: str
    transcript: str
    messages: int
    schema: Schema | None
    limit: int | None
    temperature: float | None
    top_p: float | None
    effort: str | None
    thinks: bool
    caches: bool
    identity: bytes

    @property
    def input_tokens(self) -> int:
        return tokens(self.transcript) + _MESSAGE_TOKENS * (self.messages + 1)

    @property
    def reserved_tokens(self) -> int:
        """Tokens counted against a rate limit before the reply is known."""
        return self.input_tokens + (self.limit or 0)


@dataclass(frozen=True, slots=True)
class EmbedAsk:
    """A request for vectors of texts."""

    name: str
    model: SimulatedModel
    texts: tuple[str, ...]
    dimensions: int | None
    form: VectorForm
    identity: bytes

    @property
    def input_tokens(self) -> int:
        return sum(tokens(text) for text in self.texts)

    @property
    def reserved_tokens(self) -> int:
        return self.input_tokens


Ask = ChatAsk | EmbedAsk


def tokens(text: str) -> int:
    """An estimate of a text's tokens: four characters each, never more than its UTF-8 bytes."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


def compact(value: Any) -> bytes:
    """Wire JSON as the vendors write it."""
    return _ENCODER.encode(value).encode("utf-8", "replace")


def identity(model: str, body: Any) -> bytes:
    """The same for a body sent online and as a line of a batch, however its JSON is spaced."""
    return blake2b(compact([model, body]), digest_size=16).digest()
