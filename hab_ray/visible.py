"""Making untrusted text safe to show on a page, on a terminal or in a log.

Text of models, vendors, users and shared files may contain characters with effects: escape sequences move the cursor
or set the title, bidi controls reorder a line, a newline forges another line, zero-width characters make two names look
alike, and lone surrogates cannot be encoded. Each becomes its code, such as `[U+001B]`. Markup is not handled here:
callers must escape it.
"""

import json
import re
from math import ceil, floor, log10
from typing import Any

MAX_LINE = 2000
_LEAST_P, _TOLERANCE = 0.0001, 1e-9

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi controls
    "\u2028\u2029\ufdd0-\ufdef\ufffe\uffff"  # line separators, noncharacters
    "\ud800-\udfff"  # lone surrogates
)
# Legitimate in a text (Persian, emoji, hyphenation), but not in a name or a message.
_ZERO_WIDTH = "\u00ad\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"

_ON_PAGES = re.compile(f"[{_HIDDEN}]")
_ON_TERMINALS = re.compile(f"[{_HIDDEN}{_ZERO_WIDTH}]")
_BREAKS = re.compile("[\t\r\n]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """Return the text for a page: hidden characters become their codes, and CR LF becomes a line feed."""
    return _ON_PAGES.sub(_code, text.replace("\r\n", "\n"))


def for_terminal(text: str) -> str:
    """Return the text for a terminal: as for a page, with the codes of zero-width characters too."""
    return _ON_TERMINALS.sub(_code, text.replace("\r\n", "\n"))


def one_line(text: str, longest: int = MAX_LINE) -> str:
    """Return the text as a single line, for messages, log lines and table cells.

    Line breaks and tabs become spaces, so that the text cannot forge a line of ours. It is truncated to `longest`
    characters, with a note of its length.
    """
    shown = _ON_TERMINALS.sub(_code, _BREAKS.sub(" ", text[:longest].strip()))
    if len(text) <= longest >= len(shown):
        return shown
    return f"{shown[:longest]}... ({len(text):,} characters)"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 batch`, `2,000 batches`. The plural `many` defaults to `one` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(share: float, digits: int = 0) -> str:
    """Format a share (0..1) in percent; only none is shown as 0, and only all as 100: `0 %`, `<1 %`, `>99 %`."""
    shown, least = f"{100 * share:.{digits}f}", 10.0**-digits
    if 0 < share < 1 and float(shown) in (0, 100):
        shown = f"<{least:.{digits}f}" if share < 0.5 else f">{100 - least:.{digits}f}"
    return f"{shown} %"


def decimal(value: float, digits: int) -> str:
    """Format a number, never as -0.00, with as many more decimals as show that it is not 0, 1 or -1 if it is not."""
    shown = f"{value:z.{digits}f}"
    distance = abs(value - float(shown))
    if float(shown) in (-1, 0, 1) and distance > _TOLERANCE:
        shown = f"{value:.{ceil(-log10(distance))}f}"
    return shown


def p_value(value: float) -> str:
    """Format a p-value with two significant digits, rounded up: one above .05 is never shown as .050."""
    if value > 1 - _TOLERANCE:
        return "1"
    if value < _LEAST_P:
        return f"<{_LEAST_P}"
    digits = 1 - floor(log10(value))
    return f"{ceil(value * 10**digits * (1 - _TOLERANCE)) / 10**digits:#.2g}"


def usd(nano: int) -> str:
    """Format nano-dollars in dollars, with four decimals below one dollar and two above; only nothing is $0.00."""
    if 0 < nano < 50_000:
        return "<$0.0001"
    return f"${nano / 1e9:,.2f}" if nano >= 1e9 or not nano else f"${nano / 1e9:.4f}"


def for_unanswered(nano: int) -> str:
    """Return what calls without an answer may cost, to follow what was paid; "" if nothing."""
    return f", at most {usd(nano)} more for calls without an answer" if nano else ""


def duration(seconds: float) -> str:
    """Format a duration roughly: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def hides_something(text: str) -> bool:
    """Return whether a name contains characters that are invisible or have effects when shown."""
    return bool(_ON_TERMINALS.search(text) or _BREAKS.search(text))


def log_json(value: Any, indent: int | None = None) -> str:
    """Encode a value as JSON with hidden characters escaped; lone surrogates become U+FFFD."""
    text = _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False, indent=indent))
    return _ON_TERMINALS.sub(lambda found: json.dumps(found.group())[1:-1].replace("\x7f", "\\u007f"), text)


def _code(found: re.Match[str]) -> str:
    return f"[U+{ord(found.group()):04X}]"
