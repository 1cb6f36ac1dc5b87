"""A connection to an S3 service, made by boto3 from what its users set: AWS_* variables, profiles, instance roles.

boto3 is imported here and nowhere else, and only once an s3:// address is used.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from hab_ray.errors import ConfigError

CONNECT_S = 10
READ_S = 30
_CONNECTIONS = 32
_one_at_a_time = threading.Lock()
_ENDPOINT_OF_AWS = (".amazonaws.com", ".amazonaws.com.cn")


@dataclass(frozen=True)
class Connection:
    """A boto3 client without retries of its own, safe for threads. `endpoint` is its address without credentials."""

    client: Any
    endpoint: str


def connect() -> Connection:
    """The connection of this process for the present AWS_* variables.

    Raises:
        ConfigError: boto3 is missing, or the settings make no connection.
    """
    variables = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))
    with _one_at_a_time:  # setting up takes much CPU, and the cache lets threads that come together do it each
        return _connection(os.getpid(), variables)


@lru_cache(maxsize=8)
def _connection(_process: int, _variables: tuple[tuple[str, str], ...]) -> Connection:
    """One for each process and environment: connections are not to be shared with a forked process."""
    try:
        import boto3
        import botocore.session
        from botocore.exceptions import BotoCoreError
    except ImportError:
        raise ConfigError("s3:// addresses need boto3, which is not installed: `pip install 'hab-ray[s3]'`") from None
    try:
        core = botocore.session.get_session()
        session = boto3.session.Session(botocore_session=core)
        region = session.region_name or os.environ.get("AWS_REGION")
        client = _client(session, region, None)
        chosen = (core.get_scoped_config().get("s3") or {}).get("addressing_style")
        host = urlsplit(client.meta.endpoint_url).hostname or ""
        if not host.endswith(_ENDPOINT_OF_AWS) and not chosen:
            client = _client(session, region or "us-east-1", "path")
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(
            f"s3: boto3 cannot be set up ({type(error).__name__}: {error}); check AWS_PROFILE, AWS_ENDPOINT_URL_S3, "
            "AWS_DEFAULT_REGION and ~/.aws/config"
        ) from None
    return Connection(client, _without_credentials(client.meta.endpoint_url))


def _client(session: Any, region: str | None, addressing: str | None) -> Any:
    from botocore.config import Config

    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        max_pool_connections=_CONNECTIONS,
        tcp_keepalive=True,
        s3={"addressing_style": addressing} if addressing else None,
    )
    return session.client("s3", region_name=region, config=config)


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
