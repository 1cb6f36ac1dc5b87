"""Connections to vendors: one package per vendor with its wire bodies, replies, errors and batches.

Only this package imports SDKs. The table of vendors is hab_ray/catalog/vendors.py.
"""

from collections.abc import Callable
from typing import TypeVar

from typing_extensions import get_protocol_members

from hab_ray.catalog.vendors import VENDORS
from hab_ray.errors import ConfigError
from hab_ray.providers.access import refuse_unreadable_certificates
from hab_ray.providers.base import Endpoint, Provider
from hab_ray.providers.batching import BatchApi
from hab_ray.providers.vendor import Vendor
from hab_ray.resources import distribution, hold_to

T = TypeVar("T")
_READ = ("read_chat", "read_embeddings")  # `read_answer` checks these, after the vendor has charged


def load_vendor(kind: str) -> Vendor:
    """Return the vendor of a kind; this may import code of another distribution.

    Raises:
        ConfigError: there is no such kind, or its distribution is broken.
    """
    vendor, entry = VENDORS.load(kind, Vendor), VENDORS.find(kind)
    if entry.dist:
        hold_to(Vendor, vendor, distribution(entry))
    return vendor


def connect(endpoint: Endpoint) -> Provider:
    """Return a client of an endpoint.

    Raises:
        ConfigError: as `load_vendor`, or the environment names certificates that cannot be read.
    """
    vendor = load_vendor(endpoint.kind)
    refuse_unreadable_certificates()
    return _client(endpoint, vendor.connect, Provider)


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
    return _client(endpoint, vendor.connect_batch, BatchApi)


def _client(endpoint: Endpoint, connect: Callable[[Endpoint], T], interface: type) -> T:
    """Return a client of a vendor, held to its interface if it is of another distribution."""
    entry = VENDORS.find(endpoint.kind)
    with VENDORS.blamed(entry):
        client = connect(endpoint)
        lacking = sorted(name for name in get_protocol_members(interface) if not hasattr(client, name))
        if lacking:
            raise TypeError(f"it connects by a {type(client).__name__} without {', '.join(lacking)}")
    if entry.dist:
        hold_to(interface, client, distribution(entry), but=_READ)
    return client
