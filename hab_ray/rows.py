"""The rows that pass between stages, and the Arrow schemas of their files.

Rows whose state is not `ok` are data too: they stay in their file with a reason, and are excluded from all means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from enum import StrEnum
from functools import cache, lru_cache
from hashlib import sha256
from types import NoneType, UnionType
from typing import Any, ClassVar, Protocol, TypeVar, get_args, get_type_hints

import pyarrow as pa


class State(StrEnum):
    """The state of a row."""

    OK = "ok"
    EMPTY = "empty"
    BLOCKED = "blocked"
    SUBSTITUTED = "substituted"
    UNREADABLE = "unreadable"
    REJECTED = "rejected"
    FAILED = "failed"


class Rater(StrEnum):
    """The kind of rater: a model of this run, a person, or the source of published verdicts."""

    MODEL = "model"
    PERSON = "person"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A generated user query. `context` is the rubric's second field, if it has one.

    The id is the position in the run's generation; a test made from the candidate has another id.
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
    """A candidate's embedding, for selection; kept in the store, not in the run folder."""

    candidate_id: str
    dimension: str
    state: State
    vector: bytes
    reason: str
    reply_key: str


@dataclass(frozen=True, slots=True)
class ChosenTest:
    """A test as subjects get it: a chosen candidate or a given test, whose `cluster` is null.

    The id is that of `id_of_test`, unless a file of tests gives another. Tests with the same `call` come from one
    generation call, so they are not independent. It is null if the test was not generated, or was chosen by a version
    that did not keep it. It is in no key.
    """

    id: str
    dimension: str
    prompt: str
    context: str
    system: str
    cluster: int | None
    call: str | None = None

    @property
    def own_call(self) -> str:
        """The generation call, or the test's id if none is known: such a test counts as independent."""
        return self.call or self.id


