"""Reads a verdict out of what a model wrote: tolerant about wrapping, strict about there being one verdict.

A reply may quote a verdict, draft one, recall an example or correct itself. Which of several is meant cannot be
known, so only a reply whose one verdict is beyond doubt is read; any other is unreadable, never scored.
"The key" is the name under which the verdict lists what was asked for: "issues", "deductions" or "queries".

R1. A reply that the vendor cut off is unreadable, whatever it holds.
R2. The text is scanned from left to right. At top level an opening reasoning tag, `{` and `[` matter; everything
    else, such as prose, Markdown fences and closing tags, is passed over.
R3. Reasoning tags are <think>, <thinking>, <thought>, <thoughts>, <reasoning>, <reflection>, <scratchpad> and
    <analysis>, with attributes or spaces, as well as [THINK] and <|begin_of_thought|>, all in any case. A tag takes
    away everything up to the next closing tag of its name or, without one, the rest of the text.
R4. At `{` one JSON object is decoded: no NaN or Infinity, no key twice, at any depth. If it is cut off by the end of
    the text and holds the key in double quotes, or names it, the reply is unreadable. If it is broken in another way
    and names the key before its closing brace (before the end of the text where it has none), the reply is unreadable,
    too: it was meant as a verdict. To name the key is to write it in any case, in quotation marks of any kind or none,
    with a colon behind it. Otherwise a brace that begins no object is prose, and the scan goes on behind it.
R5. At `[` one JSON list is decoded. If a member of it is an object with the key, the reply is unreadable; otherwise
    it is passed over. If it is no JSON but goes on with `{`, and the key in double quotes follows anywhere, the reply
    is unreadable; otherwise the bracket is prose.
R6. Objects without the key are prose. Objects inside others never count.
R7. Every object with the key must be valid: a list of known letters (a letter named twice counts once), the
    assessment a text or an object whose values are texts, such as a thought on each letter. One that is not makes
    the reply unreadable.
R8. One object, or several that name the same letters, is the verdict; the last one's assessment is kept. None, or
    several that differ, are unreadable. Objects with queries must be equal altogether.
R9. So that no reply takes long to read: brackets nested deeper than 500 levels count as broken and without an end,
    and a reply in which more than 20,000 tags, objects, lists and loose brackets stand at top level is unreadable.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from hab_ray.calls import Finish, Reply, clean_text
from hab_ray.stages.jsontext import Broken, JsonText, whole_object

# Raised when a rule above changes, so that a run can tell by which rules its verdicts were read.
READER_VERSION = 3

_MOST_MARKS = 20_000
_TAGS = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis"
_OPENED = rf"<\s*(?P<tag>{_TAGS})(?:\s[^<>]*)?>|(?P<marked><\|\s*begin_of_thought\s*\|>)|(?P<bracketed>\[THINK\])"
_REASONING = re.compile(_OPENED, re.IGNORECASE)
_MATTERS = re.compile(rf"{_OPENED}|(?P<open>[{{\[])", re.IGNORECASE)
_MARKED_END = re.compile(r"<\|\s*end_of_thought\s*\|>", re.IGNORECASE)
_BRACKETED_END = re.compile(r"\[/THINK\]", re.IGNORECASE)
_QUOTE = "[\"'`\u2018\u2019\u201c\u201d]?"
_LIST_OF_OBJECTS = re.compile(r"\[\s*\{")


class Unreadable(ValueError):
    """A reply does not hold what was asked for; the message says why, as a clause.

    The message never quotes the reply, because it becomes part of the request that asks once more. It thereby enters
    that request's key: a message that is changed makes stored second replies be paid for again.
    """


@dataclass(frozen=True)
class Named:
    """The letters a reader of a rubric named, each once, in the rubric's order, and its words."""

    letters: tuple[str, ...]
    assessment: str


def whole_text(reply: Reply) -> str:
    """The text of a reply that is not cut off (R1).

    Raises:
        Unreadable: it is.
    """
    if reply.finish is Finish.TRUNCATED:
        raise Unreadable("it was cut off at the output limit")
    return reply.text


def named_letters(text: str, key: str, allowed: Collection[str]) -> Named:
    """The letters that the one verdict of a text lists under `key`, and its assessment.

    Raises:
        Unreadable: there is no verdict, there are several that differ, or one is broken or invalid.
    """
    verdicts = [_named(found, key, allowed) for found in _objects(text, key)]
    if len({verdict.letters for verdict in verdicts}) > 1:
        raise Unreadable("it holds several verdicts that differ")
    return verdicts[-1]


def _named(found: dict[str, Any], key: str, allowed: Collection[str]) -> Named:
    letters = found[key]
    if not isinstance(letters, list):
        raise Unreadable(f'"{key}" is not a list')
    if not all(isinstance(letter, str) and letter in allowed for letter in letters):
        raise Unreadable(f'"{key}" names something other than the letters {", ".join(allowed)}')
    return Named(tuple(letter for letter in allowed if letter in letters), _assessment(found.get("assessment", "")))


