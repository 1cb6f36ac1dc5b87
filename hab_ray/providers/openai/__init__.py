"""OpenAI, and every endpoint that speaks its protocol."""

from __future__ import annotations

from hab_ray.providers.base import Endpoint, Provider
from hab_ray.providers.batching import BatchApi
from hab_ray.providers.vendor import Vendor, WireProtocol


def _connect(endpoint: Endpoint) -> Provider:
    from hab_ray.providers.openai.chat import OpenAIProvider

    return OpenAIProvider(endpoint)


def _connect_batch(endpoint: Endpoint) -> BatchApi:
    from hab_ray.providers.openai.batch import OpenAIBatches

    return OpenAIBatches(endpoint)


async def _list_models(endpoint: Endpoint) -> frozenset[str]:
    from hab_ray.providers.openai.models import list_models

    return await list_models(endpoint)


VENDOR = Vendor(_connect, _connect_batch, WireProtocol.OPENAI, _list_models)
