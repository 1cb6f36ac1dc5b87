"""Objects under a prefix of a bucket: whole bytes, a PutObject is atomic, `If-None-Match: *` lets one writer win.

A put whose answer was lost may have worked. So each object of `put_new` carries a nonce, and one that is found taken
by an earlier try of the same call is this call's.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from hab_ray.storage.s3.problems import Meaning
from hab_ray.storage.s3.requests import Failed, Requests

_NONCE = "hab-nonce"
_DELETED_AT_ONCE = 1000


@dataclass(frozen=True)
class ObjectEntry:
    """One object: its ETag, which tells one content from another, and its size in bytes."""

    etag: str
    size: int

    @classmethod
    def of(cls, etag: str, size: int) -> Self:
        """The entry for an ETag as a service writes it: some quote it in one answer and not in the next."""
        return cls(etag.strip('"'), size)


class Objects:
    """The objects under a prefix; see `Folder` for the methods. Each is one request, but for those that page.

    Raises:
        ConfigError: requests are refused.
        FileNotFoundError: an object that is read is not there.
    """

    def __init__(self, requests: Requests, bucket: str, prefix: str) -> None:
        self._requests, self._bucket = requests, bucket
        self._root = f"{prefix}/" if prefix else ""

    @property
    def address(self) -> str:
        """Where they are, with the service's address: two services may have buckets of one name."""
        return f"{self._requests.endpoint} s3://{self._bucket}/{self._root}"

    def reach(self, longest_s: float) -> None:
        """Look whether the bucket is there and may be listed.

        Raises:
            ConfigError: it is not, or there was no answer in that time.
        """
        self._requests.send("list_objects_v2", longest_s=longest_s, Prefix=self._root, MaxKeys=1)

    def list(self, inside: str) -> Iterator[tuple[str, ObjectEntry]]:
        """The names that begin so, in pages of 1,000."""
        token: dict[str, Any] = {}
        while True:
            answer = self._requests.send("list_objects_v2", Prefix=self._root + inside, **token)
            for item in answer.get("Contents", ()):
                if not item["Key"].endswith("/"):  # consoles make empty objects for folders
                    yield item["Key"].removeprefix(self._root), ObjectEntry.of(item["ETag"], item["Size"])
            if not answer.get("IsTruncated"):
                return
            token = {"ContinuationToken": answer["NextContinuationToken"]}

    def head(self, name: str) -> ObjectEntry:
        """What is under a name."""
        with self._reading(name):
            answer = self._requests.send("head_object", Key=self._root + name)
        return ObjectEntry.of(answer["ETag"], answer["ContentLength"])

    def get(self, name: str) -> tuple[bytes, ObjectEntry]:
        with self._reading(name):
            data, etag = self._requests.fetch(Key=self._root + name)
        return data, ObjectEntry.of(etag, len(data))

    def get_range(self, name: str, start: int, length: int) -> bytes:
        if not length:
            return b""
        try:
            return self._requests.fetch(Key=self._root + name, Range=f"bytes={start}-{start + length - 1}")[0]
        except Failed as failed:
            if failed.meaning is Meaning.NOTHING_THERE:
                return b""
            raise self._missing(name) from None

    def put(self, name: str, data: bytes) -> ObjectEntry:
        return ObjectEntry.of(self._requests.send("put_object", Key=self._root + name, Body=data)["ETag"], len(data))

    def put_new(self, name: str, data: bytes) -> ObjectEntry:
        key, nonce = self._root + name, secrets.token_hex(8)
        try:
            answer = self._requests.send("put_object", Key=key, Body=data, IfNoneMatch="*", Metadata={_NONCE: nonce})
        except Failed as failed:
            if failed.repeated and self._is_marked(key, nonce):
                return self.head(name)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._shown(name)) from None
        return ObjectEntry.of(answer["ETag"], len(data))

    def _is_marked(self, key: str, nonce: str) -> bool:
        """Whether an object was made by an earlier try of the same `put_new`."""
        try:
            found = self._requests.send("head_object", Key=key).get("Metadata", {})
        except Failed:
            return False
        return bool(found.get(_NONCE) == nonce)

    def copy(self, name: str, to: str) -> str:
        """Have another name hold the same; atomic for whoever reads it. Returns the new object's ETag."""
        source = {"Bucket": self._bucket, "Key": self._root + name}
        with self._reading(name):
            answer = self._requests.send("copy_object", Key=self._root + to, CopySource=source)
        return str(answer["CopyObjectResult"]["ETag"])

    def delete(self, names: Sequence[str]) -> None:
        if len(names) == 1:
            with suppress(Failed):
                self._requests.send("delete_object", Key=self._root + names[0])
            return
        for start in range(0, len(names), _DELETED_AT_ONCE):
            objects = [{"Key": self._root + name} for name in names[start : start + _DELETED_AT_ONCE]]
            self._requests.send("delete_objects", Delete={"Objects": objects, "Quiet": True})

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except Failed:
            raise self._missing(name) from None

    def _missing(self, name: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._shown(name))

    def _shown(self, name: str) -> str:
        return f"s3://{self._bucket}/{self._root}{name}"
