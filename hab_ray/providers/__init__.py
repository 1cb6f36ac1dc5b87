"""One vendor a file: wire body, reply parsing, error classes. The only place that imports an SDK."""

from __future__ import annotations

from hab_ray.catalog import Protocol
from hab_ray.providers.base import Endpoint, Provider
from hab_ray.providers.batching import BatchApi


def connect(endpoint: Endpoint) -> Provider:
    """The client of an endpoint, speaking its vendor's protocol.

    SDKs take about a second to import, so each is imported only for an endpoint that needs it.
    """
    match endpoint.kind:
        case Protocol.OPENAI | Protocol.XAI:
            from hab_ray.providers.openai import OpenAIProvider

            return OpenAIProvider(endpoint)
        case Protocol.ANTHROPIC:
            from hab_ray.providers.anthropic import AnthropicProvider

            return AnthropicProvider(endpoint)
        case Protocol.GOOGLE:
            from hab_ray.providers.google import GoogleProvider

            return GoogleProvider(endpoint)


def connect_batch(endpoint: Endpoint) -> BatchApi:
    """The client of an endpoint's batch API, which has connections of its own."""
    match endpoint.kind:
        case Protocol.OPENAI:
            from hab_ray.providers.openai_batch import OpenAIBatches

            return OpenAIBatches(endpoint)
        case Protocol.ANTHROPIC:
            from hab_ray.providers.anthropic_batch import AnthropicBatches

            return AnthropicBatches(endpoint)
        case Protocol.GOOGLE:
            from hab_ray.providers.google_batch import GoogleBatches

            return GoogleBatches(endpoint)
        case Protocol.XAI:
            from hab_ray.providers.xai_batch import XaiBatches

            return XaiBatches(endpoint)
