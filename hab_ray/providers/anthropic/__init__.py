"""Anthropic."""

from __future__ import annotations

from hab_ray.providers.base import Endpoint, Provider
from hab_ray.providers.batching import BatchApi
from hab_ray.providers.vendor import AtMost, Vendor, WireProtocol


def _connect(endpoint: Endpoint) -> Provider:
    from hab_ray.providers.anthropic.chat import AnthropicProvider

    return AnthropicProvider(endpoint)


def _connect_batch(endpoint: Endpoint) -> BatchApi:
    from hab_ray.providers.anthropic.batch import AnthropicBatches

    return AnthropicBatches(endpoint)


async def _list_models(endpoint: Endpoint) -> frozenset[str]:
    from hab_ray.providers.anthropic.models import list_models

    return await list_models(endpoint)


PROTOCOL = WireProtocol(
    played_as="anthropic",
    version="",
    is_openais_online=False,
    sums=(AtMost("output_tokens_details.thinking_tokens", "output_tokens"),),
    open_states=frozenset({"in_progress"}),
    same_ends=frozenset({"end_turn", "stop_sequence"}),
)
VENDOR = Vendor(_connect, _connect_batch, PROTOCOL, _list_models)
