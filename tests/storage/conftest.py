"""What the tests of storage share: replies and failures made by hand, and a folder that counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from hab_ray.calls import Failure, Finish, Reply, Usage
from hab_ray.errors import FailureKind
from hab_ray.location import Location
from hab_ray.storage.folder import Folder, open_folder


class Through:
    """A folder around another one, for tests to change what it does."""

    def __init__(self, inner: Folder) -> None:
        self.inner = inner

    @property
    def is_remote(self) -> bool:
        return self.inner.is_remote

    def claim(self) -> None:
        self.inner.claim()

    def list(self, prefix: str = "") -> Sequence[str]:
        return self.inner.list(prefix)

    def exists(self, name: str) -> bool:
        return self.inner.exists(name)

    def size(self, name: str) -> int:
        return self.inner.size(name)

    def get(self, name: str) -> bytes:
        return self.inner.get(name)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        return self.inner.get_range(name, start, length)

    def put(self, name: str, data: bytes) -> None:
        self.inner.put(name, data)

    def put_new(self, name: str, data: bytes) -> None:
        self.inner.put_new(name, data)

    def put_new_private(self, name: str, data: bytes) -> None:
        self.inner.put_new_private(name, data)

    def delete(self, name: str) -> None:
        self.inner.delete(name)

    def move(self, name: str, to: str) -> None:
        self.inner.move(name, to)

    def clear(self, prefix: str) -> None:
        self.inner.clear(prefix)


class CountingFolder(Through):
    """A folder that counts what is fetched from it, by name."""

    def __init__(self, inner: Folder) -> None:
        super().__init__(inner)
        self.fetched: Counter[str] = Counter()

    def get(self, name: str) -> bytes:
        self.fetched[name] += 1
        return super().get(name)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        self.fetched[name] += 1
        return super().get_range(name, start, length)

    def parts(self) -> Counter[str]:
        """Of the fetches, those of compacted parts."""
        return Counter({name: count for name, count in self.fetched.items() if name.endswith(".parquet")})


ON_S3 = (pytest.mark.integration, pytest.mark.xdist_group("s3"))


@pytest.fixture(params=["disk", pytest.param("s3", marks=ON_S3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """A place that nobody wrote to: on local disk, then in a bucket."""
    if request.param == "disk":
        return Location.of(tmp_path / "store")
    return Location.of(request.getfixturevalue("bucket"))


@pytest.fixture
def folder(place: Location) -> Folder:
    """An empty folder, on local disk and in a bucket."""
    return open_folder(place)


def key_of(name: str) -> str:
    """The key that a test calls by a name."""
    return sha256(name.encode()).hexdigest()


@pytest.fixture(scope="session")
def reply() -> Callable[..., Reply]:
    """Makes the reply for the key of a name, with any other field changed."""

    def make(name: str, **changes: Any) -> Reply:
        fields: dict[str, Any] = {
            "finish": Finish.OK,
            "usage": Usage(10, 4, 2, 20, 5),
            "cost_nanousd": 1_250,
            "model_reported": "m-2026",
            "served_by": "fp_1",
            "body_sha256": "ab" * 32,
            "at": datetime(2026, 11, 21, 9, 30, 0, 123456, UTC),
            "text": f"answer to {name}",
        }
        return Reply(key_of(name), **fields | changes)

    return make


@pytest.fixture(scope="session")
def failure() -> Callable[..., Failure]:
    """Makes a permanent failure for the key of a name."""

    def make(name: str, message: str = "too long") -> Failure:
        return Failure(key_of(name), FailureKind.TOO_LONG, permanent=True, attempts=3, message=message, cost_nanousd=7)

    return make
