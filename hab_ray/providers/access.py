"""How an account's key is found: in the environment of the process that calls the vendor, and nowhere else."""

from __future__ import annotations

import os

from hab_ray.catalog import ProviderEntry
from hab_ray.errors import ConfigError
from hab_ray.providers.base import Endpoint

NO_KEY = "no-key-needed"


def api_key(provider: str, key_env: str | None) -> str:
    """The key of a provider from the environment.

    Raises:
        ConfigError: the variable is not set.
    """
    if key_env is None:
        return NO_KEY
    key = os.environ.get(key_env)
    if not key:
        raise ConfigError(f"provider {provider}: the environment variable {key_env} is not set; put its key there")
    return key


def endpoint_of(provider: str, entry: ProviderEntry, url: str) -> Endpoint:
    """Where an account is and how to get in.

    Raises:
        ConfigError: the variable that holds its key is not set.
    """
    key = api_key(provider, entry.key_env)
    return Endpoint(provider, entry.kind, url, key, entry.limits.timeout_s, entry.api_version)
