"""Maps the columns of published and other tables to ours by their names."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import yaml

from hab_ray.inputs.files import BadInput

PUBLISHED: Mapping[str, Any] = yaml.safe_load(files(__package__).joinpath("published.yaml").read_text("utf-8"))
NAMES: Mapping[str, Sequence[str]] = PUBLISHED["words"]
"""Known names of other tables' columns, by our names."""
_UNAMBIGUOUS = frozenset({"subject", "text", "rater", "score"})
"""Of these no column is preferred for its name: beside `human_score`, `score` is often a judge's."""


def snake(name: str) -> str:
    """Convert a name to snake case."""
    return re.sub(
        r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    ).strip("_")


def mapping(names: Sequence[str], known: Mapping[str, Sequence[str]], given: Mapping[str, str]) -> dict[str, str]:
    """Map our column names to the file's: to the `given` name, else to a `known` one; omit columns without a match.

    Raises:
        BadInput: a given name is not a column of ours or of the file, or several columns match and none has our name.
            Several subjects, answers, raters or scores are always refused.
    """
    mapped: dict[str, str] = {}
    for ours, theirs in given.items():
        if ours not in known or theirs not in names:
            present = ", ".join(name[:40] for name in names)
            raise BadInput(
                f"--column {ours}={theirs}: there is no such column",
                f"ours are {', '.join(known)}; the file has {present}",
            )
        mapped[ours] = theirs
    for ours, words in known.items():
        matches = [name for word in words for name in names if snake(name) == word]
        if ours not in mapped and matches:
            if len(matches) > 1 and (ours in _UNAMBIGUOUS or snake(matches[0]) != ours):
                raise BadInput(
                    f"the columns {', '.join(matches)} may each be {ours}", f"say which with --column {ours}=NAME"
                )
            mapped[ours] = ours if ours in matches else matches[0]
    return mapped
