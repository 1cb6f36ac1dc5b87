"""Rows survive their files, and say what may be missing."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hab_ray.rows import (
    Candidate,
    ChosenTest,
    Embedded,
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
from hab_ray.storage.records import read_table, to_arrow, to_parquet

ROW_TYPES = (Candidate, Validation, Embedded, ChosenTest, Response, Verdict, Score)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text() | st.just("\u2028\x00\r\n\U0001f41d"),
    int: NUMBERS,
    bytes: st.binary(),
    State: st.sampled_from(State),
    tuple[str, ...]: st.lists(st.text()).map(tuple),
    int | None: st.none() | NUMBERS,
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


# The columns that readers outside may rely on: the design's, in its words; a null is allowed where it says so.
COLUMNS = {
    ChosenTest: ("id", "dimension", "prompt", "context", "system", "cluster"),
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
    ),
    Verdict: ("test_id", "subject", "judge", "state", "issues", "assessment", "score", "reason", "reply_key"),
    Score: ("subject", "dimension", "judge", "mean", "low", "high", "n", "excluded", "truncated"),
}
NULLABLE = {"cluster", "score", "mean", "low", "high"}


@pytest.mark.parametrize("row_type", COLUMNS)
def test_the_columns_readers_rely_on_are_there_and_only_the_named_may_be_null(row_type: type[Row]) -> None:
    schema = schema_of(row_type)
    assert set(COLUMNS[row_type]) <= set(schema.names)
    assert {field.name for field in schema if field.nullable} <= NULLABLE


def test_a_column_from_elsewhere_is_passed_over() -> None:
    row = ChosenTest("t", "d", "p", "", "", None)
    table = to_table(ChosenTest, [row]).append_column("note", pa.array(["x"]))
    assert from_table(ChosenTest, table) == [row]
