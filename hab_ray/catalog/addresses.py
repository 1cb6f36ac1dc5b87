"""Checks endpoint URLs and headers, and finds the addresses of this machine and of a Ray cluster.

Sweep files are shared and copied into the run folder, so they must hold no secret: keys and secret headers are given as
names of environment variables. For the same reason, no message about a URL or header repeats the value it refuses.
"""

import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import SplitResult, urlsplit

from hab_ray.errors import ConfigError
from hab_ray.visible import hides_something, one_line

_IN_ENVIRONMENT = (
    "put the secret into an environment variable and name that: `key_env: VARIABLE` for the key, or "
    "`headers_env: {Header-Name: VARIABLE}` for a header"
)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_REMOTE_HOST = ("10.255.255.255", 1)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Hop-by-hop headers.
ONE_HOP = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"),
    *("transfer-encoding", "upgrade", "host", "content-length"),
}
_SET_BY_CLIENT = ONE_HOP | {"content-type", "content-encoding", "expect"}


def outside_address() -> str | None:
    """Return the address at which other machines reach this one, or None if it has only a loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(_REMOTE_HOST)  # sends nothing; the kernel chooses the address
        return str(probe.getsockname()[0])
    return None


def cluster_address(environment: Mapping[str, str]) -> str | None:
    """Return the cluster that RAY_ADDRESS names, or None if this process should start its own Ray.

    Raises:
        ConfigError: RAY_ADDRESS names a job server or a Ray Client server.
    """
    address = environment.get("RAY_ADDRESS", "").strip()
    if address.startswith(("http://", "https://")):
        raise ConfigError(
            f"RAY_ADDRESS={one_line(address)}: this is the address of a job server, which takes jobs but is not a "
            "cluster to connect to. To run the sweep on that cluster, submit it: `ray job submit --address ADDRESS "
            "--working-dir . -- python jobs/sweep.py SWEEP.yaml --yes`. To connect from a node of the cluster, set "
            "RAY_ADDRESS to HEAD:6379 or auto. To run on this machine alone, unset it"
        )
    if "://" in address:
        raise ConfigError(
            f"RAY_ADDRESS={one_line(address)}: Ray Client is not supported, because online calls are scheduled beside "
            "the driver. Set RAY_ADDRESS to HEAD:6379 or auto on a node of the cluster, or submit the sweep with "
            "`ray job submit`"
        )
    return None if address in ("", "local") else address


def checked_url(url: str) -> str:
    """Return an endpoint's URL unchanged if requests can be sent to it and it holds no secret.

    Raises:
        ValueError: it fails a check; the message gives the remedy.
    """
    if not url.strip():
        raise ValueError("is empty; give the address of the endpoint, such as https://llm.example.org/v1")
    if hides_something(url) or " " in url or "\\" in url:
        raise ValueError("holds a space, a backslash or a character that cannot be seen; write the address without it")
    parts = _parts(url)
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"holds a user name or password, which would be stored with the run; {_IN_ENVIRONMENT}")
    if parts.query or "?" in url:
        raise ValueError(
            "has a query (`?...`), which no request would carry and which would be stored with the run even if it "
            f"holds a key; leave it out, and if it is a key, {_IN_ENVIRONMENT}"
        )
    if "#" in url:
        raise ValueError("has a fragment (`#...`), which no request would carry; leave it out")
    return url


def is_at(url: str, host: str) -> bool:
    """Return whether a URL is at this host or one below it, such as that of a region (eu.api.openai.com)."""
    return f".{urlsplit(url).hostname}".endswith(f".{host}")


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        dns_name = _dns_name(host)
        # ValueError for 127.0.0.256 or [v1.a], which clients refuse only when they send
        if host.replace(".", "").isdigit():
            IPv4Address(host)
        if "[" in parts.netloc:
            IPv6Address(host)
        if parts.scheme in ("http", "https") and dns_name and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise ValueError("is not a web address; write http:// or https:// and a host, with or without a port")


def _dns_name(host: str) -> bytes:
    """Return a host as DNS looks it up.

    Raises:
        ValueError: DNS cannot look it up (a..b), or clients refuse it only when they send (xn--a).
    """
    if host.isascii() and "xn--" not in host:
        return host.encode("idna")
    import idna  # loads longer than the rest of this module

    return idna.encode(host)


def checked_variable(name: str) -> str:
    """Return the name of the environment variable with a key unchanged if it can be one.

    Raises:
        ValueError: it cannot; it may be the key itself.
    """
    if not _VARIABLE.fullmatch(name):
        raise ValueError(
            "is not the name of an environment variable (letters, digits and _); put the key into a variable and give "
            "the variable's name here, such as GATEWAY_KEY, so that the file holds no secret"
        )
    return name


def checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return `headers`, a mapping from header name to environment variable, unchanged if it is valid.

    Raises:
        ValueError: a header is malformed, repeated or set by the client, or a value is not a variable's name.
    """
    seen: set[str] = set()
    for name, variable in headers.items():
        if not _HEADER.fullmatch(name):
            raise ValueError("has a key that is not a valid header name; write for example `X-Team: TEAM_TOKEN`")
        if name.lower() in _SET_BY_CLIENT:
            raise ValueError(f"{name}: this header belongs to the connection and is set by the client; leave it out")
        if name.lower() in seen:
            raise ValueError(f"{name}: the header appears twice (case does not count); keep one of them")
        if not _VARIABLE.fullmatch(variable):
            raise ValueError(
                f"{name}: the value is not the name of an environment variable; put the header's value into a variable "
                "and give its name here, so that the file holds no secret"
            )
        seen.add(name.lower())
    return headers
