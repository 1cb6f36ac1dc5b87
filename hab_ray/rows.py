"""The rows that pass between stages, and the Arrow schemas of the files they are kept in.

A row whose state is not `ok` is data: it stays in its file with its reason and enters no mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from enum import StrEnum
from functools import cache, lru_cache
from hashlib import sha256
from types import NoneType, UnionType
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


class Rater(StrEnum):
    """Who read an answer: a model that this project asked, a person, or whoever stands behind published verdicts."""

    MODEL = "model"
    PERSON = "person"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A simulated user query as generated. `context` is the rubric's second field, where it has one.

    The id is its place in the generation of its run; a test made of it has an id of its own.
    """

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
    """A candidate chosen for the benchmark, as a subject is asked it. `cluster` is null for given tests.

    The id is `id_of_test`'s, unless a file of tests gives another.
    """

    id: str
    dimension: str
    prompt: str
    context: str
    system: str
    cluster: int | None


def id_of_test(dimension: str, prompt: str, context: str) -> str:
    """The id of a test, made of what it says: tests of several runs with equal ids are the same test."""
    digest = sha256(f"{prompt}\n{context}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{dimension}-{digest[:12]}"


@dataclass(frozen=True, slots=True)
class Paraphrase:
    """A test in other words. `of` is the id of the test, or its prompt."""

    of: str
    dimension: str
    prompt: str
    context: str


@dataclass(frozen=True, slots=True)
class Response:
    """What a subject answered to a test. `settings` are the parameters sent, as JSON text.

    The sha256 digests are those of the run's sweep.yaml: of the dimension's rubric, of the prompts, and of the
    subject's entry. Tokens, cost and seconds are those of the call that it was read from; a row has none of
    these and no digest where it was made before rows had them, or elsewhere.
    """

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
    rubric_sha256: str = ""
    prompts_sha256: str = ""
    settings_sha256: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_nanousd: int | None = None
    latency_s: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rater's issues and score (0..10, null unless `ok`) on one response, when asked for the `replicate`-th time.

    Scores of judges are whole; those of people and earlier studies need not be, where they come from another scale.

    `issues` is null where the issues are not known, as where a rater was asked for a score alone or a reply could not
    be read; it is empty where there are none. Digests, tokens, cost and seconds are as in a response; `at` is when a
    model's reply came, in UTC as ISO 8601 has it, null where that is not known.

    `reading` is how a reply to imported wording was read (`hab_ray.rubric.Reading`), "" for any other, and
    `other_score` what the other reading finds in the first reply, null where nothing. Under `published` a letter that
    was named twice stands twice in `issues` and costs twice, and a reply without a list scores 10, `issues` null.
    """

    test_id: str
    dimension: str
    subject: str
    sample: int
    judge: str
    state: State
    issues: tuple[str, ...] | None
    assessment: str
    score: float | None
    asks: int
    reason: str
    reply_key: str
    kind: Rater = Rater.MODEL
    replicate: int = 0
    model_reported: str = ""
    rubric_sha256: str = ""
    prompts_sha256: str = ""
    settings_sha256: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_nanousd: int | None = None
    latency_s: float | None = None
    reading: str = ""
    other_score: int | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Rejudged:
    """A verdict by the same judge on an answer that it had judged before, to see whether the judge has changed.

    `repeat` counts from 1 how often that was done; `before` and `before_at` are the score (0..10) of the judge's first
    verdict and when it came, the rest is as in a verdict.
    """

    test_id: str
    dimension: str
    subject: str
    sample: int
    judge: str
    repeat: int
    state: State
    before: float
    before_at: str | None
    score: float | None
    at: str | None
    issues: tuple[str, ...] | None
    assessment: str
    reason: str
    reply_key: str
    model_reported: str
    input_tokens: int | None
    output_tokens: int | None
    cost_nanousd: int | None


@dataclass(frozen=True, slots=True)
class RaterView:
    """A view of a rater's verdicts that were given in files: its file and digest, which is "" while it is written."""

    file: str
    rater: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Score:
    """The mean of one cell, 0..1, with its 95 % interval; `judge` may be "panel", `dimension` "overall".

    `n` counts the verdicts in the mean, `excluded` the rows in no mean, `truncated` those judged although cut, `calls`
    the generation calls that its tests come from (a test that was not generated counts as one).
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
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Shift:
    """How much higher a judge scores the same answers than an earlier study's judge (`rater`) did, all from 0 to 1.

    `dimension` may be "overall". The means, and their difference with its 95 % interval, are over tests, each of which
    is the mean of its answers; a judge's score of an answer is that of its readable replicates. `readings` counts
    verdicts of ours on answers with a score of then, `equal` is the share of them with that very score. Of what the
    earlier study holds, `no_answer` was no answer, `failed_then` has no score of its own, `failed_now` none of ours.
    """

    judge: str
    rater: str
    dimension: str
    tests: int
    answers: int
    now: float | None
    then: float | None
    difference: float | None
    low: float | None
    high: float | None
    readings: int
    equal: float | None
    no_answer: int
    failed_then: int
    failed_now: int


@dataclass(frozen=True, slots=True)
class IssueShift:
    """How often a judge and an earlier study's name an issue, over the readings of ours where both named issues.

    `kappa` is Cohen's; null where chance alone would agree, as where neither ever names it.
    """

    judge: str
    rater: str
    dimension: str
    issue: str
    readings: int
    now: int
    then: int
    kappa: float | None


@dataclass(frozen=True, slots=True)
class ScoreMap:
    """What an earlier study's judge gave to answers that a judge scores `score` (0..1), by isotonic regression.

    Without a `score`: the mean that all these answers have by the map. `answers` have this score; the interval is a
    95 % one by a bootstrap over tests. It is valid for these answers only.
    """

    judge: str
    rater: str
    score: float | None
    answers: int
    mapped: float
    low: float | None
    high: float | None


class Row(Protocol):
    """A dataclass of the types that `_ARROW` knows, lists of strings, or either with None."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


R = TypeVar("R", bound=Row)

_ARROW = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    State: pa.string(),
    Rater: pa.string(),
    tuple[str, ...]: pa.list_(pa.string()),
}
ENUMS: Mapping[str, type[StrEnum]] = {"state": State, "kind": Rater}
_REPEATED = ("rubric_sha256", "prompts_sha256", "settings_sha256", "model_reported", "reading")


