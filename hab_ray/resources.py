"""What surrounds a process: the data folders that ship with the project, the versions of packages, Ray's job."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from hab_ray.errors import ConfigError

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
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
