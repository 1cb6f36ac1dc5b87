"""Fences: marks around untrusted text in a request, with a code that cannot be computed without the store's secret.

A stage writes `PLACEHOLDER` instead of the code, so that a call's key depends on neither store nor secret and every
run can reuse the reply. Just before the request is built, `FenceCodes` replaces the placeholder with the code of that
request. All marks of a request have the same code. No text inside can contain it, because the code depends on the text
(through the key) and on the store's secret.

Version 1 (runs started before there were versions) marks each text with a code derived from its own hash.
"""

import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

from hab_ray.calls import ChatCall

FENCE_VERSION = 2
PLACEHOLDER = "[hab-fence-code]"
CODE_DIGITS = 16

_BARRED_PLACEHOLDER = PLACEHOLDER.replace("-", "¦")
_CHAT_MARK = re.compile(
    r"<[|\uff5c][^<>\n]{0,128}[|\uff5c]>|<[|\uff5c]/?\w{1,64}>|</?\w{1,64}[|\uff5c]>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]"
    r"|<<(?=/?SYS>>)|<(?=/?(?:s|bos|eos|pad|unk|mask|start_of_turn|end_of_turn|end_of_utterance)>)",
    re.IGNORECASE,
)
_BARS = str.maketrans("|\uff5c", "¦¦")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"} | {0x7F: 0x2421}


def without_placeholder(text: str) -> str:
    """Return the text with placeholders visibly broken, so that none becomes a code."""
    return text.replace(PLACEHOLDER, _BARRED_PLACEHOLDER)


def neutral(text: str) -> str:
    """Neutralise what a model's server could interpret: marks of chat templates, and control characters.

    Nothing is removed: `<|im_start|>` becomes `<¦im_start¦>`, `[INST]` becomes `[¦INST]`, NUL becomes U+2400.
    """
    if "<" in text or "[" in text:
        text = _CHAT_MARK.sub(_broken_mark, without_placeholder(text))
    return text.translate(_CONTROLS) if _CONTROL.search(text) else text


def _broken_mark(found: re.Match[str]) -> str:
    barred = found[0].translate(_BARS)
    return barred if barred != found[0] else f"{barred[0]}¦{barred[1:]}"


def _fence_with_placeholder(name: str, text: str) -> str:
    return f"<<<{name} {PLACEHOLDER}>>>\n{neutral(text)}\n<<<END {name} {PLACEHOLDER}>>>"


def _fence_with_hash(name: str, text: str) -> str:
    code = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    while code in text:
        code = sha256(code.encode()).hexdigest()[:10]
    return f"<<<{name} {code}>>>\n{text}\n<<<END {name} {code}>>>"


@dataclass(frozen=True)
class FenceStyle:
    """One version of fences: `put(name, text)` fences a text, `plain(text)` prepares text outside of fences."""

    put: Callable[[str, str], str]
    plain: Callable[[str], str]


FENCES: Mapping[int, FenceStyle] = {
    1: FenceStyle(_fence_with_hash, lambda text: text),
    FENCE_VERSION: FenceStyle(_fence_with_placeholder, without_placeholder),
}


class FenceCodes:
    """The fence codes of a store. No repr shows the secret, and it cannot be derived from a code."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def filled(self, call: ChatCall) -> ChatCall:
        """Return the call to send, with its code for each placeholder. Replies belong to the original key."""
        texts = (call.system, *(message.text for message in call.messages))
        if call.verbatim or not any(PLACEHOLDER in text for text in texts):
            return call
        code = hmac.digest(self._secret, call.key.encode("ascii"), "sha256").hex()[:CODE_DIGITS]
        messages = tuple(replace(message, text=_with_code(message.text, code)) for message in call.messages)
        return replace(call, system=_with_code(call.system, code), messages=messages)


def _with_code(text: str, code: str) -> str:
    """Return the text with the code at the placeholders and nowhere else."""
    half = CODE_DIGITS // 2
    return text.replace(code, f"{code[:half]}¦{code[half:]}").replace(PLACEHOLDER, code)
