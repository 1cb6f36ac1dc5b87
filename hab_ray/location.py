"""Where a run or a store is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hab_ray.errors import ConfigError


@dataclass(frozen=True)
class Location:
    """A folder, as the user wrote it: relative to the present directory or absolute."""

    given: str

    @classmethod
    def of(cls, given: Any) -> Self:
        """The location that a text, a path or a location names.

        Raises:
            ValueError: it is none of these.
        """
        if isinstance(given, cls):
            return given
        if not isinstance(given, str | os.PathLike):
            raise ValueError("is not a path")
        text = os.fspath(given)
        return cls(text if "://" in text else str(Path(text)))

    def __str__(self) -> str:
        return self.given

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.given.rstrip('/')}/{name}")

    @property
    def path(self) -> Path:
        """The absolute path on this machine.

        Raises:
            ConfigError: it is not on this machine.
        """
        scheme, separator, _ = self.given.partition("://")
        if separator:
            raise ConfigError(
                f"{self.given}: runs and stores at {scheme}:// addresses cannot be used yet; give a folder on this "
                "machine"
            )
        return Path(self.given).absolute()

    @property
    def name(self) -> str:
        """The last part of it."""
        return self.path.name

    def absolute(self) -> Location:
        """The same place for processes that work in other directories."""
        return Location(str(self.path))

    def beside(self, name: str) -> Location:
        """The place of this name in the same folder."""
        return Location(str(Path(self.given).with_name(name)))

    def seen_from(self, other: Location) -> str:
        """The way here from another place, which is the same wherever the two are mounted."""
        return os.path.relpath(self.path, other.path)

    def follow(self, way: str) -> Location:
        """The place that another one's `seen_from` leads to from here."""
        return Location(os.path.normpath(self.path / way))

    def is_same(self, other: Location) -> bool:
        """Whether both are one folder that exists, also through links."""
        return self.path.exists() and other.path.exists() and self.path.samefile(other.path)
