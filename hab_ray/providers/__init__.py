"""Connections to vendors: a folder per vendor with its wire bodies, replies, errors and batches.

The only place that imports an SDK. The table of vendors is hab_ray/vendors.py.
"""

from __future__ import annotations

from hab_ray import vendors
from hab_ray.errors import ConfigError
from hab_ray.providers.base import Endpoint, Provider
from hab_ray.providers.batching import BatchApi
from hab_ray.providers.vendor import Vendor


def load_vendor(kind: str) -> Vendor:
    """The vendor of a kind; code of another distribution is imported here.

    Raises:
        ConfigError: there is no such kind, or its distribution is broken.
    """
    entry = vendors.find(kind)
    source = f"the kind {kind!r} comes from the package {vendors.distribution(entry)} ({entry.value})"
    remedy = "update or repair that package, or uninstall it and choose another kind"
    try:
        vendor = entry.load()
    except Exception as error:  # whatever a foreign module raises on import
        raise ConfigError(f"{source}, which cannot be loaded: {type(error).__name__}: {error}; {remedy}") from error
    if not isinstance(vendor, Vendor):
        raise ConfigError(f"{source}, which is a {type(vendor).__name__} and not a Vendor; {remedy}")
    return vendor


def connect(endpoint: Endpoint) -> Provider:
    """The client of an endpoint, which speaks its vendor's protocol.

    Raises:
        ConfigError: see load_vendor.
    """
    return load_vendor(endpoint.kind).connect(endpoint)


def connect_batch(endpoint: Endpoint) -> BatchApi:
    """The client of an endpoint's batch API, which has connections of its own.

    Raises:
        ConfigError: see load_vendor; or the vendor has no batch API.
    """
    begin = load_vendor(endpoint.kind).connect_batch
    if begin is None:
        raise ConfigError(
            f"provider {endpoint.name}: providers of kind {endpoint.kind!r} take no batches; remove `batch:` from the "
            "provider and its models, or give them `mode: online`"
        )
    return begin(endpoint)