def _arrow_field(name: str, hint: Any) -> pa.Field:
    is_nullable = isinstance(hint, UnionType)
    kind = next(option for option in get_args(hint) if option is not NoneType) if is_nullable else hint
    return pa.field(name, _ARROW[kind], nullable=is_nullable)


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


def with_all_columns(row_type: type[Row], table: pa.Table, names: Sequence[str]) -> pa.Table:
    """These columns of a table; those that rows got after it was written have the value that rows have by default.

    Raises:
        KeyError: it lacks another column.
    """
    schema, defaults = schema_of(row_type), {field.name: field.default for field in fields(row_type)}
    for name in names:
        if name not in table.column_names:
            if defaults[name] is MISSING:
                raise KeyError(name)
            column = schema.field(name)
            table = table.append_column(column, pa.repeat(pa.scalar(defaults[name], column.type), table.num_rows))
    return table.select(list(names))


def from_table(row_type: type[R], table: pa.Table) -> list[R]:
    """The rows of a table that `to_table` made, also in an earlier version; columns it does not know are ignored."""
    known = with_all_columns(row_type, table, schema_of(row_type).names)
    enums = _enums_of(row_type)
    columns = [_revived(name, known.column(name).to_pylist(), enums.get(name)) for name in known.column_names]
    return list(map(row_type, *columns))


@cache
def _enums_of(row_type: type[Row]) -> Mapping[str, type[StrEnum]]:
    hints = get_type_hints(row_type)
    return {name: enum for name, enum in ENUMS.items() if hints.get(name) is enum}


def _revived(name: str, values: list[Any], enum: type[StrEnum] | None) -> list[Any]:
    """A column's values as its rows have them; those that many rows share are held once."""
    if enum is not None:
        members = {value: enum(value) for value in set(values)}
        return [members[value] for value in values]
    if name in _REPEATED:
        return [_one_of(value) for value in values]
    holds_lists = any(isinstance(value, list) for value in values)
    return [None if value is None else tuple(value) for value in values] if holds_lists else values


_one_of = lru_cache(maxsize=1024)(str)
