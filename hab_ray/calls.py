"""Calls, replies, failures, and the keys under which paid replies are stored.

A key is the sha256 of `hab1\\n` and a compact JSON array of our own fields in a fixed order. It does not depend on the
body that an SDK builds, on a URL or on a port, so an upgraded SDK or another endpoint of the same account causes no
second payment. Numbers are decimal strings, so 0, 0.0 and -0.0 are the same temperature.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import category

from hab_ray.errors import FailureKind

if TYPE_CHECKING:
    from _hashlib import HASH as Hash

KEY_VERSION = "hab1"
_INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
# Other code points that render as blank: Hangul fillers, the empty Braille cell, variation selectors, and others that
# Unicode lists as default ignorable, assigned or not.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")


class Role(StrEnum):
    """The author of a message."""

    USER = "user"
    ASSISTANT = "assistant"


class Finish(StrEnum):
    """How a reply ended, in the same terms for all vendors."""

    OK = "ok"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    EMPTY = "empty"


def clean_text(text: str) -> str:
    """Replace lone surrogates, which no vendor's JSON parser accepts, with U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


def has_visible_text(text: str) -> bool:
    """Return whether a text has any visible character.

    White space, control and format characters and blank letters are invisible. Private-use and unassigned characters
    count as visible, because a font may show them, or a box in their place.
    """
    return any(category(char) not in _INVISIBLE and not _BLANK.match(char) for char in text)


@lru_cache(maxsize=1024)
def decimal_text(number: float | int) -> str:
    """Return the shortest decimal string of a number; equal numbers have equal strings.

    Raises:
        ValueError: the number is not finite.
    """
    if not math.isfinite(number):
        raise ValueError(f"{number!r} is not a finite number and cannot be a parameter of a call")
    if number == 0:
        return "0"
    return format(Decimal(repr(number)).normalize(), "f")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Params:
    """Sampling settings of a chat call; None leaves a setting to the vendor.

    `max_tokens` limits the visible answer. `effort` is the vendor's name of a reasoning effort.
    """

    max_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    effort: str | None = None

    @property
    def sent_effort(self) -> str | None:
        """The effort in lower case, as vendors spell it; a call's key has it as written."""
        return self.effort and self.effort.lower()

    def canonical(self) -> list[str | None]:
        """Return the fields in a fixed order with numbers as decimal strings, for the key and for display."""
        numbers = (self.max_tokens, self.temperature, self.top_p)
        return [None if n is None else decimal_text(n) for n in numbers] + [self.effort]


@dataclass(frozen=True)
class ChatCall:
    """One chat request to one model.

    `as_of` is the run's month for a moving alias, the weights' sha256 for a local model, else None.
    `schema_json` is ordered JSON text: the order of a schema's fields steers generation.
    `sample` distinguishes replicates and generation slots; `ask` is 1 for the re-ask of an unreadable verdict.
    `verbatim` texts are sent unchanged, even if they contain a fence's placeholder; it is not part of the key.
    """

    provider: str
    model: str
    as_of: str | None
    system: str
    messages: tuple[Message, ...]
    params: Params
    schema_json: str | None = None
    sample: int = 0
    ask: int = 0
    verbatim: bool = False

    @cached_property
    def json_after_system(self) -> str:
        """The JSON of the key's fields that follow the system prompt, in their fixed order, without brackets."""
        turns = [[str(m.role), clean_text(m.text)] for m in self.messages]
        return _compact([turns, self.params.canonical(), self.schema_json, self.sample, self.ask])[1:-1]

    @cached_property
    def key(self) -> str:
        """The sha256, in 64 hexadecimal digits, under which this call's reply is stored."""
        start = _hash_started(self.provider, self.model, self.as_of, self.system).copy()
        start.update(f",{self.json_after_system}]".encode())
        return start.hexdigest()


@dataclass(frozen=True)
class EmbedCall:
    """The embedding of one text; providers pack many into one request. `dimensions` None means the native size."""

    provider: str
    model: str
    as_of: str | None
    text: str
    dimensions: int | None = None

    def canonical(self) -> list[Any]:
        return ["embed", self.provider, self.model, self.as_of, clean_text(self.text), self.dimensions]

    @cached_property
    def key(self) -> str:
        return sha256(f"{KEY_VERSION}\n{_compact(self.canonical())}".encode()).hexdigest()


Call = ChatCall | EmbedCall


