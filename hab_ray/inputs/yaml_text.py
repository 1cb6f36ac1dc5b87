"""Reads YAML: users' files and runs' records."""

import re
from collections.abc import Hashable
from importlib.resources.abc import Traversable
from typing import Any

import yaml

from hab_ray.inputs.files import MAX_TEXT_BYTES, SHOWN, BadInput, text_of

DEEPEST_YAML = 50
MAX_YAML_NODES = 50_000
MAX_NUMBER = 100
_MISREAD = re.compile(r"[-+]?0[0-7_]+|.*:.*")
_NUMBERS = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp")}


class _Loader(yaml.CSafeLoader):
    """PyYAML's safe loader, with errors that name line and column for duplicate keys and invalid values.

    PyYAML silently drops the first of two equal keys, raises a ValueError without a location for a date such as
    2026-13-45, takes minutes for a number of a million digits, and reads 1:30 as 90 and 010 as 8.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                cause = f"the key {_shown(key.value)} appears twice; keep one of them"
                raise yaml.constructor.ConstructorError(problem=cause, problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            if node.tag in _NUMBERS and len(node.value) > MAX_NUMBER:
                raise ValueError
            value = super().construct_object(node, deep)
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError):
            what = _shown(node.value) if isinstance(node, yaml.ScalarNode) else "what stands here"
            kind = node.tag.rpartition(":")[2]
            cause = f"{what} is no {kind} that can be read; correct it, or put it in quotes if it is text"
            raise yaml.constructor.ConstructorError(problem=cause, problem_mark=node.start_mark) from None
        if isinstance(value, int | float) and isinstance(node, yaml.ScalarNode) and _MISREAD.fullmatch(node.value):
            cause = f"{_shown(node.value)} means {value} in YAML; write that number, or put it in quotes if it is text"
            raise yaml.constructor.ConstructorError(problem=cause, problem_mark=node.start_mark)
        return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def yaml_file(file: Traversable) -> Any:
    """Read a YAML or JSON file; raise BadInput if the file cannot be read, or as `parse_yaml`."""
    return parse_yaml(text_of(file))


def parse_yaml(text: str) -> Any:
    """Parse a YAML text.

    Raises:
        BadInput: it is not YAML, has a duplicate key, an invalid number or date, or is too large or nested too deeply.
    """
    if len(text) > MAX_TEXT_BYTES:
        raise BadInput(f"has {len(text):,} characters, and at most {MAX_TEXT_BYTES:,} are read", "split it")
    try:
        _refuse_large(text)
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        cause, remedy = _in_plain_words(text, error)
        raise BadInput(f"not valid YAML: {where}{cause}", remedy) from None
    except yaml.YAMLError as error:
        raise BadInput(f"not valid YAML: {' '.join(str(error).split())}", "correct the YAML there") from None


def _in_plain_words(text: str, error: yaml.MarkedYAMLError) -> tuple[str, str]:
    """Return the problem of an invalid text and its remedy."""
    mark, problem = error.problem_mark, str(error.problem)
    lines = text.splitlines()
    if mark and mark.line < len(lines) and lines[mark.line][mark.column :].startswith("\t"):
        return f"{problem}: it is a tab", "indent with spaces"
    if problem == "but found another document":
        return "a second document begins here", "keep one"
    return problem, "correct the YAML there"


def _refuse_large(text: str) -> None:
    """Refuse texts nested too deeply or with too many nodes, where an alias counts as all nodes it repeats."""
    nodes = 0
    opened: list[tuple[str | None, int]] = []
    sizes: dict[str, int] = {}
    for event in yaml.parse(text, yaml.CSafeLoader):
        match event:
            case yaml.AliasEvent():
                if any(anchor == event.anchor for anchor, _ in opened):
                    raise BadInput(f"{_place(event)}: *{event.anchor} is nested within itself", "write it out")
                nodes += sizes.get(str(event.anchor), 1)
            case yaml.ScalarEvent():
                nodes += 1
                if event.anchor:
                    sizes[event.anchor] = 1
            case yaml.CollectionStartEvent():
                nodes += 1
                opened.append((event.anchor, nodes))
                if len(opened) > DEEPEST_YAML:
                    raise BadInput(
                        f"{_place(event)}: lists and mappings are nested more than {DEEPEST_YAML} deep",
                        "look for brackets that are not closed",
                    )
            case yaml.CollectionEndEvent():
                anchor, before = opened.pop()
                if anchor:
                    sizes[anchor] = nodes - before + 1
        if nodes > MAX_YAML_NODES:
            raise BadInput(
                f"{_place(event)}: it holds more than {MAX_YAML_NODES:,} values, counting what `*` repeats",
                "write fewer; long lists of tests belong in a .parquet, .csv or .jsonl file",
            )


def _place(event: yaml.Event) -> str:
    mark = event.start_mark
    return f"line {mark.line + 1}" if mark else "the text"