def id_of_test(dimension: str, prompt: str, context: str) -> str:
    """Return the id of a test, a hash of its content: tests of different runs with equal ids are the same test."""
    digest = sha256(f"{prompt}\n{context}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{dimension}-{digest[:12]}"


@dataclass(frozen=True, slots=True)
class Paraphrase:
    """A paraphrase of a test. `of` is the test's id or prompt."""

    of: str
    dimension: str
    prompt: str
    context: str


@dataclass(frozen=True, slots=True)
class Response:
    """A subject's answer to a test. `settings` are the parameters sent, as JSON text.

    The sha256 digests are those in the run's sweep.yaml: of the dimension's rubric, of the prompts, and of the
    subject's entry. Tokens, cost and latency are those of the call. Rows from before these fields existed, or from
    other sources, have no digests, tokens, cost and latency.
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
    """One rater's issues and score (0..10, null unless `ok`) for one response, in replicate number `replicate`.

    Judges give whole scores; scores of people and earlier studies may be fractions if converted from another scale.

    `issues` is empty if there are none, and null if they are unknown, because the rater gave only a score or the reply
    could not be read. Digests, tokens, cost and latency are as in a response. `at` is when a model's reply arrived
    (ISO 8601, UTC); null if unknown.

    `reading` says how a reply to imported wording was read (`hab_ray.rubric.Reading`); "" for other replies.
    `other_score` is the score of the first reply under the other reading, or null. Under `published`, a letter that
    was named twice appears twice in `issues` and counts twice, and a reply without a list scores 10 with null `issues`.
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
    """A repeated verdict by the same judge on the same answer, to detect changes of the judge.

    `repeat` counts the repetitions from 1. `before` is the score (0..10) of the judge's first verdict, and `before_at`
    its time. The other fields are as in a verdict.
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
    """A view of a rater's verdicts from given files, and its digest, which is "" while the view is being written."""

    file: str
    rater: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Score:
    """A mean score, 0..1, with its 95 % confidence interval; `judge` may be "panel", `dimension` "overall".

    `n` counts the verdicts in the mean, `excluded` the rows that are not, and `truncated` the verdicts on truncated
    answers. `calls` counts the generation calls that the tests come from; a test that was not generated counts as one.
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
    """The difference between a judge's scores and those of an earlier study's judge (`rater`) for the same answers.

    `dimension` may be "overall". Scores are 0..1. A judge's score of an answer is the mean of its readable replicates,
    a test's score is the mean of its answers, and `now`, `then` and the difference with its 95 % confidence interval
    are means over tests. `readings` counts our verdicts on answers that the earlier study scored, and `equal` is the
    share of them with the same score. Of the earlier study's rows, `no_answer` are not answers, `failed_then` lack a
    score there, and `failed_now` lack one of ours.
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
    """How often a judge and an earlier study's judge name an issue, over our readings for which both named issues.

    `kappa` is Cohen's kappa; null if the agreement expected by chance is 1, as when neither ever names the issue.
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
    """The score (0..1) that an earlier study's judge gives, by isotonic regression, where a judge gives `score`.

    Its answers are all that the judge has scored, of those subjects that the earlier judge has scored in the dimension.

    `answers` counts the answers with this score. A null `score` stands for the mean of the map over all answers. The
    95 % confidence interval is from a bootstrap over generation calls, null if a dimension has a single one. The map is
    valid for these answers only.
    """

    judge: str
    rater: str
    score: float | None
    answers: int
    mapped: float
    low: float | None
    high: float | None


class Row(Protocol):
    """A dataclass with fields of the types in `_ARROW`, or unions of these with None."""

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
    if kind not in _ARROW:
        raise TypeError(f"{name}: {kind} is not a type of a row, as are {', '.join(one.__name__ for one in _ARROW)}")
    return pa.field(name, _ARROW[kind], nullable=is_nullable)


@cache
def schema_of(row_type: type[Row]) -> pa.Schema:
    """Return the Arrow schema of a row type, from its annotations: only `X | None` is nullable."""
    hints = get_type_hints(row_type)
    return pa.schema([_arrow_field(f.name, hints[f.name]) for f in fields(row_type)])


def to_table(row_type: type[R], rows: list[R]) -> pa.Table:
    """Return rows as an Arrow table in the given order.

    Raises:
        TypeError: a row, or a value in it, is not of its type.
    """
    schema = schema_of(row_type)
    for row in rows:
        if not isinstance(row, row_type):
            raise TypeError(f"a row is a {type(row).__name__}, not a {row_type.__name__}")
    arrays = []
    for field in schema:
        values = [getattr(row, field.name) for row in rows]
        try:
            arrays.append(pa.array(values, field.type))
        except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
            raise TypeError(f"{row_type.__name__}.{field.name}: {error}") from error
        if field.type == pa.int64() and arrays[-1].to_pylist() != values:  # Arrow cuts off what follows the point
            raise TypeError(f"{row_type.__name__}.{field.name}: a value is no whole number")
    return pa.Table.from_arrays(arrays, schema=schema)


def with_all_columns(row_type: type[Row], table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return these columns of a table; columns newer than the table have the field's default value.

    Raises:
        KeyError: the table lacks a column without a default.
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
    """Return the rows of a table of `to_table`, of any earlier version too; unknown columns are ignored."""
    table = with_all_columns(row_type, table, schema_of(row_type).names)
    enums = _enums_of(row_type)
    columns = [_values(name, table.column(name).to_pylist(), enums.get(name)) for name in table.column_names]
    return list(map(row_type, *columns))


@cache
def _enums_of(row_type: type[Row]) -> Mapping[str, type[StrEnum]]:
    hints = get_type_hints(row_type)
    return {name: enum for name, enum in ENUMS.items() if hints.get(name) is enum}


def _values(name: str, values: list[Any], enum: type[StrEnum] | None) -> list[Any]:
    """Convert a column's values to the types of its rows, sharing repeated strings to save memory."""
    if enum is not None:
        members = {value: enum(value) for value in set(values)}
        return [members[value] for value in values]
    if name in _REPEATED:
        return list(map(_shared, values))
    holds_lists = any(isinstance(value, list) for value in values)
    return [None if value is None else tuple(value) for value in values] if holds_lists else values


_shared = lru_cache(maxsize=1024)(str)
