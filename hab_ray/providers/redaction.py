"""Redacts recorded exchanges so that they can be shared: removes known secrets and everything that looks like one.

`Secrets` masks those of this account. A response of a vendor, gateway or proxy may hold others: session cookies, upload
URLs that grant the right to upload, tokens of a backend. A header's value is kept only if the header is known to hold
no secret.
"""

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
# Every pattern takes time in proportion to the text, however hostile it is.
_SECRET_NAME = (
    r"(?:[\w-]*(?:api[_-]?key|secret|password|passwd|authorization|cookie|credential|signature|private[_-]?key|bearer)"
    r"[\w-]*+|(?:[\w-]*[_-])?(?:token|sid|session(?:[_-]?id)?|upload[_-]?id|key)"
    r"|(?:[\w-]*-)?(?:(?:access|refresh|id|auth|session)Token|nextPageToken|apikey|sig|jwt))"
)
# Fields of batches and results that hold ids, which are needed to read a recording.
_HARMLESS_NAMES = {"key", "custom_id"}
_IN_JSON = re.compile(rf'(\\{{0,31}})"({_SECRET_NAME})\1"(\s*:\s*)\1"([^"]+?)(?<!(?<!\\)\\)\1"', re.I)
_IN_TEXT = re.compile(
    rf"(?<![\w-])({_SECRET_NAME})(\s*(?:=|:|%3D|%253D)\s*)(?:(?:Bearer|Basic)\s+)?([^\s&;,\"'<>\\]{{6,}})", re.I
)
_LOOKS_SECRET = re.compile(
    r"\b(?:Bearer|Basic|Token)(?:\s|%20|\+)+[A-Za-z0-9._~+/=-]{8,}"
    r"|\b(?:sk|pk|rk|xai|gsk|hf|ghp|gho|ghs|glpat|xox[abprs]|pat|r8|nvapi|pplx|csk|tgp|dop)[-_][A-Za-z0-9_-]{12,}"
    r"|\bgithub_pat_\w{12,}|\bAIza[\w-]{16,}|\bya29\.[\w.-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}"
    r"|\beyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?"
    r"|-----BEGIN [A-Z ]+-----(?:(?!-----END).)*(?:-----END [A-Z ]+-----)?",
    re.S,
)
_USER_IN_URL = re.compile(r"(?<!\w)(\w+(?::|%3A)(?:\\*/|%2F){2})(?:(?!@|%40)[^\s/\"']){3,200}(?:@|%40)", re.I)
# A limit, a time or a version; headers with other values are redacted.
_SHORT_VALUE = re.compile(r"[\w.:+-]{1,40}")
_TEXT_HEADERS = {"content-type", "date", "server", "user-agent", "x-goog-upload-command"}
_RUN = re.compile("[A-Za-z0-9]+")
_MAX_ESCAPE = 24


class Redactor:
    """Redacts texts, headers and URLs. `values` are the account's own secrets: its key and its headers' values."""

    def __init__(self, values: Iterable[str]) -> None:
        known = [value for value in values if len(value) >= _SHORTEST]
        self._secrets = Secrets([*known, *(encoded for value in known for encoded in _in_base64(value))])
        self._escaped = [re.compile(pattern, re.S) for value in known if (pattern := _escaped_pattern(value))]

    def text(self, text: str) -> str:
        """Redact a body, message or URL. JSON stays JSON of the same shape."""
        text = self._secrets.masked(text)
        for pattern in self._escaped:
            text = pattern.sub(MASK, text)
        text = _IN_JSON.sub(_masked_field, text)
        text = _LOOKS_SECRET.sub(MASK, _USER_IN_URL.sub(rf"\1{MASK}@", text))
        return _IN_TEXT.sub(rf"\1\2{MASK}", text)

    def header(self, name: str, value: str) -> str:
        """Redact a header's value, unless the header is known to hold no secret."""
        if not _SHOWN_HEADERS.fullmatch(name):
            return MASK
        is_plain = name.lower() in _TEXT_HEADERS or _SHORT_VALUE.fullmatch(value)
        return self.text(value) if is_plain else MASK

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Redact all headers; their names become lower case."""
        return {name.lower(): self.header(name, value) for name, value in headers.items()}

    def path(self, url: str) -> str:
        """Return the redacted path and query of a URL; only parameters known to be harmless keep their values."""
        parts = urlsplit(url)
        shown = (
            f"{name}={quote(self.text(value)) if name.lower() in _SHOWN_QUERIES else MASK}"
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
        )
        query = "&".join(shown)
        return f"{self.text(parts.path)}?{query}" if query else self.text(parts.path)


def _masked_field(match: re.Match[str]) -> str:
    escape, name, colon = match.group(1, 2, 3)
    if name.lower() in _HARMLESS_NAMES:
        return match[0]
    return f'{escape}"{name}{escape}"{colon}{escape}"{MASK}{escape}"'


def _escaped_pattern(secret: str) -> str | None:
    """Return a pattern for the secret under any mixture of escapes: its alphanumeric runs with short gaps.

    None for a single run of letters and digits, which no escape changes.
    """
    runs = list(_RUN.finditer(secret))
    if len(runs) < 2 or sum(len(run[0]) for run in runs) < _SHORTEST:
        return None
    gaps = [after.start() - before.end() for before, after in pairwise(runs)]
    joined = [f"[^A-Za-z].{{0,{_MAX_ESCAPE * gap}}}?{run[0]}" for gap, run in zip(gaps, runs[1:], strict=True)]
    return runs[0][0] + "".join(joined)


def _in_base64(secret: str) -> Iterable[str]:
    """Yield the secret as it appears in the base64 of a text around it, for each position modulo three."""
    raw = secret.encode()
    for offset in range(3):
        encoded = b64encode(b"\0" * offset + raw).decode()
        full = encoded[-(-offset * 4 // 3) :].rstrip("=")
        yield full[: len(full) - (1 if (offset + len(raw)) % 3 else 0)]