def _compact(canonical: list[Any]) -> str:
    return json.dumps(canonical, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@lru_cache(maxsize=64)
def _head(*fields: str | None) -> str:
    """Return JSON of a call's first fields, without the closing bracket: its kind, model, and the system prompt."""
    return _compact([None if field is None else clean_text(field) for field in fields])[:-1]


@lru_cache(maxsize=64)
def _hash_started(provider: str, model: str, as_of: str | None, system: str) -> Hash:
    return sha256(f"{KEY_VERSION}\n{_head('chat', provider, model, as_of, system)}".encode())


class CallText(NamedTuple):
    """A call as the two halves of a JSON array; a shard's calls share the first, with a chat's long system prompt."""

    head: str
    rest: str


def to_json(call: Call) -> CallText:
    """Serialise a call; `from_json` restores it with the same key."""
    if isinstance(call, EmbedCall):
        kind, provider, model, as_of, *rest = call.canonical()
        return CallText(_head(kind, provider, model, as_of), _compact(rest)[1:-1])
    head = _head("chat", call.provider, call.model, call.as_of, call.system)
    return CallText(head, f"{call.json_after_system},{json.dumps(call.verbatim)}")


def from_json(text: CallText, key: str | None = None) -> Call:
    """Restore a call of `to_json`. A given `key` saves computing it."""
    call = _read(text)
    if key is not None:
        call.__dict__["key"] = key  # where cached_property keeps it
    return call


def _read(text: CallText) -> Call:
    after_head: list[Any] = json.loads(f"[{text.rest}]")
    kind, provider, model, as_of, *rest = [*_fields(text.head), *after_head]
    if kind == "embed":
        return EmbedCall(provider, model, as_of, *rest)
    system, messages, (max_tokens, temperature, top_p, effort), *others = rest
    turns = tuple(Message(Role(role), text) for role, text in messages)
    params = Params(int(max_tokens), _number(temperature), _number(top_p), effort)
    return ChatCall(provider, model, as_of, system, turns, params, *others)


@lru_cache(maxsize=64)
def _fields(head: str) -> tuple[Any, ...]:
    return tuple(json.loads(f"{head}]"))


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. `input` includes cached tokens, `output` includes reasoning tokens."""

    input: int = 0
    cached: int = 0
    cache_written: int = 0
    output: int = 0
    reasoning: int = 0

    def fits(self, max_input: int, max_output: int) -> bool:
        """Return whether the usage is consistent and within the limits of a request."""
        parts_fit = self.cached + self.cache_written <= self.input and self.reasoning <= self.output
        return parts_fit and self.input <= max_input and self.output <= max_output


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to a call, and its cost.

    A chat reply has `text`, an embedding has `vector` (float32, little endian). `model_reported` is the model that
    answered according to the vendor; `served_by` is the vendor's name of its backend or system fingerprint.
    `latency_s` is the time from sending an online request to the last byte of its answer; None for a batch.
    """

    key: str
    finish: Finish
    usage: Usage
    cost_nanousd: int
    model_reported: str
    served_by: str
    body_sha256: str
    at: datetime
    text: str = ""
    vector: bytes = b""
    latency_s: float | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A permanent failure of a call, stored like a reply. A call with neither is sent again."""

    key: str
    kind: FailureKind
    attempts: int
    message: str
    cost_nanousd: int = 0


Outcome = Reply | Failure


@dataclass(frozen=True, slots=True)
class Answer:
    """The content of one response body as a provider's parser reads it, before it is assigned to a key.

    `stated_nanousd` is the cost that the vendor states, if it does. If `bill_known` is False, the vendor charged an
    unknown amount, and the call is booked at the most that it can cost. `dear_tier` is the service tier or region, if
    vendors bill it above their list.
    """

    finish: Finish
    usage: Usage
    model_reported: str
    served_by: str = ""
    text: str = ""
    vectors: tuple[bytes, ...] = field(default=())
    stated_nanousd: int | None = None
    bill_known: bool = True
    dear_tier: str = ""

    def reply(self, key: str, cost_nanousd: int, body_sha256: str, at: datetime, position: int = 0) -> Reply:
        """Return the reply to the call at a position among a request's texts."""
        return Reply(
            key=key,
            finish=self.finish,
            usage=self.usage,
            cost_nanousd=cost_nanousd,
            model_reported=self.model_reported,
            served_by=self.served_by,
            body_sha256=body_sha256,
            at=at,
            text=self.text,
            vector=self.vectors[position] if self.vectors else b"",
        )
