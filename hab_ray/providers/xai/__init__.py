"""xAI: OpenAI's protocol with another count of tokens, and batches of its own."""

from __future__ import annotations

from hab_ray.providers.base import Endpoint, Provider
from hab_ray.providers.batching import BatchApi
from hab_ray.providers.vendor import Vendor, WireProtocol


def _connect(endpoint: Endpoint) -> Provider:
    from hab_ray.providers.xai.chat import XaiProvider

    return XaiProvider(endpoint)


def _connect_batch(endpoint: Endpoint) -> BatchApi:
    from hab_ray.providers.xai.batch import XaiBatches

    return XaiBatches(endpoint)


async def _list_models(endpoint: Endpoint) -> frozenset[str]:
    from hab_ray.providers.openai.models import list_models

    return await list_models(endpoint)


VENDOR = Vendor(_connect, _connect_batch, WireProtocol.XAI, _list_models)
