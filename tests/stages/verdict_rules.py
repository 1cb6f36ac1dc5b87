"""What a reply says by the rules of reading, written apart from the reader: the two are compared on fuzzed replies.

Slow and plain on purpose. It has a JSON parser of its own, which tells a text that is cut from one that is broken, and
takes nothing that RFC 8259 does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

TAGS = ("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "analysis")
_OPENS = re.compile(rf"<\s*({'|'.join(TAGS)})(\s[^<>]*)?>", re.IGNORECASE)
_MARKS = {"[THINK]": "[/THINK]", "<|begin_of_thought|>": "<|end_of_thought|>"}
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SHORT = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SURROGATE = re.compile("[\ud800-\udfff]")


class Nothing(Exception):
    """The reply holds no verdict that counts; the message says by which rule."""


class Cut(Exception):
    """The text ends inside a JSON value."""


class Broken(Exception):
    """The text is not JSON from some place on."""


@dataclass(frozen=True)
class Number:
    """A JSON number: never a letter, a text or a list, and never equal to `true`."""

    value: Decimal


class Parser:
    """Reads one JSON value from a place in a text."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at

    def peek(self) -> str:
        if self.at >= len(self.text):
            raise Cut
        return self.text[self.at]

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t\n\r":
            self.at += 1

    def take(self, character: str) -> None:
        if self.peek() != character:
            raise Broken(f"{character} expected at {self.at}")
        self.at += 1

    def value(self) -> Any:
        match self.peek():
            case "{":
                return self.object()
            case "[":
                return self.list()
            case '"':
                return self.string()
            case "t":
                return self.word("true", True)
            case "f":
                return self.word("false", False)
            case "n":
                return self.word("null", None)
            case _:
                return self.number()

    def word(self, word: str, meaning: Any) -> Any:
        for character in word:
            self.take(character)
        return meaning

    def number(self) -> Number:
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            if re.fullmatch(r"-?", self.text[self.at :]):
                raise Cut
            raise Broken(f"no value at {self.at}")
        self.at = found.end()
        if self.at == len(self.text) or re.fullmatch(r"\.|[eE][+-]?", self.text[self.at :]):
            raise Cut
        return Number(Decimal(found.group()))

    def string(self) -> str:
        self.take('"')
        parts: list[str] = []
        while (character := self.peek()) != '"':
            self.at += 1
            if character == "\\":
                parts.append(self.escape())
            elif character < " ":
                raise Broken("a control character in a text")
            else:
                parts.append(character)
        self.at += 1
        return _paired("".join(parts))

    def escape(self) -> str:
        character = self.peek()
        self.at += 1
        if character in _SHORT:
            return _SHORT[character]
        if character != "u":
            raise Broken("no such escape")
        digits = ""
        for _ in range(4):
            digit = self.peek()
            if digit not in "0123456789abcdefABCDEF":
                raise Broken("no hexadecimal digit")
            digits += digit
            self.at += 1
        return chr(int(digits, 16))

    def members(self, end: str, member: Callable[[], None]) -> None:
        self.at += 1
        self.space()
        if self.peek() == end:
            self.at += 1
            return
        while True:
            self.space()
            member()
            self.space()
            if self.peek() == end:
                self.at += 1
                return
            self.take(",")

    def list(self) -> list[Any]:
        found: list[Any] = []
        self.members("]", lambda: found.append(self.value()))
        return found

    def object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        doubled = False

        def member() -> None:
            nonlocal doubled
            if self.peek() != '"':
                raise Broken("a name expected")
            name = self.string()
            self.space()
            self.take(":")
            self.space()
            doubled |= name in found
            found[name] = self.value()

        self.members("}", member)
        if doubled:
            raise Broken("a name appears twice")
        return found


def _paired(text: str) -> str:
    """Escaped halves of a character joined, as every JSON parser does."""
    return re.sub(
        "[\ud800-\udbff][\udc00-\udfff]",
        lambda pair: chr(0x10000 + ((ord(pair[0][0]) - 0xD800) << 10) + ord(pair[0][1]) - 0xDC00),
        text,
    )


def whole(text: str) -> str:
    """A text without halves of characters, which no file takes."""
    return _SURROGATE.sub("\ufffd", text)


