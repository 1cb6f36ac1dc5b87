"""Connections to vendors: one package per vendor with its wire bodies, replies, errors and batches.

Only this package imports SDKs. The table of vendors is hab_ray/catalog/vendors.py.
"""

from __future__ import annotations

from hab_ray.catalog.vendors import VENDORS
from hab_ray.errors import ConfigError
from hab_ray.providers.access import refuse_unreadable_certificates
from hab_ray.providers.base import Endpoint, Provider
from hab_ray.providers.batching import BatchApi
from hab_ray.providers.vendor import Vendor


def load_vendor(kind: str) -> Vendor:
    """Return the vendor of a kind; this may import code of another distribution.

    Raises:
        ConfigError: there is no such kind, or its distribution is broken.
    """
    return VENDORS.load(kind, Vendor)


def connect(endpoint: Endpoint) -> Provider:
    """Return a client of an endpoint.

    Raises:
        ConfigError: as `load_vendor`, or the environment names certificates that cannot be read.
    """
    vendor = load_vendor(endpoint.kind)
    refuse_unreadable_certificates()
    with VENDORS.blamed(VENDORS.find(endpoint.kind)):
        return vendor.connect(endpoint)


def connect_batch(endpoint: Endpoint) -> BatchApi:
    """Return a client of an endpoint's batch API, with its own connections.

    Raises:
        ConfigError: as `connect`, or the vendor has no batch API.
    """
    vendor = load_vendor(endpoint.kind)
    if vendor.connect_batch is None:
        raise ConfigError(
            f"providers.{endpoint.name}: providers of kind {endpoint.kind!r} take no batches; remove `batch:` from the "
            "provider and its models"
        )
    refuse_unreadable_certificates()
    with VENDORS.blamed(VENDORS.find(endpoint.kind)):
        return vendor.connect_batch(endpoint)
