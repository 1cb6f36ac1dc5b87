"""The interface between the engine and a vendor: wire bodies, one HTTP exchange, and the answer read from its JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b, sha256
from typing import Any, Protocol

from hab_ray.calls import Answer, ChatCall, EmbedCall, Finish, Usage
from hab_ray.catalog.models import ModelEntry
from hab_ray.errors import FailureKind, HabError, ProviderError, TransientError
from hab_ray.providers.secrets import Secrets
from hab_ray.resources import package_blamed, package_of

JsonObject = Mapping[str, Any]

_TYPES: Mapping[str, type] = {
    "finish": Finish,
    "usage": Usage,
    "text": str,
    "model_reported": str,
    "served_by": str,
    "dear_tier": str,
    "vectors": tuple,
    "bill_known": bool,
}
_COUNTS = ("input", "cached", "cache_written", "output", "reasoning")
_MOST = 10**14  # $100,000 in nano-dollars; no count of tokens is as high
NO_KEY = "no-key-needed"


@dataclass(frozen=True)
class Endpoint:
    """A provider's address and credentials: a key and, if needed, further headers.

    repr omits the credentials, so that no log can hold them. `api_version` applies to every request; None leaves it to
    the vendor's client.
    """

    name: str
    kind: str
    url: str
    key: str = field(repr=False)
    timeout_s: float
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str | None = None

    def without_key(self, text: str) -> str:
        """Mask the secrets that a vendor's text may echo; the placeholder key of local servers is not masked."""
        return self._secrets.masked(text)

    def body_without_key(self, raw: bytes) -> bytes:
        """Mask the secrets that a vendor's raw body may echo."""
        return self._secrets.masked_bytes(raw)

    def fingerprint(self, secret: bytes) -> str:
        """Return four hex digits that another account almost never shares: too few to identify a key.

        One of 65,536 other keys has the same digits, so no guess of a key can be confirmed by them. Address and headers
        count too: what is sent to one address is unknown at another, and a header may name the key or the project.
        """
        headers = (f"{name.lower()}: {value}" for name, value in self.headers.items())
        whole = "\n".join([self.url.rstrip("/"), self.key, *sorted(headers)])
        return blake2b(whole.encode("utf-8", "surrogatepass"), key=secret, digest_size=2).hexdigest()

    @cached_property
    def _secrets(self) -> Secrets:
        return Secrets([value for value in (self.key, *self.headers.values()) if value != NO_KEY])


