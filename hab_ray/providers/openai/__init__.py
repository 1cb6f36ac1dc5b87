"""OpenAI, and every endpoint that speaks its protocol."""

from __future__ import annotations

from hab_ray.providers.base import Endpoint, Provider
from hab_ray.providers.batching import BatchApi
from hab_ray.providers.vendor import AtMost, Sum, Vendor, WireProtocol


def _connect(endpoint: Endpoint) -> Provider:
    from hab_ray.providers.openai.chat import OpenAIProvider

    return OpenAIProvider(endpoint)


def _connect_batch(endpoint: Endpoint) -> BatchApi:
    from hab_ray.providers.openai.batch import OpenAIBatches

    return OpenAIBatches(endpoint)


async def _list_models(endpoint: Endpoint) -> frozenset[str]:
    from hab_ray.providers.openai.models import list_models

    return await list_models(endpoint)


PROTOCOL = WireProtocol(
    played_as="openai",
    version="/v1",
    is_openais_online=True,
    sums=(
        Sum("total_tokens", ("prompt_tokens", "completion_tokens")),
        Sum("total_tokens", ("input_tokens", "output_tokens")),
        AtMost("prompt_tokens_details.cached_tokens", "prompt_tokens"),
        AtMost("completion_tokens_details.reasoning_tokens", "completion_tokens"),
    ),
    open_states=frozenset({"validating", "in_progress", "finalizing"}),
    same_ends=frozenset({"stop"}),
)
VENDOR = Vendor(_connect, _connect_batch, PROTOCOL, _list_models)
