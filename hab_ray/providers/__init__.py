"""Connections to vendors: a folder per vendor with its wire bodies, replies, errors and batches.

The only place that imports an SDK. The table of vendors is hab_ray/vendors.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint

from hab_ray import vendors
from hab_ray.errors import ConfigError
from hab_ray.providers.base import Endpoint, Provider
from hab_ray.providers.batching import BatchApi
from hab_ray.providers.vendor import Vendor


def load_vendor(kind: str) -> Vendor:
    """The vendor of a kind. Code of another distribution is imported here.

    Raises:
        ConfigError: there is no such kind, or its distribution is broken.
    """
    entry = vendors.find(kind)
    with _other_distributions_code(entry):
        vendor = entry.load()
        if not isinstance(vendor, Vendor):
            raise TypeError(f"it is a {type(vendor).__name__} and not a hab_ray.providers.vendor.Vendor")
        return vendor


def connect(endpoint: Endpoint) -> Provider:
    """The client of an endpoint, which speaks its vendor's protocol.

    Raises:
        ConfigError: see load_vendor.
    """
    vendor = load_vendor(endpoint.kind)
    with _other_distributions_code(vendors.find(endpoint.kind)):
        return vendor.connect(endpoint)


def connect_batch(endpoint: Endpoint) -> BatchApi:
    """The client of an endpoint's batch API, which has connections of its own.

    Raises:
        ConfigError: see load_vendor; or the vendor has no batch API.
    """
    vendor = load_vendor(endpoint.kind)
    if vendor.connect_batch is None:
        raise ConfigError(
            f"providers.{endpoint.name}: providers of kind {endpoint.kind!r} take no batches; remove `batch:` from the "
            "provider and its models"
        )
    with _other_distributions_code(vendors.find(endpoint.kind)):
        return vendor.connect_batch(endpoint)


@contextmanager
def _other_distributions_code(entry: EntryPoint) -> Iterator[None]:
    """Around code of another distribution, any of whose errors means that the distribution is broken."""
    try:
        yield
    except Exception as error:
        if entry.dist is None or isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"the kind {entry.name!r} comes from the package {vendors.distribution(entry)} ({entry.value}), which is "
            f"broken: {type(error).__name__}: {error}; update or repair that package, or uninstall it and choose "
            "another kind"
        ) from error
