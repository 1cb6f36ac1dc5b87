"""Text of unknown origin, made safe to show: on a page, on a terminal, in a log.

Models, vendors, names and shared files may hold characters that do something where they are shown: escape sequences
move the cursor or set the title, bidi controls reorder a line, a newline forges a second one, zero-width characters
make two names look like one, lone surrogates cannot be encoded at all. Here each of them becomes its code, such as
`[U+001B]`. Markup is another matter: whoever shows text has to say that it is no markup.
"""

from __future__ import annotations

import json
import re
from typing import Any

MAX_LINE = 2000

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi controls
    "\u2028\u2029\ufdd0-\ufdef\ufffe\uffff"  # line separators, noncharacters
    "\ud800-\udfff"  # lone surrogates
)
# Right in a text (Persian, emoji, hyphenation), out of place in a name or a message.
_WITHOUT_WIDTH = "\u00ad\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"

_ON_PAGES = re.compile(f"[{_HIDDEN}]")
_ON_TERMINALS = re.compile(f"[{_HIDDEN}{_WITHOUT_WIDTH}]")
_BREAKS = re.compile("[\t\r\n]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """The text for a page: every hidden character as its code; CR LF becomes a line feed."""
    return _ON_PAGES.sub(_code, text.replace("\r\n", "\n"))


def for_terminal(text: str) -> str:
    """The text for a terminal: as for a page, and characters without a width as their codes too."""
    return _ON_TERMINALS.sub(_code, text.replace("\r\n", "\n"))


def one_line(text: str, longest: int = MAX_LINE) -> str:
    """The text as a single line, for messages, log lines and cells of tables.

    Line breaks and tabs become spaces, so that nothing after them passes for a line of ours. It is cut after `longest`
    characters and says so.
    """
    shown = _ON_TERMINALS.sub(_code, _BREAKS.sub(" ", text[:longest].strip()))
    if len(text) <= longest >= len(shown):
        return shown
    return f"{shown[:longest]}... ({len(text):,} characters)"


def counted(number: int, one: str, many: str = "") -> str:
    """A number and the word for what it counts: `1 batch`, `2,000 batches`; `many` is `one` and an s by default."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def usd(nano: int) -> str:
    """Nano-dollars in dollars, with four places where it is less than one."""
    return f"${nano / 1e9:,.2f}" if nano >= 1e9 or not nano else f"${nano / 1e9:.4f}"


def duration(seconds: float) -> str:
    """A span of time as short as a plan needs it: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def hides_something(text: str) -> bool:
    """Whether a name holds a character that cannot be seen or does something where it is shown."""
    return bool(_ON_TERMINALS.search(text) or _BREAKS.search(text))


def log_json(value: Any, indent: int | None = None) -> str:
    """A value as JSON whose strings hold no hidden character raw; what is no text at all becomes U+FFFD."""
    text = _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False, indent=indent))
    return _ON_TERMINALS.sub(lambda found: json.dumps(found.group())[1:-1].replace("\x7f", "\\u007f"), text)


def _code(found: re.Match[str]) -> str:
    return f"[U+{ord(found.group()):04X}]"
