"""Google's Gemini Developer API."""

from __future__ import annotations

from hab_ray.providers.base import Endpoint, JsonObject, Provider
from hab_ray.providers.batching import BatchApi
from hab_ray.providers.vendor import AtMost, Sum, Vendor, WireProtocol


def _connect(endpoint: Endpoint) -> Provider:
    from hab_ray.providers.google.chat import GoogleProvider

    return GoogleProvider(endpoint)


def _connect_batch(endpoint: Endpoint) -> BatchApi:
    from hab_ray.providers.google.batch import GoogleBatches

    return GoogleBatches(endpoint)


async def _list_models(endpoint: Endpoint) -> frozenset[str]:
    from hab_ray.providers.google.models import list_models

    return await list_models(endpoint)


_OPEN = frozenset({"BATCH_STATE_PENDING", "BATCH_STATE_RUNNING"})


def _is_open(batch: JsonObject) -> bool:
    """The word stands in the operation's metadata."""
    within = batch.get("metadata")
    return isinstance(within, dict) and within.get("state") in _OPEN


PROTOCOL = WireProtocol(
    played_as="google",
    version="",
    is_openais_online=False,
    sums=(
        Sum(
            "totalTokenCount",
            ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount"),
        ),
        AtMost("cachedContentTokenCount", "promptTokenCount"),
    ),
    open_states=_OPEN,
    same_ends=frozenset({"STOP"}),
    is_open=_is_open,
)
VENDOR = Vendor(_connect, _connect_batch, PROTOCOL, _list_models)
