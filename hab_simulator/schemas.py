"""JSON Schema: what a vendor's structured outputs accept, and seeded values that fit.

A keyword outside the known ones is refused, so no reply can ever miss a constraint that this module does not
know. Each vendor's subset is a Dialect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, inf
from random import Random
from typing import Any

from hab_simulator.truth.prose import Author

Schema = Mapping[str, Any]

_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "$schema"})
_RANGE_KEYWORDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_LENGTH_KEYWORDS = frozenset({"minLength", "maxLength"})
_KEYWORDS = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": _LENGTH_KEYWORDS,
    "number": _RANGE_KEYWORDS,
    "integer": _RANGE_KEYWORDS,
    "boolean": frozenset[str](),
    "null": frozenset[str](),
}
_ANYWHERE = frozenset({"type", "enum", "const", "anyOf", "$ref", "$defs", "definitions"}) | _ANNOTATIONS
_EXTRA_ITEMS = 3
_RANGE = 100
_FINE_STEP = 0.25


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
ANTHROPIC = Dialect(closed=True, least_items=1, refused=_RANGE_KEYWORDS | _LENGTH_KEYWORDS | frozenset({"maxItems"}))


@dataclass(frozen=True, slots=True)
class SchemaPlace:
    """A schema inside a document: its path and the document it may refer into."""

    schema: Schema
    path: tuple[str, ...]
    root: Schema

    def inside(self, schema: object, *steps: str) -> SchemaPlace:
        """The same document, further down."""
        if not isinstance(schema, Mapping):
            raise SchemaError(f"In context={self.path + steps!r}, a schema must be an object.")
        return SchemaPlace(schema, self.path + steps, self.root)

    def resolved(self) -> SchemaPlace:
        """This place with a `$ref` followed."""
        reference = self.schema.get("$ref")
        if reference is None:
            return self
        target: object = self.root
        for step in filter(None, str(reference).removeprefix("#").split("/")):
            target = target.get(step) if isinstance(target, Mapping) else None
        return self.inside(target, "$ref").resolved()

    def types(self) -> tuple[str, ...]:
        """The types named here; of an enum or const without a type, none."""
        named = self.schema.get("type", ())
        return (named,) if isinstance(named, str) else tuple(named)


def check(schema: Schema, dialect: Dialect) -> None:
    """Refuse what a vendor refuses. Raises SchemaError."""
    _check(json.dumps(schema), dialect)


@lru_cache(maxsize=256)
def _check(text: str, dialect: Dialect) -> None:
    """A sweep sends few schemas many times: each is walked once."""
    schema = json.loads(text)
    for place in _walk(SchemaPlace(schema, (), schema)):
        types = place.types()
        unknown = [name for name in types if name not in _KEYWORDS]
        if unknown:
            raise SchemaError(f"In context={place.path!r}, {unknown[0]!r} is not a valid type.")
        allowed = _ANYWHERE.union(*(_KEYWORDS[name] for name in types)) - dialect.refused
        odd = sorted(set(place.schema) - allowed)
        if odd:
            raise SchemaError(f"In context={place.path!r}, {odd[0]!r} is not permitted.")
        if not types and not place.schema.keys() & {"enum", "const", "anyOf", "$ref"}:
            raise SchemaError(f"In context={place.path!r}, schema must have a 'type' key.")
        place.resolved()
        _check_bounds(place.schema, types)
        if "object" in types:
            _check_object(place, dialect)
        least = dialect.least_items
        if least is not None and place.schema.get("minItems", 0) > least:
            raise SchemaError(f"For 'array' type, 'minItems' values above {least} are not supported")


def _check_bounds(schema: Schema, types: tuple[str, ...]) -> None:
    """Refuse a schema that no value fits, which would fail only when a value is drawn."""
    if "integer" in types:
        _whole(schema, Random(0))
    if "number" in types:
        _number(schema, Random(0))
    for low, high in (("minItems", "maxItems"), ("minLength", "maxLength")):
        if schema.get(low, 0) > schema.get(high, inf):
            raise SchemaError(f"'{low}' is above '{high}'.")
    for name in ("enum", "anyOf"):
        if name in schema and not schema[name]:
            raise SchemaError(f"'{name}' must not be empty.")


def _check_object(place: SchemaPlace, dialect: Dialect) -> None:
    if dialect.closed and place.schema.get("additionalProperties") is not False:
        raise SchemaError(
            f"In context={place.path!r}, 'additionalProperties' is required to be supplied and to be false."
        )
    missing = sorted(set(place.schema.get("properties", {})) - set(place.schema.get("required", ())))
    if dialect.all_required and missing:
        raise SchemaError(
            f"In context={place.path!r}, 'required' is required to be supplied and to be an array including "
            f"every key in properties. Missing '{missing[0]}'."
        )


def _walk(place: SchemaPlace) -> Iterator[SchemaPlace]:
    yield place
    for name, child in place.schema.get("properties", {}).items():
        yield from _walk(place.inside(child, "properties", name))
    if "items" in place.schema:
        yield from _walk(place.inside(place.schema["items"], "items"))
    for index, child in enumerate(place.schema.get("anyOf", ())):
        yield from _walk(place.inside(child, "anyOf", str(index)))
    for keyword in ("$defs", "definitions"):
        for name, child in place.schema.get(keyword, {}).items():
            yield from _walk(place.inside(child, keyword, name))


def letters_of(schema: Schema, name: str) -> tuple[str, ...]:
    """The texts that may stand in the array property `name` of an object schema, or none."""
    root = SchemaPlace(schema, (), schema)
    found = schema.get("properties", {}).get(name)
    items = root.inside(found).resolved().schema.get("items") if found is not None else None
    options = root.inside(items).resolved().schema.get("enum", ()) if items is not None else ()
    return tuple(options) if all(isinstance(option, str) for option in options) else ()


def sample(schema: Schema, rng: Random, author: Author) -> Any:
    """A value that fits the schema, its texts written by `author`. Raises SchemaError where none can."""
    return _Sampler(rng, author).value(SchemaPlace(schema, (), schema), "")


@dataclass(frozen=True, slots=True)
class _Sampler:
    rng: Random
    author: Author

    def value(self, place: SchemaPlace, name: str) -> Any:
        place = place.resolved()
        schema = place.schema
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        if "anyOf" in schema:
            index = self.rng.randrange(len(schema["anyOf"]))
            return self.value(place.inside(schema["anyOf"][index], "anyOf", str(index)), name)
        match self.rng.choice(place.types()):
            case "object":
                return self._object(place)
            case "array":
                return self._array(place, name)
            case "string":
                low, high = schema.get("minLength", 0), schema.get("maxLength")
                return self.author.text(self.rng, name, int(low), None if high is None else int(high))
            case "integer":
                return _whole(schema, self.rng)
            case "number":
                return _number(schema, self.rng)
            case "boolean":
                return self.rng.random() < 0.5
            case _:
                return None

    def _object(self, place: SchemaPlace) -> dict[str, Any]:
        required = place.schema.get("required", ())
        return {
            name: self.value(place.inside(child, "properties", name), name)
            for name, child in place.schema.get("properties", {}).items()
            if name in required or self.rng.random() < 0.5
        }

    def _array(self, place: SchemaPlace, name: str) -> list[Any]:
        low = int(place.schema.get("minItems", 0))
        high = int(place.schema.get("maxItems", low + _EXTRA_ITEMS))
        count = self.rng.randint(low, min(high, low + _EXTRA_ITEMS))
        items = place.inside(place.schema.get("items", {"type": "string"}), "items")
        letters = items.resolved().schema.get("enum")
        if letters is not None and low <= len(letters):
            chosen = self.rng.sample(range(len(letters)), min(count, len(letters)))
            return [letters[index] for index in sorted(chosen)]
        return [self.value(items, name) for _ in range(count)]


def _bounds(schema: Schema, step: float) -> tuple[int, int]:
    """The inclusive range in units of `step`."""
    lows = [ceil(schema["minimum"] / step)] if "minimum" in schema else []
    highs = [floor(schema["maximum"] / step)] if "maximum" in schema else []
    if "exclusiveMinimum" in schema:
        lows.append(floor(schema["exclusiveMinimum"] / step) + 1)
    if "exclusiveMaximum" in schema:
        highs.append(ceil(schema["exclusiveMaximum"] / step) - 1)
    low = max(lows) if lows else (min(highs) - _RANGE if highs else 0)
    return low, min(highs) if highs else low + _RANGE


def _whole(schema: Schema, rng: Random) -> int:
    step = int(schema.get("multipleOf", 1))
    low, high = _bounds(schema, step)
    if low > high:
        raise SchemaError("No integer lies within the bounds.")
    return rng.randint(low, high) * step


def _number(schema: Schema, rng: Random) -> float:
    step = schema.get("multipleOf", _FINE_STEP)
    low, high = _bounds(schema, step)
    if low <= high:
        return float(rng.randint(low, high) * step)
    least = max(schema.get("minimum", -_RANGE), schema.get("exclusiveMinimum", -_RANGE))
    most = min(schema.get("maximum", _RANGE), schema.get("exclusiveMaximum", _RANGE))
    if "multipleOf" in schema or least > most:
        raise SchemaError("No number lies within the bounds.")
    return float(least + most) / 2
