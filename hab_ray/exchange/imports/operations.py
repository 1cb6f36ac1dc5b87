"""What Python's operators and own functions give, where some of the values are still open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hab_ray.exchange.imports.values import (
    NotUnderstood,
    Number,
    Numbered,
    NumberOfSeeds,
    OpenText,
    Seeds,
    ThemeList,
    as_text,
    described,
    joined,
    operated,
)
from hab_ray.rubric import Insert, Operation, Value

UNDERSTOOD = "f-strings, str.format, +, join, textwrap.dedent, strip and loops over seeds are understood"


def added(left: Any, right: Any) -> Any:
    """What `left + right` gives.

    Raises:
        NotUnderstood: it cannot be known.
    """
    match left, right:
        case (str() | OpenText(), str() | OpenText()):
            return joined([left, right])
        case (int() | float(), int() | float()):
            return left + right
        case (Number(), int()):
            return replace(left, start=left.start + right)
        case (int(), Number()):
            return replace(right, start=right.start + left)
        case (list(), list()):
            return [*left, *right]
    raise NotUnderstood(f"{described(left)} + {described(right)} cannot be followed; two texts are expected")


def subtracted(left: Any, right: Any) -> Any:
    """What `left - right` gives. Raises as `added`."""
    match left, right:
        case (int() | float(), int() | float()):
            return left - right
        case (Number(), int()):
            return replace(left, start=left.start - right)
    raise NotUnderstood(f"{described(left)} - {described(right)} cannot be followed; two numbers are expected")


def member_at(value: Any, at: Any) -> Any:
    """What `value[at]` gives. Raises as `added`."""
    match value, at:
        case Seeds(), int() if at >= 0:
            return OpenText((Insert(value=Value.SEED, at=at),))
        case Seeds(), Number(start=0):
            return OpenText((Insert(value=Value.SEED),))
        case (dict(), str() | int()) if at in value:
            return value[at]
        case (list(), int()) if -len(value) <= at < len(value):
            return value[at]
    raise NotUnderstood(
        f"{described(value)} at {described(at)} cannot be followed; a fixed key or position is expected"
    )


def outside(name: str, given: Sequence[Any]) -> Any:
    """What a function of Python's own returns. Raises as `added`."""
    match name, given:
        case "textwrap.dedent", [str() | OpenText() as text]:
            return operated(Operation.DEDENT, None, text)
        case "random.sample" | "list" | "tuple", [Seeds(), *_]:
            return given[0]
        case "random.choice", [ThemeList()]:
            return OpenText((Insert(value=Value.THEME),))
        case "str", [value]:
            return as_text(value)
        case "len", [Seeds()]:
            return NumberOfSeeds()
        case "len", [str() | list() | dict() as value]:
            return len(value)
        case "range", [NumberOfSeeds()]:
            return Numbered(numbers_only=True)
        case "enumerate", [Seeds(), *rest] if all(isinstance(one, int) for one in rest):
            return Numbered(start=rest[0] if rest else 0)
        case "enumerate", [list() | dict() as values, *rest] if all(isinstance(one, int) for one in rest):
            return [[n, value] for n, value in enumerate(values, rest[0] if rest else 0)]
        case "list" | "tuple", [list() | dict() as values]:
            return list(values)
        case "chr", [int() as code] if 0 <= code < 0x110000:
            return chr(code)
    shown = ", ".join(map(described, given)) or "nothing"
    raise NotUnderstood(f"{name} of {shown} cannot be followed; {UNDERSTOOD}")
