"""Imported wording: requests as literal pieces and the places where values go, rendered without any template.

A rubric with a `literal` section sends these requests byte for byte, without our fences. An operation such as `dedent`
is applied after the values are in: where a value's lines have no indentation, nothing is taken off the others.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictInt, StringConstraints, model_validator

from hab_ray.inputs.origin import Origin
from hab_ray.rubric.base import RubricPart, Text

ExactText = Annotated[str, StringConstraints(strip_whitespace=False)]


class Value(StrEnum):
    """What goes into a request: the query, its second field, the answer; of a request for queries theme and count.

    `seed` and `number` are those of the seed at hand inside `each`; `seed` with `at` is that of a position.
    """

    PROMPT = "prompt"
    CONTEXT = "context"
    RESPONSE = "response"
    THEME = "theme"
    COUNT = "count"
    SEED = "seed"
    NUMBER = "number"


class Operation(StrEnum):
    """What is done to a text once its values are in."""

    DEDENT = "dedent"
    STRIP = "strip"
    LSTRIP = "lstrip"
    RSTRIP = "rstrip"


class Insert(RubricPart):
    """A value's place. `at`: the position of the seed, from 0."""

    value: Value
    at: Annotated[StrictInt, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _has_a_position(self) -> Insert:
        if self.at is not None and self.value is not Value.SEED:
            raise ValueError("`at` belongs to `value: seed` only; remove it")
        return self


class Apply(RubricPart):
    """An operation on the text that pieces make. `characters`: those that are stripped, as in Python; None = space."""

    apply: Operation
    to: tuple[Piece, ...]
    characters: ExactText | None = None

    @model_validator(mode="after")
    def _dedents_spaces_only(self) -> Apply:
        if self.characters is not None and self.apply is Operation.DEDENT:
            raise ValueError("`characters` does not belong to `apply: dedent`; remove it")
        return self


class Each(RubricPart):
    """The same pieces for every seed shown, with `between` between them; `first` is the number of the first seed."""

    each: tuple[Piece, ...]
    between: ExactText = ""
    first: StrictInt = 1


Piece = ExactText | Insert | Apply | Each


class LiteralRequest(RubricPart):
    """A request: the system prompt, "" = none, and the message of the user."""

    system: ExactText = ""
    user: tuple[Piece, ...] = Field(min_length=1)


class LiteralGeneration(LiteralRequest):
    """The request for queries, and the seeds that it shows some of."""

    seeds: tuple[Annotated[ExactText, Field(min_length=1)], ...]


class LiteralJudging(LiteralRequest):
    """The request for a verdict. `key` is the one under which the reply's JSON object lists letters."""

    key: Text = "issues"


_JUDGED = frozenset({Value.PROMPT, Value.CONTEXT, Value.RESPONSE})
_GENERATED = frozenset({Value.THEME, Value.COUNT, Value.SEED, Value.NUMBER})


class Reading(StrEnum):
    """By which rules replies to imported wording are read: ours, or those of the benchmark's published code."""

    STRICT = "strict"
    PUBLISHED = "published"


_READ = {
    Reading.STRICT: "as replies to this project's own prompts are",
    Reading.PUBLISHED: (
        "as the benchmark's published code reads them: what stands from the first brace to the last counts, an issue "
        "named twice costs twice, an unknown one nothing, and a reply without a list scores 10; one that cannot be "
        "read has no score, and not 0"
    ),
}


class LiteralPrompts(RubricPart):
    """The `literal` section of a rubric. A request that it does not have is made from the other sections."""

    origin: Origin = Field(exclude=True)
    reading: Reading = Field(default=Reading.STRICT, exclude_if=lambda reading: reading is Reading.STRICT)
    generation: LiteralGeneration | None = None
    validation: LiteralRequest | None = None
    judging: LiteralJudging | None = None

    @model_validator(mode="after")
    def _has_what_is_there(self) -> LiteralPrompts:
        for name, request, known, needed in (
            ("generation", self.generation, _GENERATED, set()),
            ("validation", self.validation, _JUDGED - {Value.RESPONSE}, {Value.PROMPT}),
            ("judging", self.judging, _JUDGED, {Value.RESPONSE}),
        ):
            if request is None:
                continue
            used = {insert.value for insert in inserts(request.user)}
            if wrong := used - known:
                raise ValueError(f"{name}: {', '.join(sorted(wrong))} cannot stand there; use {_listed(known)}")
            if lacking := needed - used:
                raise ValueError(f"{name}: has no place for the {_listed(lacking)}; add `value: {_listed(lacking)}`")
        return self


def _listed(values: set[Value] | frozenset[Value]) -> str:
    return ", ".join(sorted(values))


def inserts(pieces: Sequence[Piece]) -> Iterator[Insert]:
    """The places of values in pieces, at any depth."""
    for piece in pieces:
        match piece:
            case Insert():
                yield piece
            case Apply():
                yield from inserts(piece.to)
            case Each():
                yield from inserts(piece.each)


@dataclass(frozen=True)
class LiteralValues:
    """The values of one request; `seeds` are the ones that are shown."""

    prompt: str = ""
    context: str = ""
    response: str = ""
    theme: str = ""
    count: int = 0
    seeds: tuple[str, ...] = ()


def rendered(pieces: Sequence[Piece], values: LiteralValues) -> str:
    """The text that pieces make of values.

    Raises:
        ValueError: they want a seed at a position beyond the seeds shown.
    """
    return "".join(_piece(piece, values, None) for piece in pieces)


def _piece(piece: Piece, values: LiteralValues, at: tuple[int, str] | None) -> str:
    """`at` is number and text of the seed at hand."""
    match piece:
        case str():
            return piece
        case Insert():
            return _inserted(piece, values, at)
        case Apply():
            return applied(piece.apply, piece.characters, "".join(_piece(each, values, at) for each in piece.to))
        case Each():
            shown = enumerate(values.seeds, piece.first)
            return piece.between.join("".join(_piece(part, values, seed) for part in piece.each) for seed in shown)


def _inserted(insert: Insert, values: LiteralValues, at: tuple[int, str] | None) -> str:
    match insert.value:
        case Value.SEED if insert.at is not None:
            if insert.at >= len(values.seeds):
                raise ValueError(f"wants seed {insert.at + 1} of a request, and {len(values.seeds)} are shown")
            return values.seeds[insert.at]
        case Value.SEED | Value.NUMBER:
            if at is None:
                raise ValueError(f"`value: {insert.value}` stands outside of `each`, or needs `at`")
            return at[1] if insert.value is Value.SEED else str(at[0])
        case Value.COUNT:
            return str(values.count)
    return str(getattr(values, insert.value.value))


def applied(operation: Operation, characters: str | None, text: str) -> str:
    """The text after an operation, as Python's function or method of that name gives it."""
    if operation is Operation.DEDENT:
        return textwrap.dedent(text)
    stripped: str = getattr(text, operation.value)(characters)
    return stripped


def imported_note(literal: LiteralPrompts) -> str:
    """What readers of results have to know of imported wording."""
    origin = literal.origin
    canaries = f"; canary {', '.join(origin.canaries)}" if origin.canaries else ""
    return (
        f"The wording is imported from {origin.source} (licence: {origin.licence}{canaries}). Its prompts carry no "
        "fence: an answer that poses as an instruction to the judge is not marked as foreign text. "
        f"Replies to it are read {_READ[literal.reading]} (reading: {literal.reading})."
    )
