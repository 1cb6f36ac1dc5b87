"""Makes recorded exchanges fit to be shown to others: no secret of ours, and none that looks like somebody's.

`Secrets` knows this account's own. A vendor, gateway or proxy may put others into an answer: session cookies, upload
URLs that are the right to upload, tokens of its own backend. What looks like one is replaced too; a header's value is
kept only where the header is known to hold none.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from itertools import pairwise
from urllib.parse import parse_qsl, quote, urlsplit

from hab_ray.providers.secrets import Secrets

MASK = "[secret]"
_SHORTEST = 8

_SHOWN_HEADERS = re.compile(
    r"content-(type|length|encoding)|date|server|user-agent|retry-after(-ms)?|x-ratelimit-[a-z-]+"
    r"|anthropic-(ratelimit-[a-z-]+|version|beta)|openai-(version|processing-ms)|x-goog-upload-(status|command|offset)"
    r"|x-goog-upload-protocol|x-goog-upload-header-content-(length|type)|x-server-timeout|x-should-retry",
    re.I,
)
_SHOWN_QUERIES = {"alt", "limit", "order", "pagesize", "purpose", "after", "after_id", "before_id", "beta"}
_SECRET_NAME = (
    r"(?:[\w-]*(?:api[_-]?key|secret|password|passwd|authorization|cookie|credential|signature|private[_-]?key|bearer)"
    r"[\w-]*|(?:[\w-]*[_-])?(?:token|sid|session(?:[_-]?id)?|upload[_-]?id|key)|(?:access|refresh|id|auth|session)Token"
    r"|nextPageToken|apikey|sig|jwt)"
)
# Names under which batches and results carry ids that are needed to read a recording.
_HARMLESS_NAMES = {"key", "custom_id"}
_IN_JSON = re.compile(rf'(\\*)"({_SECRET_NAME})\1"(\s*:\s*)\1"((?:[^"\\]|\\\\*[^"])+?)\1"', re.I)
_IN_TEXT = re.compile(
    rf"\b({_SECRET_NAME})(\s*(?:=|:|%3D|%253D)\s*)(?:(?:Bearer|Basic)\s+)?([^\s&;,\"'<>\\]{{6,}})", re.I
)
_LOOKS_SECRET = re.compile(
    r"\b(?:Bearer|Basic|Token)(?:\s|%20|\+)+[A-Za-z0-9._~+/=-]{8,}"
    r"|\b(?:sk|pk|rk|xai|gsk|hf|ghp|gho|ghs|glpat|xox[abprs]|pat|r8|nvapi|pplx|csk|tgp|dop)[-_][A-Za-z0-9_-]{12,}"
    r"|\bgithub_pat_\w{12,}|\bAIza[\w-]{16,}|\bya29\.[\w.-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}"
    r"|\beyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?"
    r"|-----BEGIN [A-Z ]+-----(?:(?!-----END).)*(?:-----END [A-Z ]+-----)?",
    re.S,
)
_USER_IN_URL = re.compile(r"(\w+(?::|%3A)(?:\\*/|%2F){2})(?:(?!@|%40)[^\s/\"']){3,200}(?:@|%40)", re.I)
# A limit, a time, a version: no header that says more is kept.
_SHORT_VALUE = re.compile(r"[\w.:+-]{1,40}")
_OF_WORDS = {"content-type", "date", "server", "user-agent", "x-goog-upload-command"}
_RUN = re.compile("[A-Za-z0-9]+")
_MAX_ESCAPE = 24


class Redactor:
    """Removes secrets from texts, headers and addresses, those of an account and those that look like any.

    `values` are the account's own: its key and the values of its headers.
    """

    def __init__(self, values: Iterable[str]) -> None:
        known = [value for value in values if len(value) >= _SHORTEST]
        self._secrets = Secrets([*known, *(coded for value in known for coded in _in_base64(value))])
        self._escaped = [re.compile(pattern, re.S) for value in known if (pattern := _however_escaped(value))]

    def text(self, text: str) -> str:
        """A body, message or address without secrets. JSON stays JSON of the same shape."""
        text = self._secrets.masked(text)
        for pattern in self._escaped:
            text = pattern.sub(MASK, text)
        text = _IN_JSON.sub(_masked_field, text)
        text = _LOOKS_SECRET.sub(MASK, _USER_IN_URL.sub(rf"\1{MASK}@", text))
        return _IN_TEXT.sub(_masked_pair, text)

    def header(self, name: str, value: str) -> str:
        """A header's value: itself where the header is known to hold no secret."""
        if not _SHOWN_HEADERS.fullmatch(name):
            return MASK
        is_plain = name.lower() in _OF_WORDS or _SHORT_VALUE.fullmatch(value)
        return self.text(value) if is_plain else MASK

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """All headers, their names in lower case."""
        return {name.lower(): self.header(name, value) for name, value in headers.items()}

    def path(self, url: str) -> str:
        """The path of an address with its query; a parameter's value is kept where it is known to be harmless."""
        parts = urlsplit(url)
        shown = (
            f"{name}={quote(self.text(value)) if name.lower() in _SHOWN_QUERIES else MASK}"
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
        )
        query = "&".join(shown)
        return f"{self.text(parts.path)}?{query}" if query else self.text(parts.path)


def _masked_field(found: re.Match[str]) -> str:
    escape, name, colon = found.group(1, 2, 3)
    if name.lower() in _HARMLESS_NAMES:
        return found[0]
    return f'{escape}"{name}{escape}"{colon}{escape}"{MASK}{escape}"'


def _masked_pair(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{MASK}"


def _however_escaped(secret: str) -> str | None:
    """A pattern for the secret under any mixture of escapes: its letters and digits in order, what is between short.

    None for one that is a single run of letters and digits, which no escape changes.
    """
    runs = list(_RUN.finditer(secret))
    if len(runs) < 2 or sum(len(run[0]) for run in runs) < _SHORTEST:
        return None
    gaps = [after.start() - before.end() for before, after in pairwise(runs)]
    joined = [f"[^A-Za-z].{{0,{_MAX_ESCAPE * gap}}}?{run[0]}" for gap, run in zip(gaps, runs[1:], strict=True)]
    return runs[0][0] + "".join(joined)


def _in_base64(secret: str) -> Iterable[str]:
    """What stands in base64 of any text that holds the secret: one spelling for each position modulo three."""
    raw = secret.encode()
    for before in range(3):
        coded = b64encode(b"\0" * before + raw).decode()
        whole = coded[-(-before * 4 // 3) :].rstrip("=")
        yield whole[: len(whole) - (1 if (before + len(raw)) % 3 else 0)]
