"""What expressions of prompt-building code stand for, when the values they are given are not known yet.

What is known is itself: texts, numbers, None, lists, tuples and dicts. A text in which a value is missing is an
`OpenText`: the pieces that a rubric's `literal` section is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hab_ray.rubric import Apply, Each, Insert, Operation, Piece, Value
from hab_ray.rubric.literal import applied

MOST_CHARACTERS = 1 << 20


class NotUnderstood(Exception):
    """An expression cannot be followed; the message is the cause and what is expected, as clauses."""


@dataclass(frozen=True)
class OpenText:
    """A text with places for values."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Seeds:
    """The seeds that a request shows: a list whose members are not known yet."""


@dataclass(frozen=True)
class ThemeList:
    """All themes, one of which is drawn for a request."""


@dataclass
class Loop:
    """One passage through the seeds; `first` is the number that the code gives to the first of them."""

    first: int | None = None


@dataclass(frozen=True)
class Number:
    """The number of the seed at hand in a loop, counted from `start`."""

    loop: Loop
    start: int


@dataclass(frozen=True)
class Numbered:
    """The seeds, each with its number counted from `start`; `numbers_only`: their numbers alone, as of `range`."""

    start: int = 0
    numbers_only: bool = False


@dataclass(frozen=True)
class NumberOfSeeds:
    """How many seeds are shown."""


@dataclass(frozen=True)
class SeedTexts:
    """A list with one text for each seed."""

    each: Each


def joined(parts: Sequence[Any]) -> str | OpenText:
    """Texts one behind another.

    Raises:
        NotUnderstood: they are longer than `MOST_CHARACTERS`.
    """
    pieces: list[Piece] = []
    for part in parts:
        for piece in part.pieces if isinstance(part, OpenText) else (part,):
            if isinstance(piece, str) and pieces and isinstance(pieces[-1], str):
                pieces[-1] += piece
            elif piece != "":
                pieces.append(piece)
            if (
                isinstance(pieces[-1] if pieces else "", str)
                and len(str(pieces[-1] if pieces else "")) > MOST_CHARACTERS
            ):
                raise NotUnderstood(f"it makes a text of more than {MOST_CHARACTERS:,} characters")
    if len(pieces) > MOST_CHARACTERS:
        raise NotUnderstood("it makes a text of too many pieces")
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(map(str, pieces))
    return OpenText(tuple(pieces))


def pieces_of(text: str | OpenText) -> tuple[Piece, ...]:
    """The pieces of a text."""
    if isinstance(text, OpenText):
        return text.pieces
    return (text,) if text else ()


def operated(operation: Operation, characters: str | None, text: str | OpenText) -> str | OpenText:
    """A text after an operation, which waits for the values where there are open ones."""
    if isinstance(text, str):
        return applied(operation, characters, text)
    return OpenText((Apply(apply=operation, to=text.pieces, characters=characters),))


def as_text(value: Any) -> str | OpenText:
    """What `str()` makes of a value.

    Raises:
        NotUnderstood: it is a list, or nothing that has a text.
    """
    match value:
        case str() | OpenText():
            return value
        case bool() | int() | float() | None:
            return str(value)
        case Number(loop=loop, start=start):
            if loop.first not in (None, start):
                raise NotUnderstood("it numbers the seeds in two ways within one loop")
            loop.first = start
            return OpenText((Insert(value=Value.NUMBER),))
        case Seeds():
            raise NotUnderstood("it prints the list of seeds as a whole; a loop or `join` over them is understood")
    raise NotUnderstood(f"it makes a text of {described(value)}; a text or a number is expected")


def join(separator: Any, values: Any) -> str | OpenText:
    """What `separator.join(values)` gives.

    Raises:
        NotUnderstood: the separator is not a fixed text, or the values are no list of texts.
    """
    if not isinstance(separator, str):
        raise NotUnderstood("the text between joined parts is not fixed")
    match values:
        case Seeds():
            return OpenText((Each(each=(Insert(value=Value.SEED),), between=separator),))
        case SeedTexts(each=each):
            return OpenText((each.model_copy(update={"between": separator}),))
        case list() | tuple():
            parts: list[str | OpenText] = []
            for value in values:
                text = join(separator, value) if isinstance(value, SeedTexts) else value
                if not isinstance(text, str | OpenText):
                    raise NotUnderstood(f"`join` gets {described(value)} where a text is expected")
                parts += [separator, text] if parts else [text]
            return joined(parts)
    raise NotUnderstood(f"`join` gets {described(values)}; a list of texts or the seeds are expected")


def described(value: Any) -> str:
    """A value as messages name it."""
    match value:
        case OpenText():
            return "a text that depends on what the method is given"
        case Seeds() | SeedTexts() | Numbered():
            return "the list of seeds"
        case ThemeList():
            return "the list of themes"
        case Number():
            return "the number of a seed"
        case None:
            return "None"
    return f"a {type(value).__name__}"
