"""What an entry in the table of vendors (hab_ray/vendors.py) names: how to reach an account of the vendor's kind.

To add a vendor, write a module or package with a `Vendor` and give it one entry: in the table, or as an entry point
of the group `hab_ray.providers` in another distribution. For an API that is OpenAI's with differences, inherit from
`hab_ray.providers.openai.chat.OpenAIProvider` and `hab_ray.providers.openai.batch.OpenAIBatches`, as xai does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from hab_ray.providers.base import Endpoint, Provider
from hab_ray.providers.batching import BatchApi


class WireProtocol(StrEnum):
    """The protocols that the simulator speaks. xAI's is OpenAI's except for its batches."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GOOGLE = "google"
    XAI = "xai"

    @property
    def is_openais_online(self) -> bool:
        """Whether single calls go out as OpenAI takes them."""
        return self in (WireProtocol.OPENAI, WireProtocol.XAI)


@dataclass(frozen=True)
class Vendor:
    """A vendor's clients, each made for one endpoint.

    `connect` and `connect_batch` import the vendor's SDK when they are called, not before. Without `connect_batch`
    the vendor is used online only. `protocol` is the one that the simulator answers in when a sweep is rehearsed.
    `list_models` gives the names of the models that an account can call today, from the vendor's free list of them
    (raises CallError); without it nobody can be asked.
    """

    connect: Callable[[Endpoint], Provider]
    connect_batch: Callable[[Endpoint], BatchApi] | None
    protocol: WireProtocol
    list_models: Callable[[Endpoint], Awaitable[frozenset[str]]] | None = None
