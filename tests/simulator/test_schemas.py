"""Structured answers fit any schema, and strict mode refuses what the vendors refuse."""

from random import Random
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hab_simulator.schemas import ANTHROPIC, LENIENT, OPENAI_STRICT, SchemaError, check, letters_of, sample
from hab_simulator.truth.prose import Author, QueryAuthor
from tests.simulator.batches import closed

NAMES = st.sampled_from(["prompt", "context", "issues", "assessment", "n", "score", "a", "b"])


def _texts() -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(st.integers(0, 300), st.integers(0, 600)).map(
        lambda pair: {"type": "string", "minLength": pair[0], "maxLength": pair[0] + pair[1]}
    )


LEAVES = st.one_of(
    st.sampled_from([{"type": kind} for kind in ("string", "boolean", "number", "integer")]),
    st.lists(st.sampled_from("ABCDEF"), min_size=1, unique=True).map(lambda v: {"type": "string", "enum": v}),
    _texts(),
)


def _array(parts: tuple[dict[str, Any], int, int]) -> dict[str, Any]:
    items, low, more = parts
    return {"type": "array", "items": items, "minItems": low, "maxItems": low + more}


SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(NAMES, inner, max_size=4).map(lambda properties: closed(**properties)),
        st.tuples(inner, st.integers(0, 3), st.integers(0, 3)).map(_array),
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=SCHEMAS, seed=st.integers(0, 2**32), marked=st.booleans())
def test_samples_fit_any_schema(schema: dict[str, Any], seed: int, marked: bool) -> None:
    whole = closed(answer=schema)
    check(whole, LENIENT)
    author = QueryAuthor("[[hab-query:d:00000000]]") if marked else Author()
    jsonschema.Draft202012Validator(whole).validate(sample(whole, Random(seed), author))


def test_a_context_fits_a_bound_of_no_characters_after_a_prompt() -> None:
    schema = closed(prompt={"type": "string"}, context={"type": "string", "maxLength": 0})
    assert sample(schema, Random(0), QueryAuthor("[[hab-query:d:00000000]]"))["context"] == ""


def test_optional_properties_come_and_go() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": []}
    seen = {tuple(sample(schema, Random(seed), Author())) for seed in range(20)}
    assert seen == {(), ("a",)}


def test_letters_are_distinct_and_within_the_array_bounds() -> None:
    schema = closed(issues={"type": "array", "maxItems": 2, "items": {"type": "string", "enum": list("ABCD")}})
    assert letters_of(schema, "issues") == ("A", "B", "C", "D")
    drawn = [sample(schema, Random(seed), Author())["issues"] for seed in range(50)]
    assert all(len(set(letters)) == len(letters) <= 2 for letters in drawn)
    assert len({tuple(letters) for letters in drawn}) > 5


OPEN = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("dialect", "schema", "words"),
    [
        (OPENAI_STRICT, OPEN, "additionalProperties"),
        (ANTHROPIC, OPEN, "additionalProperties"),
        (OPENAI_STRICT, closed(a={"type": "string"}) | {"required": []}, "Missing 'a'"),
        (OPENAI_STRICT, closed(a={"type": "string", "maxLength": 9}), "'maxLength' is not permitted"),
        (ANTHROPIC, closed(a={"type": "string", "minLength": 9}), "'minLength' is not permitted"),
        (ANTHROPIC, closed(a={"type": "array", "items": {"type": "string"}, "maxItems": 2}), "'maxItems' is not"),
        (ANTHROPIC, closed(a={"type": "array", "items": {"type": "string"}, "minItems": 2}), "values above 1"),
        (LENIENT, {"type": "string", "pattern": "a+"}, "'pattern' is not permitted"),
        (LENIENT, {"type": "text"}, "'text' is not a valid type"),
        (LENIENT, {"description": "nothing"}, "must have a 'type'"),
        (LENIENT, {"type": ["string", "null"]}, "is not a valid type"),
        (LENIENT, {"type": "array", "items": []}, "must be an object"),
        (LENIENT, {"type": "integer", "minimum": 3}, "'minimum' is not permitted"),
        (LENIENT, {"type": "array", "minItems": 3, "maxItems": 2}, "'minItems' is above"),
        (LENIENT, {"type": "string", "minLength": 3, "maxLength": 2}, "'minLength' is above"),
        (LENIENT, {"type": "string", "enum": []}, "'enum' must not be empty"),
        (LENIENT, closed(a={"type": "string", "allOf": []}), "'allOf' is not permitted"),
    ],
)
def test_refused_schemas(dialect: Any, schema: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        check(schema, dialect)
