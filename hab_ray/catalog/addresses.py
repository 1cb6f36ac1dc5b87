"""Addresses: of endpoints, with the headers that they want, of this machine and of a Ray cluster.

Sweep files are shared, and a run keeps its own copy: no secret may stand in them. Keys and secret headers are named
by the environment variables that hold them. No message here repeats what it refuses.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from hab_ray.errors import ConfigError
from hab_ray.visible import hides_something, one_line

_IN_ENVIRONMENT = (
    "put the secret into an environment variable and name that: `key_env: VARIABLE` for the key, or "
    "`headers_env: {Header-Name: VARIABLE}` for a header"
)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ELSEWHERE = ("10.255.255.255", 1)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Headers of one connection; and beside them those that the client itself writes to say what it sends.
ONE_HOP = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"),
    *("transfer-encoding", "upgrade", "host", "content-length"),
}
_NOT_OURS_TO_SET = ONE_HOP | {"content-type", "content-encoding", "expect"}


def outside_address() -> str | None:
    """The address under which others reach this machine; None where it has but the loopback's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked, suppress(OSError):
        asked.connect(_ELSEWHERE)  # sends nothing; the kernel chooses the address
        return str(asked.getsockname()[0])
    return None


def cluster_address(environment: Mapping[str, str]) -> str | None:
    """The cluster that RAY_ADDRESS names; None where this process is to start a Ray of its own.

    Raises:
        ConfigError: it names something else than a cluster.
    """
    address = environment.get("RAY_ADDRESS", "").strip()
    if address.startswith(("http://", "https://")):
        raise ConfigError(
            f"RAY_ADDRESS={one_line(address)}: this is the address of a job server, which takes jobs but is no cluster "
            "to connect to. To run the sweep on that cluster, submit it: `ray job submit --address ADDRESS "
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
    """The URL of an endpoint, as given, if requests can be sent there and no secret stands in it.

    Raises:
        ValueError: with the remedy.
    """
    if not url.strip():
        raise ValueError("is empty; give the address of the endpoint, such as https://llm.example.org/v1")
    if hides_something(url) or " " in url or "\\" in url:
        raise ValueError("holds a space, a backslash or a character that cannot be seen; write the address without")
    parts = _parts(url)
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"holds a user or a password, which would be stored with the run; {_IN_ENVIRONMENT}")
    if parts.query or "?" in url:
        raise ValueError(
            "has a query (`?...`), which no request would carry, and which would be stored with the run if it holds a "
            f"key; leave it out, and where it is a key, {_IN_ENVIRONMENT}"
        )
    if "#" in url:
        raise ValueError("has a fragment (`#...`), which no request would carry; leave it out")
    return url


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(_in_dns(parts.hostname)) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("is no web address; it begins with http:// or https:// and a host, with or without a port")
    return parts


def _in_dns(host: str | None) -> bytes:
    """A host as it is looked up; raises ValueError for one that cannot be, such as one with an empty label."""
    return (host or "").encode("idna")


def checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that hold the values of headers, by the headers' names.

    Raises:
        ValueError: a header may not be set so, or stands twice, or what is given is no variable's name.
    """
    seen: set[str] = set()
    for name, variable in headers.items():
        if not _HEADER.fullmatch(name):
            raise ValueError("has a key that is no header's name; write for example `X-Team: TEAM_TOKEN`")
        if name.lower() in _NOT_OURS_TO_SET:
            raise ValueError(f"{name}: this header belongs to the connection and is set by the client; leave it out")
        if name.lower() in seen:
            raise ValueError(f"{name}: the header stands twice (case does not count); keep one of them")
        if not _VARIABLE.fullmatch(variable):
            raise ValueError(
                f"{name}: what is given is not the name of an environment variable; put the header's value into one "
                "and give its name here, so that no secret stands in the file"
            )
        seen.add(name.lower())
    return headers