@dataclass(frozen=True)
class Read:
    """A verdict: its letters in the rubric's order, and its words."""

    letters: tuple[str, ...]
    assessment: str


def top_level(text: str, key: str) -> list[dict[str, Any]]:
    """The objects of a text that have the key, outside reasoning and outside everything else.

    Raises:
        Nothing: a broken or cut object, or a list of objects, that would have had it.
    """
    found: list[dict[str, Any]] = []
    at = 0
    while at < len(text):
        behind = _reasoning(text, at)
        if behind is not None:
            at = behind
        elif text[at] == "{":
            at = _object(text, at, key, found)
        elif text[at] == "[":
            at = _list(text, at, key)
        else:
            at += 1
    return found


def _reasoning(text: str, at: int) -> int | None:
    """Behind the reasoning that is opened here; None where none is."""
    for opening, closing in _MARKS.items():
        if text.startswith(opening, at):
            end = text.find(closing, at)
            return len(text) if end < 0 else end + len(closing)
    opens = _OPENS.match(text, at)
    if opens is None:
        return None
    closes = re.compile(rf"<\s*/\s*{opens[1]}\s*>", re.IGNORECASE).search(text, opens.end())
    return closes.end() if closes else len(text)


def names(key: str, text: str) -> bool:
    """Whether a text writes the key before a colon, in any case and in quotation marks of any kind or none."""
    quote = "[\"'`\u2018\u2019\u201c\u201d]?"
    return re.search(rf"(?<!\w){quote}{key}{quote}\s*:", text, re.IGNORECASE) is not None


def _object(text: str, at: int, key: str, found: list[dict[str, Any]]) -> int:
    parser = Parser(text, at)
    try:
        value = parser.object()
    except Cut:
        if f'"{key}"' in text[at:] or names(key, text[at:]):
            raise Nothing("the object is cut") from None
        return at + 1
    except Broken:
        if names(key, _span(text, at)):
            raise Nothing("the object is broken") from None
        return at + 1
    if key in value:
        found.append(value)
    return parser.at


def _span(text: str, at: int) -> str:
    """The text from a brace to the one that closes it, braces in texts left out; all the rest where none does."""
    depth, quoted, place = 0, False, at
    while place < len(text):
        character = text[place]
        if quoted and character == "\\":
            place += 1
        elif character == '"':
            quoted = not quoted
        elif not quoted and character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return text[at : place + 1]
        place += 1
    return text[at:]


def _list(text: str, at: int, key: str) -> int:
    parser = Parser(text, at)
    try:
        value = parser.list()
    except (Cut, Broken):
        if text[at + 1 :].lstrip().startswith("{") and f'"{key}"' in text[at:]:
            raise Nothing("a broken list of verdicts") from None
        return at + 1
    if any(isinstance(member, dict) and key in member for member in value):
        raise Nothing("a list of verdicts")
    return parser.at


def read_letters(text: str, key: str, allowed: Collection[str], truncated: bool) -> Read:
    """The one verdict of a reply. Raises Nothing."""
    if truncated:
        raise Nothing("truncated")
    verdicts = [_letters(value, key, allowed) for value in top_level(text, key)]
    if len({verdict.letters for verdict in verdicts}) != 1:
        raise Nothing("no verdict" if not verdicts else "verdicts differ")
    return verdicts[-1]


def _letters(value: dict[str, Any], key: str, allowed: Collection[str]) -> Read:
    named, words = value[key], value.get("assessment", "")
    if isinstance(words, dict) and all(isinstance(thought, str) for thought in words.values()):
        words = "\n".join(f"{about}: {thought}" if about else thought for about, thought in words.items())
    if not isinstance(named, list) or not isinstance(words, str):
        raise Nothing("a wrong type")
    if not all(isinstance(letter, str) and letter in allowed for letter in named):
        raise Nothing("not a letter")
    return Read(tuple(letter for letter in allowed if letter in named), whole(words))


def read_list(text: str, key: str, truncated: bool) -> list[Any]:
    """The one list of a reply; several objects that have it must be equal. Raises Nothing."""
    if truncated:
        raise Nothing("truncated")
    found = top_level(text, key)
    if not found or any(other != found[0] for other in found[1:]):
        raise Nothing("none, or several that differ")
    members = found[-1][key]
    if not isinstance(members, list):
        raise Nothing("a wrong type")
    return members
