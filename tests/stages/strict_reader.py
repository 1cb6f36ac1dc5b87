"""The rules of `hab_ray.stages.reading` a second time: by hand, without the json module, one character at a time.

It looks at every brace anew and remembers nothing, so it is slow where the reader has to be fast.
"""

from __future__ import annotations

import re
from typing import Any, Never

SPACE = " \t\n\r"
ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
WORDS = {"true": True, "false": False, "null": None}
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
NAMES = ["think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "analysis"]
TAGS = [(rf"<\s*{name}(\s[^<>]*)?>", rf"<\s*/\s*{name}\s*>") for name in NAMES]
TAGS += [(r"\[think\]", r"\[/think\]"), (r"<\|\s*begin_of_thought\s*\|>", r"<\|\s*end_of_thought\s*\|>")]
REASONING = [(re.compile(opens, re.IGNORECASE), re.compile(closes, re.IGNORECASE)) for opens, closes in TAGS]


class NoVerdictError(Exception):
    """The reply is unreadable."""


class BrokenError(Exception):
    """What was to be decoded is not JSON, or (`CutError`) is, but ends too early."""


class CutError(BrokenError):
    """The text ends inside what was to be decoded."""


def strict_verdict(text: str, key: str, letters: tuple[str, ...], truncated: bool) -> frozenset[str] | None:
    """The letters of the one verdict of a reply, or None."""
    try:
        if truncated:
            raise NoVerdictError
        named = {named_by(found, key, letters) for found in top_level(text, key)}
        if len(named) != 1:
            raise NoVerdictError
    except NoVerdictError:
        return None
    return named.pop()


def named_by(found: dict[str, Any], key: str, letters: tuple[str, ...]) -> frozenset[str]:
    named = found[key]
    if not isinstance(named, list) or not isinstance(found.get("assessment", ""), str):
        raise NoVerdictError
    if any(type(letter) is not str or letter not in letters for letter in named):
        raise NoVerdictError
    return frozenset(named)


def top_level(text: str, key: str) -> list[dict[str, Any]]:
    found, at = [], 0
    while at < len(text):
        behind = behind_reasoning(text, at)
        if behind is not None:
            at = behind
        elif text[at] == "{":
            value, at = object_at(text, at, key)
            if value is not None and key in value:
                found.append(value)
        elif text[at] == "[":
            at = behind_list(text, at, key)
        else:
            at += 1
    return found


def behind_reasoning(text: str, at: int) -> int | None:
    if text[at] not in "<[":
        return None
    for opening, closing in REASONING:
        if opened := opening.match(text, at):
            closed = closing.search(text, opened.end())
            return closed.end() if closed else len(text)
    return None


def names(key: str, text: str) -> bool:
    """Whether a text writes the key before a colon, in any case and in quotation marks of any kind or none."""
    quote = "[\"'`\u2018\u2019\u201c\u201d]?"
    return re.search(rf"(?<!\w){quote}{key}{quote}\s*:", text, re.IGNORECASE) is not None


def object_at(text: str, at: int, key: str) -> tuple[dict[str, Any] | None, int]:
    decoder = Decoder(text, at)
    try:
        return decoder.object(), decoder.at
    except CutError:
        if f'"{key}"' in text[at:] or names(key, text[at:]):
            raise NoVerdictError from None
    except BrokenError:
        if names(key, text[at : closing_brace(text, at)]):
            raise NoVerdictError from None
    return None, at + 1


def behind_list(text: str, at: int, key: str) -> int:
    decoder = Decoder(text, at)
    try:
        members = decoder.array()
    except BrokenError:
        if text[at + 1 :].lstrip()[:1] == "{" and f'"{key}"' in text[at:]:
            raise NoVerdictError from None
        return at + 1
    if any(isinstance(member, dict) and key in member for member in members):
        raise NoVerdictError
    return decoder.at


def closing_brace(text: str, at: int) -> int:
    """The position behind the brace that closes the one at `at`, or the text's length."""
    depth, quoted = 0, False
    while at < len(text):
        char = text[at]
        if quoted and char == "\\":
            at += 1
        elif char == '"':
            quoted = not quoted
        elif not quoted and char in "{}":
            depth += 1 if char == "{" else -1
            if depth == 0:
                return at + 1
        at += 1
    return len(text)


class Decoder:
    """Decodes one object or list, from a position on."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at

    def peek(self) -> str:
        if self.at >= len(self.text):
            raise CutError
        return self.text[self.at]

    def skip(self) -> str:
        while self.peek() in SPACE:
            self.at += 1
        return self.peek()

    def expect(self, marks: str) -> str:
        mark = self.skip()
        if mark not in marks:
            raise BrokenError
        self.at += 1
        return mark

    def value(self) -> Any:
        head = self.skip()
        if head in '{["':
            return {"{": self.object, "[": self.array, '"': self.string}[head]()
        return self.word() if head in "tfn" else self.number()

    def object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.expect("{")
        if self.skip() == "}":
            self.at += 1
            return found
        while True:
            self.skip()
            key = self.string()
            if key in found:
                raise BrokenError
            self.expect(":")
            found[key] = self.value()
            if self.expect(",}") == "}":
                return found

    def array(self) -> list[Any]:
        found: list[Any] = []
        self.expect("[")
        if self.skip() == "]":
            self.at += 1
            return found
        while True:
            found.append(self.value())
            if self.expect(",]") == "]":
                return found

    def string(self) -> str:
        self.expect('"')
        out = ""
        while (char := self.peek()) != '"':
            if char < " ":
                raise BrokenError
            self.at += 1
            out += self.escaped() if char == "\\" else char
        self.at += 1
        return out

    def escaped(self) -> str:
        char = self.peek()
        self.at += 1
        if char != "u":
            return ESCAPED.get(char) or self.broken()
        digits = ""
        for _ in range(4):
            digits += self.peek()
            self.at += 1
            if digits[-1] not in "0123456789abcdefABCDEF":
                raise BrokenError
        return chr(int(digits, 16))

    def word(self) -> bool | None:
        for word, meant in WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return meant
            if word.startswith(self.text[self.at :]):
                raise CutError
        raise BrokenError

    def number(self) -> float:
        found = NUMBER.match(self.text, self.at)
        rest = self.text[found.end() if found else self.at :]
        if rest in (("", ".", "e", "E", "e+", "e-", "E+", "E-") if found else ("-",)):
            raise CutError
        if not found:
            raise BrokenError
        self.at = found.end()
        return float(found[0])

    def broken(self) -> Never:
        raise BrokenError
