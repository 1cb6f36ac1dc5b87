"""Where the data folders that ship with the project are found, installed or in a checkout."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from hab_ray.errors import ConfigError


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
