"""Where the data folders that ship with the project are found, installed or in a checkout; how YAML is read."""

from __future__ import annotations

from collections.abc import Hashable
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from hab_ray.errors import ConfigError

DEEPEST_YAML = 50


class BadYaml(ValueError):
    """A text is not YAML; the message says where and why."""


class _UniqueKeyLoader(yaml.CSafeLoader):
    """PyYAML keeps the last of two equal keys and drops the first in silence; here that is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                cause = f"the key {key.value!r} stands twice; keep one of them"
                raise yaml.constructor.ConstructorError(problem=cause, problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """What a YAML text holds.

    Raises:
        BadYaml: it is none, or a key stands twice in one mapping, or it is nested so deeply that libyaml would crash.
    """
    try:
        _refuse_deep(text)
        return yaml.load(text, _UniqueKeyLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadYaml(f"{where}{error.problem}") from None
    except yaml.YAMLError as error:
        raise BadYaml(" ".join(str(error).split())) from None


def _refuse_deep(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST_YAML:
            raise BadYaml(f"lists and mappings stand within each other more than {DEEPEST_YAML} deep")


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
