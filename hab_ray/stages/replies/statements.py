"""Finds what a text before a verdict says of a verdict, in whatever form: JSON, YAML, XML, Markdown, a table, words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from itertools import chain

from hab_ray.stages.replies.folding import folded

_REACH = 400
_MOST = 1000  # statements in one text, so that it is read in time
_BRACKETED = re.compile(r"[\s\"'*_:=>|,-]*\[([^\]]*)")
_BLANK_LINE = re.compile(r"\n\s*\n")
_ONLY_SIGNS = re.compile(r"[^\w\[\](){}]*")
_NOTHING = frozenset({"none", "no", "nothing", "null", "nil", "empty", "n"})
_FILLERS = frozenset({"and", "or", "only", "just", "the", "issue", "issues", "letter", "letters", "item", "li"})
_REFUSES = re.compile(
    r"(?<![\"'\w])I(?:(?:'m| am) (?:sorry|unable|not able)|(?: can(?:not|'t)| won't| will not| must decline to"
    r"| decline to| refuse to) (?:\w+ )?(?:judge|evaluate|assess|score|grade|rate|give|provide|comply|help"
    r"|assist|continue|do))\b"
)


class Contradiction(Exception):
    """The text says something else than the verdict, or what cannot be understood."""


def check(text: str, muted: str, key: str, allowed: Collection[str], letters: Collection[str]) -> None:
    """See that nothing before a verdict that names `letters` says that it should name others.

    Of `muted`, which is reasoning, only what is written as JSON counts.

    Raises:
        Contradiction: something does.
    """
    if not text and not muted:
        return
    text, meant = folded(text), set(letters)
    in_json = (_letters(value, allowed) for value in _values(_json_names(key), folded(muted)))
    named = chain(_named(text, key, allowed), _named_in_words(text, key, allowed), in_json)
    if any(one != meant or number == _MOST for number, one in enumerate(named)):
        raise Contradiction
    if not _said_to_apply(text, allowed) <= meant or _REFUSES.search(text):
        raise Contradiction


def mentions(text: str, key: str) -> bool:
    """Whether a text says anything under a key."""
    return any(True for _ in _values(_names(key), folded(text)))


def _values(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """What follows each name, but for a heading of the verdict itself, behind which nothing comes."""
    for name in pattern.finditer(text):
        value = text[name.end() : name.end() + _REACH]
        if name.end() + len(value) < len(text) or not _ONLY_SIGNS.fullmatch(value):
            yield value


def _named(text: str, key: str, allowed: Collection[str]) -> Iterator[set[str] | None]:
    yield from (_letters(value, allowed) for value in _values(_names(key), text))
    headings = (_letters(value, allowed) for value in _values(_HEADING, text))
    yield from (named for named in headings if named)


def _named_in_words(text: str, key: str, allowed: Collection[str]) -> Iterator[set[str]]:
    for value in _values(_words(key), text):
        named = _letters(value.split("\n", 1)[0], allowed)
        if named:
            yield named


def _letters(value: str, allowed: Collection[str]) -> set[str] | None:
    """The letters at the beginning of what is said under a name; None where other words are."""
    bracketed = _BRACKETED.match(value)
    named: set[str] = set()
    for word in re.findall(r"\w+", bracketed[1] if bracketed else _BLANK_LINE.split(value.lstrip(), maxsplit=1)[0]):
        if word in allowed:
            named.add(word)
        elif word.lower() not in _FILLERS:
            return named if named or word.lower() in _NOTHING else None
    return named


def _said_to_apply(text: str, allowed: Collection[str]) -> set[str]:
    found = (re.findall(r"\w+", letters[1]) for letters in _applying(tuple(allowed)).finditer(text))
    return {letter for letters in found for letter in letters if letter in allowed}


@cache
def _applying(allowed: tuple[str, ...]) -> re.Pattern[str]:
    letter = f"(?:{'|'.join(map(re.escape, allowed))})"
    more = rf"(?:(?:, (?:and )?| and | & ){letter})*"
    conditions = r"(?! (?:if|when|where|only|unless|to)\b| ?\?)"
    subject = rf"(?<![\w'])(?<!\bif )(?<!whether )({letter}{more})"
    return re.compile(rf"{subject} (?:both |also |clearly )?appl(?:y|ies)\b{conditions}")


def _any_number(key: str) -> str:
    return rf"{re.escape(key.removesuffix('s'))}s?" if key.endswith("s") else re.escape(key)


@cache
def _json_names(key: str) -> re.Pattern[str]:
    return re.compile(rf"[\"']\s*{_any_number(key)}\s*[\"']\s*[:=,|]", re.IGNORECASE)


@cache
def _names(key: str) -> re.Pattern[str]:
    name = _any_number(key)
    forms = (
        rf"[\"']\s*{name}\s*[\"']\s*[:=,|]",
        rf"<{name}(?:\s[^<>\n]*)?>",
        rf"(?<![^\W_]){name}\s*=",
        rf"^[^\w\n]*+(?:\w+[._])?{re.escape(key)}[^\w\n:|]*+(?::|\||$)",
    )
    return re.compile("|".join(forms), re.IGNORECASE | re.MULTILINE)


_HEADING = re.compile(r"^[^\w\n]*+(?:my |final |the )*verdict[^\w\n:|]*+(?::|\||$)", re.IGNORECASE | re.MULTILINE)


@cache
def _words(key: str) -> re.Pattern[str]:
    name = rf"(?<!\w)(?:verdict|conclusion|final answer|{_any_number(key)})\b"
    says = rf"{name}[^\n.:;={{}}\"]{{0,40}}?(?:\bis\b|\bare\b|:|=|->|[\u2192\u2013\u2014])"
    return re.compile(rf"{says}|\bI (?:find|found|name|choose|conclude|flag)\b(?: that\b)?", re.IGNORECASE)
