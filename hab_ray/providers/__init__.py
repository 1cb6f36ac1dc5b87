"""One file a vendor: wire body, reply parsing, error classes. The only place that imports an SDK."""

from __future__ import annotations

from hab_ray.catalog import Protocol
from hab_ray.errors import ConfigError
from hab_ray.providers.base import Endpoint, Provider


def connect(endpoint: Endpoint) -> Provider:
    """The client of an endpoint, speaking its vendor's protocol.

    Raises:
        ConfigError: the protocol is not available in this version.
    """
    if endpoint.kind is Protocol.OPENAI:
        from hab_ray.providers.openai import OpenAIProvider

        return OpenAIProvider(endpoint)
    raise ConfigError(f"provider {endpoint.name}: kind {endpoint.kind} is not available in this version")
