"""A bucket behind a proxy that counts requests and makes trouble."""

import os
from collections.abc import Iterator

import pytest

from hab_ray.location import Location
from hab_ray.storage.s3.cache import node_cache
from hab_ray.storage.s3.connection import connect
from hab_ray.storage.s3.folder import S3Folder
from hab_ray.storage.s3.objects import Objects
from hab_ray.storage.s3.requests import Requests
from tests.s3_proxy import S3Proxy, s3_proxy
from tests.seaweed import SeaweedFS


def anew(bucket: str) -> S3Folder:
    """The folder as another process of this node sees it."""
    place = Location.of(bucket)
    objects = Objects(Requests(connect(), place.bucket), place.bucket, place.prefix)
    return S3Folder(objects, node_cache(os.environ))


@pytest.fixture
def proxy(bucket: str, s3_server: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Proxy]:
    """A proxy before the S3 server; `bucket` is reached through it."""
    with s3_proxy(s3_server.ports[-1]) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        yield proxy


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries are short."""
    monkeypatch.setattr("hab_ray.storage.s3.requests.MAX_PAUSE_S", 0.1)
