"""The rows that pass between stages, and the Arrow schemas of the files they are kept in.

A row whose state is not `ok` is data: it stays in its file with its reason and enters no mean.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, fields
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar, get_args, get_type_hints

import pyarrow as pa


class State(StrEnum):
    """What became of a row."""

    OK = "ok"
    EMPTY = "empty"
    BLOCKED = "blocked"
    SUBSTITUTED = "substituted"
    UNREADABLE = "unreadable"
    REJECTED = "rejected"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A simulated user query as generated. `context` is the rubric's second field, where it has one."""

    id: str
    dimension: str
    state: State
    prompt: str
    context: str
    theme: str
    reason: str
    reply_key: str


@dataclass(frozen=True, slots=True)
class Validation:
    """A candidate's quality score: 1000 minus the named deductions, never below 0; null unless `ok`."""

    candidate_id: str
    dimension: str
    state: State
    score: int | None
    deductions: tuple[str, ...]
    reason: str
    reply_key: str


@dataclass(frozen=True, slots=True)
class Embedded:
    """A candidate's vector, on its way to selection; kept in the store, not in the run folder."""

    candidate_id: str
    dimension: str
    state: State
    vector: bytes
    reason: str
    reply_key: str


@dataclass(frozen=True, slots=True)
class ChosenTest:
    """A candidate chosen for the benchmark, as a subject is asked it. `cluster` is null for given tests."""

    id: str
    dimension: str
    prompt: str
    context: str
    system: str
    cluster: int | None


@dataclass(frozen=True, slots=True)
class Response:
    """What a subject answered to a test. `settings` are the parameters sent, as JSON text."""

    test_id: str
    dimension: str
    subject: str
    sample: int
    state: State
    text: str
    finish: str
    settings: str
    model_reported: str
    served_by: str
    reason: str
    reply_key: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judge's issues and score (0..10, null unless `ok`) on one response."""

    test_id: str
    dimension: str
    subject: str
    sample: int
    judge: str
    state: State
    issues: tuple[str, ...]
    assessment: str
    score: int | None
    asks: int
    reason: str
    reply_key: str


@dataclass(frozen=True, slots=True)
class Score:
    """The mean of one cell, 0..1, with its 95 % interval; `judge` may be "panel", `dimension` "overall".

    `n` counts the verdicts in the mean, `excluded` the rows in no mean, `truncated` those judged although cut.
    """

    subject: str
    dimension: str
    judge: str
    mean: float | None
    low: float | None
    high: float | None
    n: int
    excluded: int
    truncated: int


class Row(Protocol):
    """A dataclass of the types that `_ARROW` knows, lists of strings, or either with None."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


R = TypeVar("R", bound=Row)

_ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bytes: pa.binary(), State: pa.string()}


def _arrow_field(name: str, hint: Any) -> pa.Field:
    options = [a for a in get_args(hint) if a is not type(None)]
    if hint == tuple[str, ...]:
        return pa.field(name, pa.list_(pa.string()), nullable=False)
    if options:
        return pa.field(name, _ARROW[options[0]], nullable=True)
    return pa.field(name, _ARROW[hint], nullable=False)


@cache
def schema_of(row_type: type[Row]) -> pa.Schema:
    """The Arrow schema of a row type, from its annotations: `X | None` is nullable, all else is not."""
    hints = get_type_hints(row_type)
    return pa.schema([_arrow_field(f.name, hints[f.name]) for f in fields(row_type)])


def to_table(row_type: type[R], rows: list[R]) -> pa.Table:
    """Rows as one Arrow table in the given order."""
    schema = schema_of(row_type)
    columns = [[getattr(r, name) for r in rows] for name in schema.names]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def from_table(row_type: type[R], table: pa.Table) -> list[R]:
    """The rows of a table that `to_table` made; columns it does not know are ignored."""
    known = table.select(schema_of(row_type).names)
    columns = [_revived(name, known.column(name).to_pylist()) for name in known.column_names]
    return list(map(row_type, *columns))


def _revived(name: str, values: list[Any]) -> list[Any]:
    """A column's values as its rows have them."""
    if name == "state":
        states = {value: State(value) for value in set(values)}
        return [states[value] for value in values]
    return [tuple(value) for value in values] if values and isinstance(values[0], list) else values
