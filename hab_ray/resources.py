"""What surrounds a process: the data folders that ship with the project, other distributions, Ray's job."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

from hab_ray.errors import ConfigError

T = TypeVar("T")

RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # Ray's job server sets it for the entry point alone
_PACKAGES = ("hab-ray", "ray", "openai", "anthropic", "aiohttp", "scikit-learn", "numpy", "pyarrow")


def bundled(name: str) -> Traversable:
    """The data folder `name` ("rubrics", "jobs"): inside the package in a wheel, beside it in a checkout.

    The folders stand at the top level of the repository, where people look for them, and the wheel's build
    copies them into the package. Raises ConfigError if there is neither.
    """
    inside = files("hab_ray").joinpath(name)
    if inside.is_dir():
        return inside
    beside = Path(__file__).resolve().parent.parent / name
    if beside.is_dir():
        return beside
    raise ConfigError(f"{inside}: the folder is missing and there is none at {beside}; install hab-ray again")


def installed_versions() -> dict[str, str]:
    """The versions of Python and of the packages that a run's results may depend on."""
    return {"python": platform.python_version(), **{package: _version(package) for package in _PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


OWN_VERSION = _version("hab-ray")


def is_ray_job(environment: Mapping[str, str]) -> bool:
    """Whether this process is the entry point of a Ray job, or was started by it."""
    return bool(environment.get(RAY_JOB))


@dataclass(frozen=True)
class Extensions:
    """Things of one sort by name: those of this package, and those that other distributions add by entry points.

    `group` is the group of the entry points, `word` what one of them is called in messages, `built_in` where ours are
    ("module:attribute"), which nobody can replace. `remedy` is a sentence for a user who names one that is not there.
    Nothing of them is imported before it is loaded.
    """

    group: str
    word: str
    built_in: Mapping[str, str]
    remedy: str

    def added(self) -> list[EntryPoint]:
        """Those of other distributions, by name."""
        found = (entry for entry in entry_points(group=self.group) if entry.name not in self.built_in)
        return sorted(found, key=lambda entry: entry.name)

    def names(self) -> list[str]:
        """All there are: ours, then those of other distributions."""
        return [*self.built_in, *dict.fromkeys(entry.name for entry in self.added())]

    def find(self, name: str) -> EntryPoint:
        """The entry of this name, not yet loaded.

        Raises:
            ConfigError: there is none, or several distributions have one.
        """
        if name in self.built_in:
            return EntryPoint(name, self.built_in[name], self.group)
        found = [entry for entry in self.added() if entry.name == name]
        if len(found) == 1:
            return found[0]
        if not found:
            raise ConfigError(f"there is no {self.word} {name!r}; there are {', '.join(self.names())}. {self.remedy}")
        raise ConfigError(
            f"the {self.word} {name!r} is in several packages ({', '.join(map(distribution, found))}); uninstall all "
            "but one"
        )

    def load(self, name: str, sort: type[T]) -> T:
        """What an entry names, which has to be a `sort`. Code of another distribution is imported here.

        Raises:
            ConfigError: there is no such entry, or its distribution is broken.
        """
        entry = self.find(name)
        with self.blamed(entry):
            loaded = entry.load()
            if not isinstance(loaded, sort):
                raise TypeError(f"it is a {type(loaded).__name__} and not a {sort.__module__}.{sort.__qualname__}")
            return loaded

    @contextmanager
    def blamed(self, entry: EntryPoint) -> Iterator[None]:
        """Around code of another distribution, any of whose errors means that the distribution is broken."""
        try:
            yield
        except Exception as error:
            if entry.dist is None or isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"the {self.word} {entry.name!r} comes from the package {distribution(entry)} ({entry.value}), which "
                f"is broken: {type(error).__name__}: {error}; update or repair that package, or uninstall it and "
                f"choose another {self.word}"
            ) from error


def distribution(entry: EntryPoint) -> str:
    """The distribution that an entry comes from: its name and version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "hab-ray"
