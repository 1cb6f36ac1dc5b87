"""Finds statements about a verdict in the text before it, in any form: JSON, YAML, XML, Markdown, tables, prose."""

import html
import re
from collections.abc import Collection, Iterator
from functools import cache
from itertools import chain
from unicodedata import normalize

# Format characters, fillers, variation selectors: characters that are invisible within a name.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_QUOTES = str.maketrans(
    dict.fromkeys("`\u2018\u2019\u201a\u2032", "'") | dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"')
)
_LOOK_ALIKES = str.maketrans(
    "\u0430\u0441\u0501\u0435\u0456\u043e\u0440\u0455\u0445\u0443\u0131\u03b9\u03bf\u03c5"
    "\u0410\u0412\u0421\u0415\u041d\u0406\u041a\u041c\u041e\u0420\u0405\u0422\u0425\u0391\u0392\u0395\u0397\u0399\u039f",
    "acdeiopsxyiiou" + "ABCEHIKMOPSTXABEHIO",
)


def plain(name: str) -> str:
    """Normalize a name: NFKC, lower case, no invisible characters. Names with equal results are the same name."""
    if name.isascii():
        return name.lower()
    return _INVISIBLE.sub("", normalize("NFKC", name)).casefold()


def folded(text: str) -> str:
    """Return a text as it looks: entities and escapes resolved, quotation marks and look-alike letters made ASCII.

    Case is kept. Positions differ from those in the original text.
    """
    text = html.unescape(text) if "&" in text else text
    if "\\" in text:
        text = _ESCAPED.sub(lambda code: chr(int(code[1], 16)), text).replace("\\", "")
    if not text.isascii():
        text = _INVISIBLE.sub("", normalize("NFKC", text)).translate(_LOOK_ALIKES)
    return text.translate(_QUOTES)


def looks(name: str) -> str:
    """Return a name as it looks, in lower case."""
    return name.lower() if name.isascii() else folded(name).casefold()


_MAX_VALUE = 400
_MAX_STATEMENTS = 1000  # per text, which bounds the time to read it
_BRACKETED = re.compile(r"[\s\"'*_:=>|,-]*\[([^\]]*)")
_BLANK_LINE = re.compile(r"\n\s*\n")
_ONLY_SIGNS = re.compile(r"[^\w\[\](){}]*")
_NO_LETTERS = frozenset({"none", "no", "nothing", "null", "nil", "empty", "n"})
_FILLERS = frozenset({"and", "or", "only", "just", "the", "issue", "issues", "letter", "letters", "item", "li"})
_REFUSES = re.compile(
    r"(?<![\"'\w])I(?:(?:'m| am) (?:sorry|unable|not able)|(?: can(?:not|'t)| won't| will not| must decline to"
    r"| decline to| refuse to) (?:\w+ )?(?:judge|evaluate|assess|score|grade|rate|give|provide|comply|help"
    r"|assist|continue|do))\b"
)


class Contradiction(Exception):
    """A statement differs from the verdict or cannot be understood."""


def check(text: str, reasoning: str, key: str, allowed: Collection[str], letters: Collection[str]) -> None:
    """Check that no statement before a verdict that names `letters` names other letters.

    In `reasoning` only JSON counts as a statement. Raise Contradiction if a statement does, or the text refuses the
    task.
    """
    if not text and not reasoning:
        return
    text, verdict = folded(text), set(letters)
    named = (_letters(value, allowed) for value in _values(_names(key), text))
    headed = (_letters(value, allowed) for value in _values(_HEADING, text))
    in_prose = (_letters(value.split("\n", 1)[0], allowed) for value in _values(_prose(key), text))
    in_json = (_letters(value, allowed) for value in _values(_json_names(key), folded(reasoning)))
    statements = chain(named, filter(None, headed), filter(None, in_prose), in_json)
    if any(stated != verdict or number == _MAX_STATEMENTS for number, stated in enumerate(statements)):
        raise Contradiction
    if not _said_to_apply(text, allowed) <= verdict or _REFUSES.search(text):
        raise Contradiction


def mentions(text: str, key: str) -> bool:
    """Whether a text states anything under a key."""
    return any(True for _ in _values(_names(key), folded(text)))


def _values(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield the text after each match, except after a heading that nothing but the verdict itself follows."""
    for name in pattern.finditer(text):
        value = text[name.end() : name.end() + _MAX_VALUE]
        if name.end() + len(value) < len(text) or not _ONLY_SIGNS.fullmatch(value):
            yield value


def _letters(value: str, allowed: Collection[str]) -> set[str] | None:
    """Return the letters at the beginning of a value; None if it begins with other words."""
    bracketed = _BRACKETED.match(value)
    named: set[str] = set()
    for word in re.findall(r"\w+", bracketed[1] if bracketed else _BLANK_LINE.split(value.lstrip(), maxsplit=1)[0]):
        if word in allowed:
            named.add(word)
        elif word.lower() not in _FILLERS:
            return named if named or word.lower() in _NO_LETTERS else None
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


def _singular_or_plural(key: str) -> str:
    return rf"{re.escape(key.removesuffix('s'))}s?" if key.endswith("s") else re.escape(key)


@cache
def _json_names(key: str) -> re.Pattern[str]:
    return re.compile(rf"[\"']\s*{_singular_or_plural(key)}\s*[\"']\s*[:=,|]", re.IGNORECASE)


@cache
def _names(key: str) -> re.Pattern[str]:
    name = _singular_or_plural(key)
    forms = (
        rf"[\"']\s*{name}\s*[\"']\s*[:=,|]",
        rf"<{name}(?:\s[^<>\n]*)?>",
        rf"(?<![^\W_]){name}\s*=",
        rf"^[^\w\n]*+(?:\w+[._])?{re.escape(key)}[^\w\n:|]*+(?::|\||$)",
    )
    return re.compile("|".join(forms), re.IGNORECASE | re.MULTILINE)


_HEADING = re.compile(r"^[^\w\n]*+(?:my |final |the )*verdict[^\w\n:|]*+(?::|\||$)", re.IGNORECASE | re.MULTILINE)


@cache
def _prose(key: str) -> re.Pattern[str]:
    name = rf"(?<!\w)(?:verdict|conclusion|final answer|{_singular_or_plural(key)})\b"
    says = rf"{name}[^\n.:;={{}}\"]{{0,40}}?(?:\bis\b|\bare\b|:|=|->|[\u2192\u2013\u2014])"
    return re.compile(rf"{says}|\bI (?:find|found|name|choose|conclude|flag)\b(?: that\b)?", re.IGNORECASE)
