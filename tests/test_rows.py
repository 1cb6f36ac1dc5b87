"""Rows survive their files, and say what may be missing."""

from dataclasses import MISSING, fields, replace
from typing import Any, get_type_hints

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hab_ray.analysis.signs.finding import Finding
from hab_ray.rows import (
    Candidate,
    ChosenTest,
    Embedded,
    Rater,
    Rejudged,
    Response,
    Row,
    Score,
    State,
    Validation,
    Verdict,
    from_table,
    schema_of,
    to_table,
)
from hab_ray.storage.replies.records import read_table, to_arrow, to_parquet

ROW_TYPES = (Candidate, Validation, Embedded, ChosenTest, Response, Verdict, Rejudged, Score)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text() | st.just("\u2028\x00\r\n\U0001f41d"),
    int: NUMBERS,
    bytes: st.binary(),
    State: st.sampled_from(State),
    Rater: st.sampled_from(Rater),
    tuple[str, ...]: st.lists(st.text()).map(tuple),
    tuple[str, ...] | None: st.none() | st.lists(st.text()).map(tuple),
    str | None: st.none() | st.text(),
    int | None: st.none() | NUMBERS,
    float: st.floats(allow_nan=False),
    float | None: st.none() | st.floats(allow_nan=False),
}


def rows_of(row_type: type[Row]) -> st.SearchStrategy[list[Any]]:
    hints = get_type_hints(row_type)
    return st.lists(st.builds(row_type, **{f.name: VALUES[hints[f.name]] for f in fields(row_type)}), max_size=4)


@pytest.mark.parametrize("row_type", ROW_TYPES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_rows_come_back_equal_from_either_file(row_type: type[Any], data: st.DataObject) -> None:
    rows = data.draw(rows_of(row_type))
    table = to_table(row_type, rows)
    for name, content in (("x.parquet", to_parquet(table)), ("x.arrow", to_arrow(table))):
        found = from_table(row_type, read_table(name, content))
        assert found == rows
        assert [type(getattr(row, "state", State.OK)) for row in found] == [State] * len(rows)


TOOK = ("input_tokens", "output_tokens", "cost_nanousd", "latency_s")
MADE_BY = ("rubric_sha256", "prompts_sha256", "settings_sha256", *TOOK)

# The columns that readers outside may rely on: the design's, in its words; a null is allowed where it says so.
COLUMNS = {
    ChosenTest: ("id", "dimension", "prompt", "context", "system", "cluster", "call"),
    Response: (
        "test_id",
        "subject",
        "state",
        "text",
        "finish",
        "settings",
        "model_reported",
        "served_by",
        "reply_key",
        *MADE_BY,
    ),
    Verdict: (
        "test_id",
        "subject",
        "judge",
        "kind",
        "replicate",
        "state",
        "issues",
        "assessment",
        "score",
        "reason",
        "model_reported",
        "reply_key",
        *MADE_BY,
    ),
    Score: ("subject", "dimension", "judge", "mean", "low", "high", "n", "excluded", "truncated"),
}
NULLABLE = {"cluster", "call", "score", "issues", "mean", "low", "high", "other_score", "at", *TOOK}


@pytest.mark.parametrize("row_type", COLUMNS)
def test_the_columns_readers_rely_on_are_there_and_only_the_named_may_be_null(row_type: type[Row]) -> None:
    schema = schema_of(row_type)
    assert set(COLUMNS[row_type]) <= set(schema.names)
    assert {field.name for field in schema if field.nullable} <= NULLABLE


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [("reply_key", 9, ".*int"), ("score", 0.5, "a value is no whole number")],
)
def test_a_value_of_another_type_is_named_with_its_column(column: str, value: Any, told: str) -> None:
    row = replace(Validation("c", "d", State.OK, None, (), "", "k"), **{column: value})
    with pytest.raises(TypeError, match=rf"Validation\.{column}: {told}"):
        to_table(Validation, [row, replace(row, reply_key="k", score=7)])


def test_a_column_from_elsewhere_is_passed_over() -> None:
    row = ChosenTest("t", "d", "p", "", "", None)
    table = to_table(ChosenTest, [row]).append_column("note", pa.array(["x"]))
    assert from_table(ChosenTest, table) == [row]


def test_a_column_is_what_its_row_type_says_whatever_another_calls_so() -> None:
    """`kind` is who rates in a verdict, and a sign of trouble in a finding."""
    row = Finding("missing", 2, "title", "detail", "remedy")
    assert from_table(Finding, to_table(Finding, [row])) == [row]


@pytest.mark.parametrize(
    "row",
    [
        Response("t", "d", "s", 0, State.OK, "x", "ok", "{}", "m", "", "", "k", "1", "2", "3", 4, 5, 6, 0.7),
        Verdict("t", "d", "s", 0, "j", State.OK, ("A",), "", 7, 1, "", "k", Rater.PERSON, 1, "m", "1", "2", "3", 4, 5),
    ],
)
def test_rows_of_an_earlier_version_lack_what_came_later(row: Any) -> None:
    later = {field.name: field.default for field in fields(row) if field.default is not MISSING}
    assert set(MADE_BY) <= set(later)
    (found,) = from_table(type(row), to_table(type(row), [row]).drop_columns(list(later)))
    assert found == replace(row, **later)


def test_a_column_that_every_version_had_may_not_be_missing() -> None:
    table = to_table(ChosenTest, [ChosenTest("t", "d", "p", "", "", None)]).drop_columns(["prompt"])
    with pytest.raises(KeyError, match="prompt"):
        from_table(ChosenTest, table)
