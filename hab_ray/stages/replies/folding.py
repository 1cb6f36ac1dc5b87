"""Normalizes texts in which a name may be disguised by entities, escapes, case, wide or look-alike letters."""

from __future__ import annotations

import html
import re
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
