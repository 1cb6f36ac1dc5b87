"""What the engine needs of a vendor: a wire body, one HTTP exchange, the reading of its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

from hab_ray import catalog
from hab_ray.calls import Answer, ChatCall, EmbedCall
from hab_ray.catalog import ModelEntry
from hab_ray.errors import FailureKind, TransientError

JsonObject = Mapping[str, Any]


@dataclass(frozen=True)
class Endpoint:
    """Where a provider is and how to get in. The key is not shown by repr, so that no log can hold it."""

    name: str
    kind: catalog.Protocol
    url: str
    key: str = field(repr=False)
    timeout_s: float


@dataclass(frozen=True)
class Wire:
    """One request as the vendor gets it: the path below the endpoint's URL, and the JSON body."""

    path: str
    body: JsonObject

    @property
    def sha256(self) -> str:
        """The hash of the body, kept in the reply so that a changed builder can be noticed."""
        return sha256(json.dumps(self.body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Provider(Protocol):
    """One vendor account or compatible endpoint."""

    def chat(self, call: ChatCall, entry: ModelEntry) -> Wire:
        """The request for a chat call, the same online and in a batch."""

    def embed(self, calls: Sequence[EmbedCall], entry: ModelEntry) -> Wire:
        """The request for a list of texts of one model and size."""

    async def send(self, wire: Wire) -> JsonObject:
        """Send once and return the vendor's JSON.

        Raises:
            CallError: the class says what follows for row, model and provider.
        """

    def read_chat(self, body: JsonObject) -> Answer:
        """The answer in a chat response.

        Raises:
            TransientError: the body is not what the vendor sends.
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
