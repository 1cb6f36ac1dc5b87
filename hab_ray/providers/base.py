"""What the engine needs from a vendor: wire bodies, one HTTP exchange, and the answer read from its JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol

from hab_ray.calls import Answer, ChatCall, EmbedCall
from hab_ray.catalog.models import ModelEntry
from hab_ray.errors import FailureKind, TransientError
from hab_ray.providers.secrets import Secrets

JsonObject = Mapping[str, Any]

NO_KEY = "no-key-needed"


@dataclass(frozen=True)
class Endpoint:
    """Where a provider is and how to get in: with a key, and with `headers` where it wants others.

    Neither is shown by repr, so that no log can hold it. `api_version` holds for every request to the endpoint; None
    leaves it to the vendor's client.
    """

    name: str
    kind: str
    url: str
    key: str = field(repr=False)
    timeout_s: float
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str | None = None

    def without_key(self, text: str) -> str:
        """A vendor's text without the secrets that it may echo. The placeholder keys of local servers stay."""
        return self._secrets.masked(text)

    def body_without_key(self, raw: bytes) -> bytes:
        """A vendor's body, as it came, without the secrets that it may echo."""
        return self._secrets.masked_bytes(raw)

    @cached_property
    def _secrets(self) -> Secrets:
        return Secrets([value for value in (self.key, *self.headers.values()) if value != NO_KEY])


@dataclass(frozen=True)
class Wire:
    """One request as the vendor gets it: the path below the endpoint's URL, and the JSON body.

    `version` is the API version that the model needs; None = the endpoint's.
    """

    path: str
    body: JsonObject
    version: str | None = None

    @property
    def sha256(self) -> str:
        """The hash of the body, kept in the reply so that a changed builder can be noticed."""
        return self._size_and_sha256[1]

    @property
    def utf8_bytes(self) -> int:
        """The length of the body as compact UTF-8 JSON: an upper bound of its tokens."""
        return self._size_and_sha256[0]

    @cached_property
    def _size_and_sha256(self) -> tuple[int, str]:
        """Both from one serialization if the body is ASCII; the hash is that of JSON with escapes for all else."""
        text = json.dumps(self.body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        encoded = text.encode("utf-8", "replace")
        if text.isascii() and "\x7f" not in text:
            return len(encoded), sha256(encoded).hexdigest()
        escaped = json.dumps(self.body, sort_keys=True, separators=(",", ":"))
        return len(encoded), sha256(escaped.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Allowance:
    """One rate limit from a vendor's headers: per minute, how much is left, and seconds until it is full again."""

    limit: int
    remaining: int | None
    reset_s: float | None


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The rate limits of a model after a call; None where the vendor sends none, or nothing positive."""

    requests: Allowance | None
    tokens: Allowance | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """The vendor's answer to one request: its JSON and the rate limits in its headers."""

    body: JsonObject
    limits: RateLimits | None = None


@dataclass(frozen=True, slots=True)
class ListLimits:
    """How much one embedding request may hold: texts, and UTF-8 bytes of all texts together."""

    texts: int
    text_bytes: int

    def packed(self, calls: Sequence[EmbedCall]) -> Iterator[list[EmbedCall]]:
        """These calls in lists as long as one request may hold, in order. A text too long for any is alone."""
        taken: list[EmbedCall] = []
        size = 0
        for call in calls:
            more = len(call.text.encode("utf-8", "replace"))
            if taken and (len(taken) == self.texts or size + more > self.text_bytes):
                yield taken
                taken, size = [], 0
            taken.append(call)
            size += more
        if taken:
            yield taken


class Provider(Protocol):
    """One vendor account or compatible endpoint."""

    list_limits: ListLimits

    def chat(self, call: ChatCall, entry: ModelEntry) -> Wire:
        """The request for a chat call, the same online and in a batch."""

    def embed(self, calls: Sequence[EmbedCall], entry: ModelEntry) -> Wire:
        """The request for a list of texts of one model and size.

        Raises:
            ConfigError: the vendor has no embeddings.
        """

    async def send(self, wire: Wire) -> Exchange:
        """Send once and return what the vendor answered.

        The body of a request that the vendor blocked for its content is returned, not raised: `read_chat`
        gives it as a refusal.

        Raises:
            CallError: the class says what follows for row, model and provider. No message holds the key.
        """

    def read_chat(self, body: JsonObject) -> Answer:
        """The answer in a chat response.

        Raises:
            TransientError: the body is not what the vendor sends.
            ProviderError: the vendor says in the body that the account is closed.
        """

    def read_embeddings(self, body: JsonObject, count: int) -> Answer:
        """The `count` vectors in an embeddings response, in the order of the request.

        Raises:
            TransientError: the body is not what the vendor sends.
        """

    async def close(self) -> None:
        """Close connections."""


def malformed(problem: object) -> TransientError:
    """The error for a successful response whose body cannot be used."""
    return TransientError(FailureKind.MALFORMED, f"the response body is not as documented: {problem}")


@contextmanager
def reading() -> Iterator[None]:
    """Around the reading of a successful answer's fields.

    Raises:
        TransientError: the answer is not what the vendor sends.
    """
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise malformed(repr(error)) from None


def given(**fields: Any) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}
