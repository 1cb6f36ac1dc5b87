"""JSON schemas of the requested answers, with the bounds that the model's server enforces."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hab_ray.catalog.models import Model
from hab_ray.stages.prompts.wording import Reasoning

_CHARACTERS_PER_TOKEN = 3
_MIN_QUERY_CHARACTERS = 80
_MAX_ASSESSMENT_CHARACTERS = 600


def queries_schema(model: Model, fields: Sequence[str], count: int, max_tokens: int) -> str | None:
    """Return the schema of `count` queries with these fields, which share the tokens of one reply.

    None if the model's server enforces no schemas.
    """
    if not model.entry.json_schema:
        return None
    text: dict[str, Any] = {"type": "string"}
    if "strings" in model.entry.schema_bounds:
        share = max_tokens * _CHARACTERS_PER_TOKEN // (count * len(fields))
        text |= {"minLength": _MIN_QUERY_CHARACTERS, "maxLength": max(_MIN_QUERY_CHARACTERS, share)}
    queries: dict[str, Any] = {"type": "array", "items": _object(dict.fromkeys(fields, text))}
    if "lists" in model.entry.schema_bounds:
        queries |= {"minItems": count, "maxItems": count}
    return _compact({"queries": queries})


def letters_schema(
    model: Model, key: str, letters: Sequence[str], max_tokens: int, reasoning: Reasoning = Reasoning.BRIEF
) -> str | None:
    """Return the schema of an assessment (one text, or one per letter) and then a list of letters under `key`.

    None if the model's server enforces no schemas. If it bounds strings, assessments together get one character per
    token, so that the letters fit into the reply as well.
    """
    if not model.entry.json_schema:
        return None
    listed: dict[str, Any] = {"type": "array", "items": {"type": "string", "enum": list(letters)}}
    if "lists" in model.entry.schema_bounds:
        listed["maxItems"] = len(letters)
    assessment = _text(model, max_tokens)
    if reasoning is Reasoning.PER_ISSUE:
        assessment = _object(dict.fromkeys(letters, _text(model, max(1, max_tokens // len(letters)))))
    return _compact({"assessment": assessment, key: listed})


def _text(model: Model, max_tokens: int) -> dict[str, Any]:
    if "strings" in model.entry.schema_bounds:
        return {"type": "string", "maxLength": min(_MAX_ASSESSMENT_CHARACTERS, max_tokens)}
    return {"type": "string"}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _compact(properties: Mapping[str, Any]) -> str:
    return json.dumps(_object(properties), separators=(",", ":"))
