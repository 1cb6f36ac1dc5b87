"""JSON Schema, as far as our clients use it: what a vendor's structured outputs accept, and seeded values that fit.

A keyword outside the known ones is refused, so no reply can ever miss a constraint that this module does not
know. Each vendor's subset is a Dialect.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from random import Random
from typing import Any

from hab_simulator.truth.prose import Author

Schema = Mapping[str, Any]

_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "$schema"})
_LENGTH_KEYWORDS = frozenset({"minLength", "maxLength"})
_KEYWORDS = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": _LENGTH_KEYWORDS | {"enum"},
    "integer": frozenset[str](),
    "number": frozenset[str](),
    "boolean": frozenset[str](),
}
_EXTRA_ITEMS = 3
_RANGE = 100


class SchemaError(ValueError):
    """A schema that is refused; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A vendor's subset of JSON Schema.

    `closed`: each object says `additionalProperties: false`. `all_required`: each requires all of its
    properties. `least_items`: the largest `minItems` accepted. `refused`: keywords not accepted at all.
    """

    closed: bool = False
    all_required: bool = False
    least_items: int | None = None
    refused: frozenset[str] = frozenset()


LENIENT = Dialect()
OPENAI_STRICT = Dialect(closed=True, all_required=True, refused=_LENGTH_KEYWORDS)
ANTHROPIC = Dialect(closed=True, least_items=1, refused=_LENGTH_KEYWORDS | {"maxItems"})

Path = tuple[str, ...]


def check(schema: Schema, dialect: Dialect) -> None:
    """Refuse what a vendor refuses. Raises SchemaError."""
    _check(json.dumps(schema), dialect)


@lru_cache(maxsize=256)
def _check(text: str, dialect: Dialect) -> None:
    """A sweep sends few schemas many times: each is walked once."""
    for path, schema in _walk(json.loads(text), ()):
        kind = schema.get("type")
        if kind is None:
            raise SchemaError(f"In context={path!r}, schema must have a 'type' key.")
        if not isinstance(kind, str) or kind not in _KEYWORDS:
            raise SchemaError(f"In context={path!r}, {kind!r} is not a valid type.")
        odd = sorted(schema.keys() - ({"type"} | _ANNOTATIONS | _KEYWORDS[kind]) | schema.keys() & dialect.refused)
        if odd:
            raise SchemaError(f"In context={path!r}, {odd[0]!r} is not permitted.")
        _check_bounds(schema, dialect)
        if kind == "object":
            _check_object(path, schema, dialect)


def _check_bounds(schema: Schema, dialect: Dialect) -> None:
    """Refuse a schema that no value fits, which would fail only when a value is drawn."""
    for low, high in (("minItems", "maxItems"), ("minLength", "maxLength")):
        if schema.get(low, 0) > schema.get(high, inf):
            raise SchemaError(f"'{low}' is above '{high}'.")
    if "enum" in schema and not schema["enum"]:
        raise SchemaError("'enum' must not be empty.")
    least = dialect.least_items
    if least is not None and schema.get("minItems", 0) > least:
        raise SchemaError(f"For 'array' type, 'minItems' values above {least} are not supported")


def _check_object(path: Path, schema: Schema, dialect: Dialect) -> None:
    if dialect.closed and schema.get("additionalProperties") is not False:
        raise SchemaError(f"In context={path!r}, 'additionalProperties' is required to be supplied and to be false.")
    missing = sorted(set(schema.get("properties", {})) - set(schema.get("required", ())))
    if dialect.all_required and missing:
        raise SchemaError(
            f"In context={path!r}, 'required' is required to be supplied and to be an array including "
            f"every key in properties. Missing '{missing[0]}'."
        )


def _walk(schema: Any, path: Path) -> Iterator[tuple[Path, Schema]]:
    """A schema and all those inside it, with their paths."""
    if not isinstance(schema, dict):
        raise SchemaError(f"In context={path!r}, a schema must be an object.")
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from _walk(child, (*path, "properties", name))
    if "items" in schema:
        yield from _walk(schema["items"], (*path, "items"))


def letters_of(schema: Schema, name: str) -> tuple[str, ...]:
    """The texts that may stand in the array property `name` of an object schema, or none."""
    return tuple(schema.get("properties", {}).get(name, {}).get("items", {}).get("enum", ()))


def sample(schema: Schema, rng: Random, author: Author) -> Any:
    """A value that fits the schema, its texts written by `author`."""
    return _Sampler(rng, author).value(schema, "")


@dataclass(frozen=True, slots=True)
class _Sampler:
    rng: Random
    author: Author

    def value(self, schema: Schema, name: str) -> Any:
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        match schema["type"]:
            case "object":
                return self._object(schema)
            case "array":
                return self._array(schema, name)
            case "string":
                low, high = schema.get("minLength", 0), schema.get("maxLength")
                return self.author.text(self.rng, name, int(low), None if high is None else int(high))
            case "boolean":
                return self.rng.random() < 0.5
            case _:
                return self.rng.randint(0, _RANGE)

    def _object(self, schema: Schema) -> dict[str, Any]:
        required = schema.get("required", ())
        return {
            name: self.value(child, name)
            for name, child in schema.get("properties", {}).items()
            if name in required or self.rng.random() < 0.5
        }

    def _array(self, schema: Schema, name: str) -> list[Any]:
        low = int(schema.get("minItems", 0))
        high = int(schema.get("maxItems", low + _EXTRA_ITEMS))
        count = self.rng.randint(low, min(high, low + _EXTRA_ITEMS))
        items = schema.get("items", {"type": "string"})
        letters = items.get("enum")
        if letters is not None and low <= len(letters):
            chosen = self.rng.sample(range(len(letters)), min(count, len(letters)))
            return [letters[index] for index in sorted(chosen)]
        return [self.value(items, name) for _ in range(count)]
