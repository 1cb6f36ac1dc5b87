"""The location of a run or a store: a folder on this machine, or a prefix in an S3 bucket."""

from __future__ import annotations

import os
import posixpath
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hab_ray.errors import ConfigError

_S3 = "s3://"
_BUCKET = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$")


@dataclass(frozen=True)
class Location:
    """A path as the user wrote it, absolute or relative to the current directory; or `s3://bucket/prefix`."""

    given: str

    @classmethod
    def of(cls, given: Any) -> Self:
        """Convert a string, path or location to a location; `~` is the user's home, as in a shell.

        Raises:
            ValueError: it is none of these, empty, cannot be a path, or is an s3:// address without a bucket or with
                empty parts, "." or "..".
            ConfigError: as `expanded`.
        """
        if isinstance(given, cls):
            return given
        if not isinstance(given, str | os.PathLike):
            raise ValueError("is not a path; write one as text, in quotes if it looks like a number")
        text = os.fspath(given)
        if not text:
            raise ValueError("is empty; write a path, or . for the current folder")
        if "\0" in text:
            raise ValueError("holds a NUL character; write the path without it")
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise ValueError("holds half of a character; write the path without it") from None
        if text.startswith(_S3):
            address = _normalise(text)
            if address != text.removesuffix("/"):
                raise ValueError(
                    f"holds //, /./ or /../, which are names in a bucket; write {address} if you mean that"
                )
            return cls(address)
        return cls(text if "://" in text else str(expanded(text)))

    def __str__(self) -> str:
        return self.given

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.given.rstrip('/')}/{name}")

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return "://" not in self.given

    @property
    def is_s3(self) -> bool:
        """Whether it is in an S3 bucket."""
        return self.given.startswith(_S3)

    @property
    def bucket(self) -> str:
        """The name of the S3 bucket."""
        return self.given.removeprefix(_S3).partition("/")[0]

    @property
    def prefix(self) -> str:
        """The prefix in the S3 bucket, without slashes at either end; "" for a whole bucket."""
        return self.given.removeprefix(_S3).partition("/")[2]

    @property
    def path(self) -> Path:
        """The absolute path.

        Raises:
            ConfigError: the location is not on this machine, or no text in UTF-8, which records and logs need.
        """
        if not self.is_local:
            raise ConfigError(f"{self.given}: a folder on this machine is needed here; name one")
        path = Path(self.given).absolute()
        try:
            str(path).encode()
        except UnicodeEncodeError:
            encoding = sys.getfilesystemencoding()
            if encoding == "utf-8":
                raise ConfigError(f"{path}: a folder's name is not in UTF-8; rename it, or work in another") from None
            raise ConfigError(
                f"{path}: the locale has Python read names as {encoding}, and a folder's name has other characters; "
                "set PYTHONUTF8=1, or LC_ALL=C.UTF-8"
            ) from None
        return path

    @property
    def name(self) -> str:
        return self.path.name if self.is_local else posixpath.basename(self.given)

    @property
    def parent(self) -> Location:
        """The parent folder or prefix; of a whole bucket, the bucket itself."""
        if self.is_local:
            return Location(str(Path(self.given).parent))
        return Location(_normalise(f"{_S3}{self.bucket}/{posixpath.dirname(self.prefix)}"))

    def absolute(self) -> Location:
        """Return the location independent of the current directory."""
        return Location(str(self.path)) if self.is_local else self

    def sibling(self, name: str) -> Location:
        """Return the sibling with this name; raise ConfigError if a whole bucket has no siblings."""
        if self.is_local:
            return Location(str(Path(self.given).with_name(name)))
        if not self.prefix:
            raise ConfigError(f"{self.given}: is a whole bucket; name a prefix in it, such as {self.given}/runs/first")
        return Location(f"{posixpath.dirname(self.given)}/{name}")

    def relative_to(self, other: Location) -> str:
        """Return the path of this location relative to another, so that both can be moved together.

        It is absolute if only one is on this machine, or they are in different buckets. If links lead to one of them,
        the path is that from folder to folder, which is right whichever link is used later.
        """
        if self.is_local and other.is_local:
            given, real = os.path.relpath(self.path, other.path), os.path.realpath(self.path)
            is_right = os.path.realpath(other.path / given) == real
            return given if is_right else os.path.relpath(real, os.path.realpath(other.path))
        if self.is_s3 and other.is_s3 and self.bucket == other.bucket:
            return posixpath.relpath(f"/{self.prefix}", f"/{other.prefix}")
        return str(self.absolute())

    def resolve(self, path: str) -> Location:
        """Return the location that a path from `relative_to` names, relative to this one."""
        if "://" in path or os.path.isabs(path):
            return Location(path)
        if self.is_local:
            given, real = Location(os.path.normpath(self.path / path)), Location(os.path.realpath(self.path / path))
            return real if real.path.exists() and not real.is_same(given) else given
        return Location(_normalise(f"{self.given}/{path}"))

    def is_same(self, other: Location) -> bool:
        """Return whether both are the same existing folder, possibly through links, or the same address."""
        if not (self.is_local and other.is_local):
            return self.given == other.given
        return self.path.exists() and other.path.exists() and self.path.samefile(other.path)


def expanded(path: str) -> Path:
    """Return a path with `~` replaced by the user's home, as in a shell.

    Raises:
        ConfigError: the user has none; a folder named `~` is hardly meant.
    """
    found = Path(os.path.expanduser(path))
    if found.parts[:1] == ("~",):
        raise ConfigError(f"{path}: this user has no home folder for `~`; set HOME, or write the whole path")
    return found


def _normalise(address: str) -> str:
    """Return an s3:// address with single slashes and none at its end."""
    bucket, _, prefix = address.removeprefix(_S3).partition("/")
    if not _BUCKET.match(bucket) or not prefix.isprintable():
        raise ValueError("is not an address in an S3 bucket; write it as s3://bucket/prefix")
    inside = posixpath.normpath(f"/{prefix}").strip("/")
    return f"{_S3}{bucket}/{inside}" if inside else f"{_S3}{bucket}"


def folders_with(file: str, place: Location) -> list[str]:
    """Return the folders on this machine, directly below a place on it, that hold a file of this name."""
    return [str(found.parent) for found in Path(place.given).glob(f"*/{file}")]
