"""The words by which the columns of published and of other tables are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import yaml

from hab_ray.inputs.files import BadInput

PUBLISHED: Mapping[str, Any] = yaml.safe_load(files(__package__).joinpath("published.yaml").read_text("utf-8"))
NAMES: Mapping[str, Sequence[str]] = PUBLISHED["words"]
"""By our names."""


def snake(name: str) -> str:
    """A name in lower case with `_` between its words."""
    return re.sub(
        r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    ).strip("_")


def mapping(names: Sequence[str], known: Mapping[str, Sequence[str]], given: Mapping[str, str]) -> dict[str, str]:
    """For each of our columns theirs: the one that is given, else the one whose name is known; left out if none is.

    Raises:
        BadInput: one that is given is not ours or is not there, or several could be meant.
    """
    found: dict[str, str] = {}
    for ours, theirs in given.items():
        if ours not in known or theirs not in names:
            there = ", ".join(name[:40] for name in names)
            raise BadInput(
                f"--column {ours}={theirs}: there is no such column",
                f"ours are {', '.join(known)}; the file has {there}",
            )
        found[ours] = theirs
    for ours, words in known.items():
        fits = [name for word in words for name in names if snake(name) == word]
        if ours not in found and fits:
            if len(fits) > 1 and snake(fits[0]) != ours:
                raise BadInput(
                    f"the columns {', '.join(fits)} may each be {ours}", f"say which with --column {ours}=NAME"
                )
            found[ours] = fits[0]
    return found
