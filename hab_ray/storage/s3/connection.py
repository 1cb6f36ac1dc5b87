"""The connection to an S3 service, configured as boto3 is: by AWS_* variables, profiles and instance roles.

boto3 is imported only here, and only once an s3:// address is used.
"""

import os
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from hab_ray.errors import ConfigError, installing

CONNECT_S = 10
READ_S = 30
_CONNECTIONS = 32
_connecting = threading.Lock()
_AWS_DOMAINS = (".amazonaws.com", ".amazonaws.com.cn")


@dataclass(frozen=True)
class Connection:
    """A thread-safe boto3 client that does not retry. `endpoint` is its address without credentials."""

    client: Any
    endpoint: str


def connect() -> Connection:
    """Return this process's connection for the current AWS_* variables.

    Raises:
        ConfigError: boto3 is missing, or its settings are invalid.
    """
    variables = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))
    with _connecting:  # setup takes much CPU, and lru_cache alone would let concurrent threads repeat it
        return _connection(os.getpid(), variables)


@lru_cache(maxsize=8)
def _connection(_process: int, _variables: tuple[tuple[str, str], ...]) -> Connection:
    """Create the connection for a process and environment; a forked process must not share its parent's."""
    try:
        import boto3
        import botocore.session
        from botocore.exceptions import BotoCoreError
    except ImportError:
        raise ConfigError(f"s3:// addresses need boto3; {installing('s3')}") from None
    try:
        core = botocore.session.get_session()
        session = boto3.session.Session(botocore_session=core)
        region = session.region_name or os.environ.get("AWS_REGION")
        client = _client(session, region, None)
        chosen = (core.get_scoped_config().get("s3") or {}).get("addressing_style")
        host = urlsplit(client.meta.endpoint_url).hostname or ""
        if not host.endswith(_AWS_DOMAINS) and not chosen:
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
