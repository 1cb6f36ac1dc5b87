"""Reading JSON out of what a model wrote: tolerant about wrapping, strict about content.

Code fences and prose around it are passed over and the first complete JSON object counts. Inside it nothing
is guessed: a doubled key, an unknown letter or a wrong type makes the whole object unreadable. So does an object
that is cut or broken off: what stands whole inside it is not the answer. Other braces are prose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from hab_ray.calls import clean_text

_OBJECT_BEGINS = re.compile(r'\{\s*(["}]|\Z)')


class Unreadable(ValueError):
    """A model's text does not hold what was asked for; the message says what is wrong."""


def first_object(text: str) -> dict[str, Any]:
    """The first complete JSON object in a text.

    Raises:
        Unreadable: there is none, the first is broken or cut, or it names a key twice.
    """
    begins = _OBJECT_BEGINS.search(text)
    if begins is None:
        raise Unreadable("no complete JSON object")
    decoder = json.JSONDecoder(object_pairs_hook=_without_doubles, parse_constant=_refuse_constant)
    try:
        found: dict[str, Any] = decoder.raw_decode(text, begins.start())[0]
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"the JSON object is broken or cut: {error}") from None
    return found


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unreadable("a key appears twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise Unreadable(f"{name} is not JSON")


@dataclass(frozen=True)
class Named:
    """The letters a reader of a rubric named, each once, in the rubric's order, and its words."""

    letters: tuple[str, ...]
    assessment: str


def named_letters(text: str, key: str, allowed: Collection[str]) -> Named:
    """The letters listed under `key` in a model's text; a letter named twice counts once.

    Raises:
        Unreadable: no object, no such key, not a list, or a member that is not exactly an allowed letter.
    """
    found = first_object(text)
    if key not in found:
        raise Unreadable(f"no {key!r} in the object")
    letters = found[key]
    if not isinstance(letters, list):
        raise Unreadable(f"{key!r} is not a list")
    for letter in letters:
        if not isinstance(letter, str) or letter not in allowed:
            shown = json.dumps(letter)[:60] if isinstance(letter, str) else f"a value of type {type(letter).__name__}"
            raise Unreadable(f"{key!r} holds {shown}, which is not one of its letters")
    assessment = found.get("assessment", "")
    if not isinstance(assessment, str):
        raise Unreadable("'assessment' is not a text")
    return Named(tuple(letter for letter in allowed if letter in letters), clean_text(assessment))


def listed_objects(text: str, key: str) -> list[Any]:
    """The members of the list under `key`, of whatever type; what is bad among them is the caller's to say.

    Raises:
        Unreadable: no object, no such key, or not a list.
    """
    found = first_object(text)
    members = found.get(key)
    if not isinstance(members, list):
        raise Unreadable(f"no list {key!r} in the object")
    return members
