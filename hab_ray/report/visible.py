"""Characters that could hide or forge text are shown as what they are.

Text from models is hostile. Escaping keeps it from being markup; this keeps it from reordering a line (bidi
controls), from ending it (U+2028), and from being dropped or refused by a parser (NUL, lone surrogates).
"""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi controls
    "\u2028\u2029\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]"  # line separators, noncharacters, surrogates
)


def visible(text: str) -> str:
    """The text with every such character written as its code, e.g. `[U+202E]`; CR LF becomes a line feed."""
    return _HIDDEN.sub(lambda found: f"[U+{ord(found.group()):04X}]", text.replace("\r\n", "\n"))


def finalize(value: Any) -> Any:
    """What a template does to each value it prints, before it escapes it."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
