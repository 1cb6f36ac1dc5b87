"""What Python's methods of texts, lists and dicts give, where some of the values are still open."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any

from hab_ray.exchange.imports.values import NotUnderstood, OpenText, as_text, described, join, joined, operated
from hab_ray.rubric import Operation

_STRIPS = {"strip": Operation.STRIP, "lstrip": Operation.LSTRIP, "rstrip": Operation.RSTRIP}
_ON_FIXED = ("lower", "upper", "title", "capitalize")
_CONVERSIONS: Mapping[str, Callable[[object], str]] = {"r": repr, "a": ascii, "s": str}
_SPEC = re.compile(r"[<>^+,.a-z%]?[0-9]{0,3}[,.]?[0-9]{0,2}[dfsg%]?")


def formatted_value(value: Any, conversion: str, spec: Any) -> str | OpenText:
    """What `{value!conversion:spec}` gives.

    Raises:
        NotUnderstood: the value is open and is not put in as it is, or the width is absurd.
    """
    if conversion in ("", "s") and spec == "":
        return as_text(value)
    if not isinstance(value, str | int | float) or not isinstance(spec, str) or not _SPEC.fullmatch(spec):
        raise NotUnderstood("a value with a format of its own cannot be followed; `{name}` alone is expected")
    try:
        return format(_CONVERSIONS[conversion](value) if conversion else value, spec)
    except ValueError as error:
        raise NotUnderstood(f"the format cannot be applied: {error}") from None


def formatted(template: Any, given: Sequence[Any], named: Mapping[str, Any]) -> str | OpenText:
    """What `template.format(*given, **named)` gives.

    Raises:
        NotUnderstood: the template is not fixed, or wants what is not given.
    """
    if not isinstance(template, str):
        raise NotUnderstood("`format` on a text that has values in it already cannot be followed; format it once")
    parts: list[str | OpenText] = []
    try:
        fields = list(Formatter().parse(template))
    except ValueError as error:
        raise NotUnderstood(f"its template is broken: {error}; a brace is written {{{{ or }}}}") from None
    unnumbered = 0
    for literal, name, spec, conversion in fields:
        parts.append(literal)
        if name is None:
            continue
        key = name or str(unnumbered)
        unnumbered += not name
        if key.isdecimal() and int(key) < len(given):
            value = given[int(key)]
        elif key in named:
            value = named[key]
        else:
            raise NotUnderstood(f"its template wants {{{name[:40]}}}, which `format` is not given")
        parts.append(formatted_value(value, conversion or "", spec or ""))
    return joined(parts)


def called_on(receiver: Any, method: str, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What a method of a text, list or dict gives, `format` left out.

    Raises:
        NotUnderstood: it is none of those that are known, or is not known for an open text.
    """
    match receiver, method, [*given, *named.values()]:
        case str() | OpenText(), "join", [values]:
            return join(receiver, values)
        case str() | OpenText(), "strip" | "lstrip" | "rstrip", [] | [None]:
            return operated(_STRIPS[method], None, receiver)
        case str() | OpenText(), "strip" | "lstrip" | "rstrip", [str() as characters]:
            return operated(_STRIPS[method], characters, receiver)
        case str(), "replace", [str() as old, str() | OpenText() as new] if old:
            return _replaced(receiver, old, new)
        case str(), _, [] if method in _ON_FIXED:
            return getattr(receiver, method)()
        case dict(), "items", []:
            return [[key, value] for key, value in receiver.items()]
        case dict(), "keys", []:
            return list(receiver)
        case dict(), "values", []:
            return list(receiver.values())
        case dict(), "get", [str() | int() as key, *rest] if len(rest) < 2:
            return receiver.get(key, rest[0] if rest else None)
    raise NotUnderstood(
        f"`.{method}` of {described(receiver)} cannot be followed; format, join and strip can, and replace on a "
        "fixed text"
    )


def _replaced(text: str, old: str, new: str | OpenText) -> str | OpenText:
    first, *others = text.split(old)
    return joined([first, *(part for other in others for part in (new, other))])
