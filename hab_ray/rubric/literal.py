"""Imported wording: requests as literal pieces and insertion points for values, rendered without a template.

A rubric with a `literal` section sends these requests byte for byte, without our fences. `dedent` applies to the text
after values are inserted: if a value's lines are not indented, the other lines keep theirs.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StringConstraints, model_validator

from hab_ray.inputs.origin import Origin

Text = Annotated[str, Field(min_length=1)]


class RubricPart(BaseModel):
    """A part of a rubric file: frozen, refuses unknown keys, strips white space around texts."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


ExactText = Annotated[str, StringConstraints(strip_whitespace=False)]


class Value(StrEnum):
    """What is inserted into a request: the query, its context, the answer; into a request for queries, theme and count.

    Inside `each`, `seed` is the current one; with `at`, the one at that position.
    """

    PROMPT = "prompt"
    CONTEXT = "context"
    RESPONSE = "response"
    THEME = "theme"
    COUNT = "count"
    SEED = "seed"


class Insert(RubricPart):
    """The insertion point of a value. `at`: the position of the seed, from 0."""

    value: Value
    at: Annotated[StrictInt, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _allows_at(self) -> Insert:
        if self.at is not None and self.value is not Value.SEED:
            raise ValueError("`at` belongs to `value: seed` only; remove it")
        return self


class Apply(RubricPart):
    """Pieces whose text is dedented, as by Python's `textwrap.dedent`."""

    apply: Literal["dedent"]
    to: tuple[Piece, ...]
    characters: None = None  # counts in the digests of imported rubrics


class Each(RubricPart):
    """Pieces repeated for every shown seed, joined by `between`."""

    each: tuple[Piece, ...]
    between: ExactText = ""
    first: Literal[1] = 1  # counts in the digests of imported rubrics


Piece = ExactText | Insert | Apply | Each


class LiteralRequest(RubricPart):
    """A request: the system prompt ("" = none) and the user message."""

    system: ExactText = ""
    user: tuple[Piece, ...] = Field(min_length=1)


class LiteralGeneration(LiteralRequest):
    """The request for queries, and the seeds that it draws from."""

    seeds: tuple[Annotated[ExactText, Field(min_length=1)], ...]


class LiteralJudging(LiteralRequest):
    """The request for a verdict. The reply is a JSON object that lists letters under `key`."""

    key: Text = "issues"


_JUDGED = frozenset({Value.PROMPT, Value.CONTEXT, Value.RESPONSE})
_GENERATED = frozenset({Value.THEME, Value.COUNT, Value.SEED})


class Reading(StrEnum):
    """The rules for reading replies to imported wording: ours, or those of the benchmark's published code."""

    STRICT = "strict"
    PUBLISHED = "published"


_READ = {
    Reading.STRICT: "as replies to this project's own prompts are",
    Reading.PUBLISHED: (
        "as the benchmark's published code reads them: the text from the first brace to the last counts, an issue "
        "named twice costs twice, an unknown one nothing, and a reply without a list scores 10; but an unreadable "
        "reply has no score instead of 0"
    ),
}


class LiteralPrompts(RubricPart):
    """The `literal` section of a rubric. A missing request is rendered from the rubric's other sections."""

    origin: Origin = Field(exclude=True)
    reading: Reading = Field(default=Reading.STRICT, exclude_if=lambda reading: reading is Reading.STRICT)
    generation: LiteralGeneration | None = None
    validation: LiteralRequest | None = None
    judging: LiteralJudging | None = None

    @model_validator(mode="after")
    def _inserts_suitable_values(self) -> LiteralPrompts:
        for name, request, allowed, required in (
            ("generation", self.generation, _GENERATED, set()),
            ("validation", self.validation, _JUDGED - {Value.RESPONSE}, {Value.PROMPT}),
            ("judging", self.judging, _JUDGED, {Value.RESPONSE}),
        ):
            if request is None:
                continue
            used = {insert.value for insert in inserts(request.user)}
            if wrong := ", ".join(sorted(used - allowed)):
                raise ValueError(f"{name}: {wrong} cannot be inserted there; use {', '.join(sorted(allowed))}")
            if missing := ", ".join(sorted(required - used)):
                raise ValueError(f"{name}: has no place for the {missing}; add `value: {missing}`")
        return self


def inserts(pieces: Sequence[Piece]) -> Iterator[Insert]:
    """Yield the insertion points in pieces, at any depth."""
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
    """The values of one request; `seeds` are the seeds that it shows."""

    prompt: str = ""
    context: str = ""
    response: str = ""
    theme: str = ""
    count: int = 0
    seeds: tuple[str, ...] = ()


def rendered(pieces: Sequence[Piece], values: LiteralValues, seed: str | None = None) -> str:
    """Render pieces with values; `seed` is the current seed inside `each`.

    Raises:
        ValueError: a piece inserts a seed that is not shown, or one outside `each` without `at`.
    """
    return "".join(_rendered_piece(piece, values, seed) for piece in pieces)


def _rendered_piece(piece: Piece, values: LiteralValues, seed: str | None) -> str:
    match piece:
        case str():
            return piece
        case Insert():
            return _inserted(piece, values, seed)
        case Apply():
            return textwrap.dedent(rendered(piece.to, values, seed))
        case Each():
            return piece.between.join(rendered(piece.each, values, shown) for shown in values.seeds)


def _inserted(insert: Insert, values: LiteralValues, seed: str | None) -> str:
    match insert.value:
        case Value.SEED if insert.at is not None:
            if insert.at >= len(values.seeds):
                raise ValueError(f"wants seed {insert.at + 1} of a request, but {len(values.seeds)} are shown")
            return values.seeds[insert.at]
        case Value.SEED:
            if seed is None:
                raise ValueError("`value: seed` is outside of `each`, or needs `at`")
            return seed
    return str(getattr(values, insert.value.value))


def imported_note(literal: LiteralPrompts) -> str:
    """Return the caveats of imported wording for readers of results."""
    origin = literal.origin
    canaries = f"; canary {', '.join(origin.canaries)}" if origin.canaries else ""
    return (
        f"The wording is imported from {origin.source} (licence: {origin.licence}{canaries}). Its prompts carry no "
        "fence: an answer that poses as an instruction to the judge is not marked as foreign text. "
        f"Replies to it are read {_READ[literal.reading]} (reading: {literal.reading})."
    )
