"""Google's Gemini Developer API."""

from __future__ import annotations

from hab_ray.providers.base import Endpoint, Provider
from hab_ray.providers.batching import BatchApi
from hab_ray.providers.vendor import Vendor, WireProtocol


def _connect(endpoint: Endpoint) -> Provider:
    from hab_ray.providers.google.chat import GoogleProvider

    return GoogleProvider(endpoint)


def _connect_batch(endpoint: Endpoint) -> BatchApi:
    from hab_ray.providers.google.batch import GoogleBatches

    return GoogleBatches(endpoint)


async def _list_models(endpoint: Endpoint) -> frozenset[str]:
    from hab_ray.providers.google.models import list_models

    return await list_models(endpoint)


VENDOR = Vendor(_connect, _connect_batch, WireProtocol.GOOGLE, _list_models)
