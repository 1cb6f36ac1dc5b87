"""JSON schemas of the answers that requests ask for, as far as the model's server enforces them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hab_ray.catalog.models import Model
from hab_ray.stages.prompts.wording import Reasoning

_CHARACTERS_A_TOKEN = 3
_SHORTEST_QUERY = 80
_MAX_ASSESSMENT = 600


def queries_schema(model: Model, fields: Sequence[str], count: int, max_tokens: int) -> str | None:
    """The schema of `count` queries of these fields, which share the tokens of one reply."""
    if not model.entry.json_schema:
        return None
    text: dict[str, Any] = {"type": "string"}
    if "strings" in model.entry.schema_bounds:
        text["minLength"] = _SHORTEST_QUERY
        text["maxLength"] = max(_SHORTEST_QUERY, max_tokens * _CHARACTERS_A_TOKEN // (count * len(fields)))
    queries: dict[str, Any] = {"type": "array", "items": _object(dict.fromkeys(fields, text))}
    if "lists" in model.entry.schema_bounds:
        queries |= {"minItems": count, "maxItems": count}
    return _compact({"queries": queries})


def letters_schema(
    model: Model, key: str, letters: Sequence[str], max_tokens: int, reasoning: Reasoning = Reasoning.BRIEF
) -> str | None:
    """The schema of an assessment, one text or one for each letter, followed by a list of letters under `key`.

    Where the model's server bounds strings a text gets a character a token, so that what follows it fits in as well.
    """
    if not model.entry.json_schema:
        return None
    named: dict[str, Any] = {"type": "array", "items": {"type": "string", "enum": list(letters)}}
    if "lists" in model.entry.schema_bounds:
        named["maxItems"] = len(letters)
    assessment = _text(model, max_tokens)
    if reasoning is Reasoning.PER_ISSUE:
        assessment = _object(dict.fromkeys(letters, _text(model, max(1, max_tokens // len(letters)))))
    return _compact({"assessment": assessment, key: named})


def _text(model: Model, max_tokens: int) -> dict[str, Any]:
    if "strings" in model.entry.schema_bounds:
        return {"type": "string", "maxLength": min(_MAX_ASSESSMENT, max_tokens)}
    return {"type": "string"}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """A strict object schema, its fields in the order given."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _compact(properties: Mapping[str, Any]) -> str:
    return json.dumps(_object(properties), separators=(",", ":"))