def _assessment(said: object) -> str:
    """The words of a verdict; thoughts on letters one a line, in the reply's order."""
    thoughts = said if isinstance(said, dict) else {"": said}
    lines: list[str] = []
    for name, thought in thoughts.items():
        if not isinstance(thought, str):
            raise Unreadable('"assessment" is not a text')
        lines.append(f"{name}: {thought}" if name else thought)
    return clean_text("\n".join(lines))


def listed_objects(text: str, key: str) -> list[Any]:
    """The members of the list under `key`, of whatever type; what is bad among them is the caller's to say.

    Raises:
        Unreadable: there is no such list, there are several that differ, or one is broken.
    """
    members = one_object(text, key)[key]
    if not isinstance(members, list):
        raise Unreadable(f'"{key}" is not a list')
    return members


def one_object(text: str, key: str) -> dict[str, Any]:
    """The one object of a text that has the key.

    Raises:
        Unreadable: there is none, there are several that differ, or one is broken.
    """
    first, *others = _objects(text, key)
    if any(other != first for other in others):
        raise Unreadable(f'it holds several objects with "{key}" that differ')
    return first


def without_reasoning(text: str) -> str:
    """A text without what its reasoning tags take away (R3)."""
    kept, at = [], 0
    while mark := _REASONING.search(text, at):
        kept.append(text[at : mark.start()])
        at = _behind_reasoning(text, mark)
    return "".join([*kept, text[at:]])


def _objects(text: str, key: str) -> list[dict[str, Any]]:
    """The objects at top level that have the key, at least one.

    Raises:
        Unreadable: there is none, or it cannot be known what else the reply says under the key.
    """
    whole = whole_object(text)
    if whole is not None and key in whole:
        return [whole]
    found = list(_Scan(text, key).objects())
    if not found:
        raise Unreadable(f'it holds no JSON object with "{key}"')
    return found


class _Scan:
    """A text, and where the key stands in it."""

    def __init__(self, text: str, key: str) -> None:
        self._text, self._key, self._json = text, key, JsonText(text)
        self._named_until = text.rfind(f'"{key}"')
        naming = re.compile(rf"(?<!\w){_QUOTE}{re.escape(key)}{_QUOTE}\s*:", re.IGNORECASE)
        self._named = [found.span() for found in naming.finditer(text)]

    def objects(self) -> Iterator[dict[str, Any]]:
        """The objects with the key, one after another. See the module for the rules."""
        # Behind the last key, plain or with an escaped letter, nothing can be an object that has it.
        ends = (self._named_until, self._text.rfind("\\u"), self._named[-1][0] if self._named else -1)
        at, last, marks = 0, max(ends), 0
        while (mark := _MATTERS.search(self._text, at)) and mark.start() < last:
            marks += 1
            if marks > _MOST_MARKS:
                raise Unreadable("it holds too many brackets")
            if mark["open"] is None:
                at = _behind_reasoning(self._text, mark)
                continue
            decoded = self._json.decode(mark.start())
            if isinstance(decoded, Broken):
                self._refuse_broken(mark.start(), decoded)
                at = mark.end()
                continue
            if self._has_key(decoded.value):
                yield decoded.value
            elif isinstance(decoded.value, list) and any(map(self._has_key, decoded.value)):
                raise Unreadable("it holds a list of verdicts where one verdict is wanted")
            at = decoded.end

    def _has_key(self, value: Any) -> bool:
        return isinstance(value, dict) and self._key in value

    def _refuse_broken(self, start: int, broken: Broken) -> None:
        """Raise Unreadable where what begins at `start` may have been meant as a verdict."""
        named = self._named_until > start
        if self._text[start] == "[":
            if named and _LIST_OF_OBJECTS.match(self._text, start):
                raise Unreadable("it holds a list that is not valid JSON")
        elif broken.cut and (named or self._named[-1:] > [(start, start)]):
            raise Unreadable("its JSON object is not complete")
        elif not broken.cut and self._names_key(start):
            raise Unreadable("its JSON object is not valid JSON")

    def _names_key(self, start: int) -> bool:
        """Whether a key with its colon stands between a brace and the one that closes it."""
        number = bisect(self._named, (start, start))
        if number == len(self._named):
            return False
        closing = self._json.closing(start)
        return closing is None or self._named[number][1] <= closing


def _behind_reasoning(text: str, opening: re.Match[str]) -> int:
    if opening["tag"]:
        closing = _closing_tag(opening["tag"].lower())
    else:
        closing = _MARKED_END if opening["marked"] else _BRACKETED_END
    found = closing.search(text, opening.end())
    return found.end() if found else len(text)


@cache
def _closing_tag(name: str) -> re.Pattern[str]:
    return re.compile(rf"<\s*/\s*{name}\s*>", re.IGNORECASE)
