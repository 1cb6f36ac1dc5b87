"""Reads an account's secrets, from the environment of the process that calls the vendor and nowhere else."""

from __future__ import annotations

import os

from hab_ray.catalog import ProviderEntry
from hab_ray.errors import ConfigError
from hab_ray.providers.base import NO_KEY, Endpoint


def api_key(provider: str, key_env: str | None) -> str:
    """The key of a provider from the environment.

    Raises:
        ConfigError: the variable is not set, or its value cannot be a key.
    """
    return NO_KEY if key_env is None else _secret(provider, key_env, "its key")


def _secret(provider: str, variable: str, what: str) -> str:
    value = os.environ.get(variable, "").strip()
    if not value:
        raise ConfigError(f"provider {provider}: the environment variable {variable} is not set; put {what} there")
    if not (value.isascii() and value.isprintable()):
        raise ConfigError(
            f"provider {provider}: the environment variable {variable} holds characters that no header may have; "
            f"put {what} there, on one line"
        )
    return value


def endpoint_of(provider: str, entry: ProviderEntry, url: str) -> Endpoint:
    """Where an account is and how to get in.

    Raises:
        ConfigError: a variable that holds its key or a header is not set.
    """
    key = api_key(provider, entry.key_env)
    headers = {name: _secret(provider, env, f"the header {name}") for name, env in entry.headers_env.items()}
    return Endpoint(provider, entry.kind, url, key, entry.limits.timeout_s, headers, entry.api_version)
