"""Reads an account's secrets, and checks the certificates, from the environment of the process that calls the vendor.

A secret named VARIABLE in a sweep or the catalogue is the value of VARIABLE, else the content of the file that
VARIABLE_FILE names, the convention of Docker and Kubernetes. Messages give only the names of variables, never their
values: a user may have put the key itself into VARIABLE_FILE.
"""

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hab_ray.catalog.models import ProviderEntry
from hab_ray.errors import ConfigError
from hab_ray.providers.base import NO_KEY, Endpoint
from hab_ray.resources import is_ray_job

ON_NODES = (
    "in the environment that `ray start` gets on {}, or name a file that holds it ({}_FILE=PATH); not in a "
    "runtime_env, which Ray shows in clear"
)
_MAX_BYTES = 1 << 16


def refuse_unreadable_certificates() -> None:
    """Raise ConfigError if SSL_CERT_FILE, from which all HTTP clients read certificates, cannot be read."""
    if file := os.environ.get("SSL_CERT_FILE"):
        try:
            ssl.create_default_context(cafile=file)
        except OSError as error:
            raise ConfigError(
                f"SSL_CERT_FILE={file}: no certificates can be read there ({error.strerror}). Correct or unset it"
            ) from None


@contextmanager
def proxy_bypassed(host: str) -> Iterator[None]:
    """Make clients of this process, and of those that it starts, reach a host without the network's proxy."""
    before = {name: os.environ.get(name) for name in ("NO_PROXY", "no_proxy")}
    bypassed = ",".join(dict.fromkeys(filter(None, [*before.values(), host])))
    os.environ.update(dict.fromkeys(before, bypassed))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def variables_of(entry: ProviderEntry) -> list[str]:
    """Return the names of the variables that hold an account's secrets."""
    return [*([entry.key_env] if entry.key_env else []), *entry.headers_env.values()]


def has_secret(variable: str, environment: Mapping[str, str]) -> bool:
    """Whether a variable, or the file named by VARIABLE_FILE, is set and not empty."""
    try:
        return bool(_read(variable, environment))
    except (OSError, ValueError):
        return False


def secret_problem(variable: str, environment: Mapping[str, str]) -> str | None:
    """Return why a variable's secret cannot be sent: there is none, or no header can hold it. None if it can."""
    try:
        value = _read(variable, environment)
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else None
        return f"{variable}_FILE does not name a readable file ({cause or 'no path'})"
    if not value:
        return f"{variable} is not set"
    if not (value.isascii() and value.isprintable()):
        return f"{variable}, or the file that {variable}_FILE names, holds characters that no header may have"
    return None


def has_secrets(entry: ProviderEntry, environment: Mapping[str, str]) -> bool:
    """Whether all secrets of an account are set."""
    return all(has_secret(variable, environment) for variable in variables_of(entry))


def how_to_set(variable: str, value: str, environment: Mapping[str, str]) -> str:
    """Return how to set a variable to `value`, such as a key of openai; of ./.env only names in _KEY are read.

    A Ray job gets neither what its submitter exports nor .env, which .rayignore leaves out.
    """
    if is_ray_job(environment):
        return f"{socket.gethostname()} lacks {value}: set it {ON_NODES.format('each node', variable)}"
    file = f", or put {variable}=... into .env" if variable.endswith("_KEY") else ""
    return f"set it to {value}: `export {variable}=...`{file}"


def _read(variable: str, environment: Mapping[str, str]) -> str:
    value, file = environment.get(variable, "").strip(), environment.get(f"{variable}_FILE", "").strip()
    if value or not file:
        return value
    with Path(file).open("rb") as opened:
        return opened.read(_MAX_BYTES).decode("utf-8", "replace").strip()


def _secret(provider: str, variable: str, what: str) -> str:
    if problem := secret_problem(variable, os.environ):
        raise ConfigError(
            f"provider {provider}: {problem}; put {what} into {variable}, on one line, or into a file that "
            f"{variable}_FILE names"
        )
    return _read(variable, os.environ)


def endpoint_of(provider: str, entry: ProviderEntry, url: str) -> Endpoint:
    """Return the endpoint of an account, with its secrets; its key is NO_KEY if it needs none.

    Raises:
        ConfigError: a variable for its key or a header is not set, or no header can hold the value.
    """
    key = NO_KEY if entry.key_env is None else _secret(provider, entry.key_env, "its key")
    headers = {name: _secret(provider, env, f"the header {name}") for name, env in entry.headers_env.items()}
    return Endpoint(provider, entry.kind, url, key, entry.limits.timeout_s, headers, entry.api_version)
