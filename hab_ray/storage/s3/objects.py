"""Objects under a prefix of a bucket. PutObject is atomic, and with `If-None-Match: *` only one writer succeeds.

A put whose answer was lost may have succeeded. So `put_new` attaches a nonce to each object: if a retry finds the name
taken and the object has this call's nonce, the call succeeded.
"""

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
_MAX_DELETED = 1000  # of one DeleteObjects request


@dataclass(frozen=True)
class ObjectEntry:
    """The ETag of an object, which identifies its content, and its size in bytes."""

    etag: str
    size: int

    @classmethod
    def of(cls, etag: str, size: int) -> Self:
        """Create an entry with the ETag unquoted: some services quote it in some answers only."""
        return cls(etag.strip('"'), size)


class Objects:
    """The objects under a prefix, with methods like those of `Folder`. Each call is one request, or one per page.

    Raises:
        ConfigError: the service refuses requests.
        FileNotFoundError: the object to read does not exist.
    """

    def __init__(self, requests: Requests, bucket: str, prefix: str) -> None:
        self._requests, self._bucket = requests, bucket
        self._root = f"{prefix}/" if prefix else ""

    @property
    def address(self) -> str:
        """The prefix with the address of its service: two services may have buckets of the same name."""
        return f"{self._requests.endpoint} s3://{self._bucket}/{self._root}"

    def reach(self, longest_s: float) -> None:
        """Check that the bucket exists and may be listed.

        Raises:
            ConfigError: it does not or may not, or did not answer within `longest_s`.
        """
        self._requests.send("list_objects_v2", longest_s=longest_s, Prefix=self._root, MaxKeys=1)

    def list(self, inside: str) -> Iterator[tuple[str, ObjectEntry]]:
        """Yield names that begin with `inside` and their entries, fetched in pages of 1,000."""
        token: dict[str, Any] = {}
        while True:
            answer = self._requests.send("list_objects_v2", Prefix=self._root + inside, **token)
            for item in answer.get("Contents", ()):
                if not item["Key"].endswith("/"):  # S3 consoles create empty objects as folders
                    yield item["Key"].removeprefix(self._root), ObjectEntry.of(item["ETag"], item["Size"])
            if not answer.get("IsTruncated"):
                return
            token = {"ContinuationToken": answer["NextContinuationToken"]}

    def head(self, name: str) -> ObjectEntry:
        """Return the entry of an object."""
        with self._reading(name):
            answer = self._requests.send("head_object", Key=self._root + name)
        return ObjectEntry.of(answer["ETag"], answer["ContentLength"])

    def get(self, name: str) -> tuple[bytes, ObjectEntry]:
        with self._reading(name):
            answer = self._requests.send("get_object", Key=self._root + name)
        return answer["Body"], ObjectEntry.of(answer["ETag"], len(answer["Body"]))

    def get_range(self, name: str, start: int, length: int) -> bytes:
        if not length:
            return b""
        span = f"bytes={start}-{start + length - 1}"
        try:
            return bytes(self._requests.send("get_object", Key=self._root + name, Range=span)["Body"])
        except Failed as failed:
            if failed.meaning is Meaning.EMPTY_RANGE:
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
        """Return whether an earlier attempt of the same `put_new` created the object."""
        try:
            found = self._requests.send("head_object", Key=key).get("Metadata", {})
        except Failed:
            return False
        return bool(found.get(_NONCE) == nonce)

    def copy(self, name: str, to: str) -> str:
        """Copy an object atomically and return the ETag of the copy."""
        source = {"Bucket": self._bucket, "Key": self._root + name}
        with self._reading(name):
            answer = self._requests.send("copy_object", Key=self._root + to, CopySource=source)
        return str(answer["CopyObjectResult"]["ETag"])

    def delete(self, names: Sequence[str]) -> None:
        keys = [self._root + name for name in names]
        if len(keys) > 1:
            chunks = [keys[start : start + _MAX_DELETED] for start in range(0, len(keys), _MAX_DELETED)]
            keys = []
            for chunk in chunks:
                objects = [{"Key": key} for key in chunk]
                answer = self._requests.send("delete_objects", Delete={"Objects": objects, "Quiet": True})
                keys += [error["Key"] for error in answer.get("Errors", ())]  # reported with status 200
        for key in keys:
            with suppress(Failed):
                self._requests.send("delete_object", Key=key)

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