@dataclass(frozen=True)
class Wire:
    """One request as sent: the path below the endpoint's URL, and the JSON body.

    `version` is the API version that the model needs; None = the endpoint's.
    """

    path: str
    body: JsonObject
    version: str | None = None

    @cached_property
    def encoded(self) -> bytes:
        """The body as compact JSON, characters beyond ASCII escaped."""
        return json.dumps(self.body, separators=(",", ":")).encode()

    @cached_property
    def sha256(self) -> str:
        """The hash of `encoded`, stored in the reply to detect changes of the code that builds the body."""
        return sha256(self.encoded).hexdigest()

    @cached_property
    def utf8_bytes(self) -> int:
        """The length of the body as compact UTF-8 JSON: an upper bound of its tokens."""
        if b"\\u" not in self.encoded:
            return len(self.encoded)
        return len(json.dumps(self.body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Allowance:
    """One rate limit from a vendor's headers: limit per minute, remaining amount, and seconds until it is reset."""

    limit: int
    remaining: int | None
    reset_s: float | None


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The rate limits of a model after a call; None if the vendor sends none or none that is positive."""

    requests: Allowance | None
    tokens: Allowance | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """The vendor's response to one request: its JSON and the rate limits in its headers."""

    body: JsonObject
    limits: RateLimits | None = None


@dataclass(frozen=True, slots=True)
class ListLimits:
    """The size limits of one embedding request: number of texts, and total UTF-8 bytes."""

    texts: int
    text_bytes: int

    def packed(self, calls: Sequence[EmbedCall]) -> Iterator[list[EmbedCall]]:
        """Split calls into lists that fit one request each, in order. A text over the limit gets its own list."""
        packed: list[EmbedCall] = []
        size = 0
        for call in calls:
            length = len(call.text.encode("utf-8", "replace"))
            if packed and (len(packed) == self.texts or size + length > self.text_bytes):
                yield packed
                packed, size = [], 0
            packed.append(call)
            size += length
        if packed:
            yield packed


class Provider(Protocol):
    """One vendor account or compatible endpoint."""

    list_limits: ListLimits

    def chat(self, call: ChatCall, entry: ModelEntry) -> Wire:
        """Return the request for a chat call, the same online and in a batch."""

    def embed(self, calls: Sequence[EmbedCall], entry: ModelEntry) -> Wire:
        """Return the request for calls that share model and dimensions.

        Raises:
            ConfigError: the vendor has no embeddings.
        """

    async def send(self, wire: Wire) -> Exchange:
        """Send a request once and return the vendor's response.

        If the vendor blocked the request for its content, return that body, which `read_chat` reads as a refusal.

        Raises:
            CallError: its class says what follows for row, model and provider. No message holds the key.
        """

    def read_chat(self, body: JsonObject) -> Answer:
        """Read the answer in a chat response.

        Raises:
            TransientError: the body is malformed.
            ProviderError: the body says that the account is closed.
        """

    def read_embeddings(self, body: JsonObject, count: int) -> Answer:
        """Read the `count` vectors in an embeddings response, in the order of the request.

        Raises:
            TransientError: the body is malformed.
        """

    async def close(self) -> None:
        """Close connections."""


def malformed(problem: object) -> TransientError:
    """Return the error for a successful response with an unusable body."""
    return TransientError(FailureKind.MALFORMED, f"the response body is not as documented: {problem}")


@contextmanager
def reading() -> Iterator[None]:
    """Context in which fields of a successful response are read.

    Raises:
        TransientError: a field is missing or ill-typed.
    """
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise malformed(repr(error)) from None


class BrokenReader(ProviderError):
    """Code that reads a provider's answers failed. It would fail for every further answer, each paid for."""


def read_answer(provider: Provider, body: JsonObject, texts: int | None) -> Answer:
    """Read the answer in a response: to a chat call, or the vectors of so many `texts`.

    Raises:
        CallError: as `Provider.read_chat` and `Provider.read_embeddings`.
        BrokenReader: they raised anything else, or returned something else.
    """
    try:
        answer = provider.read_chat(body) if texts is None else provider.read_embeddings(body, texts)
        _check_types(answer)
    except HabError:
        raise
    except (Exception, SystemExit) as error:
        package = package_blamed(error) or package_of(type(provider).__module__) or "hab_ray, which has a bug,"
        raise broken_reader(package, error) from error
    return answer


def broken_reader(package: str, error: BaseException) -> BrokenReader:
    """Return the error for code of a package that fails to read an answer."""
    return BrokenReader(
        FailureKind.MALFORMED,
        f"{package} cannot read an answer that the vendor has charged: {type(error).__name__}: {error}. Repair or "
        "update it before you run the same command again. Online answers that were not read count as spent and are "
        "paid for again; batches stay at the vendor and are read again",
    )


def _check_types(answer: Answer) -> None:
    """Check what a parser of another distribution returned.

    Raises:
        TypeError, ValueError: it cannot be stored, or booked.
    """
    if not isinstance(answer, Answer):
        raise TypeError(f"it is read as a {type(answer).__name__}, not as an Answer")
    for name, expected in _TYPES.items():
        if not isinstance(value := getattr(answer, name), expected):
            raise TypeError(f"its {name} is read as a {type(value).__name__}, not as a {expected.__name__}")
    for name in _COUNTS:
        _check_count(name, getattr(answer.usage, name))
    if answer.stated_nanousd is not None:
        _check_count("stated_nanousd", answer.stated_nanousd)


def _check_count(name: str, value: object) -> None:
    """Raise TypeError or ValueError if a number of tokens or nano-dollars would break the budget."""
    if type(value) is not int:
        raise TypeError(f"its {name} is read as a {type(value).__name__}, not as an int")
    if not 0 <= value <= _MOST:
        raise ValueError(f"its {name} is read as {value:,}, not as a number from 0 to {_MOST:,}")


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
