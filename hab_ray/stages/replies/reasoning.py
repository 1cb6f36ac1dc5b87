"""Strips a model's reasoning from its reply, in the forms of the servers that leave it there."""

import re
from functools import cache

# Replaces reasoning that was removed. It is visible, so that reasoning after a verdict counts as text after it.
GAP = "\ufffc"

_TAGS = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis|seed:think"
_CLOSINGS = {
    "thought": r"<\|\s*end_of_thought\s*\|>",
    "cohere": r"<\|END_THINKING\|>",
    "kimi": "\u25c1/think\u25b7",
    "mistral": r"\[/THINK\]",
    "harmony": r"<\|(?:end|call)\|>|(?=<\|(?:start|channel)\|>)",
}
_OPENING = re.compile(
    rf"<\s*(?P<tag>{_TAGS})(?:\s[^<>]*)?>|(?P<thought><\|\s*begin_of_thought\s*\|>)|(?P<cohere><\|START_THINKING\|>)"
    r"|(?P<kimi>\u25c1think\u25b7)|(?P<mistral>\[THINK\])"
    r"|(?P<harmony><\|channel\|>(?:analysis|commentary)[^<>]{0,100}<\|message\|>)",
    re.IGNORECASE,
)
_FINAL = r"<\|channel\|>final[^<>]{0,100}(?:<\|constrain\|>\w{1,40})?<\|message\|>"
_TOKENS = "|".join((_FINAL, *(_CLOSINGS[name] for name in ("thought", "cohere", "kimi", "mistral"))))
_UNOPENED = re.compile(rf"^[ \t]*<\s*/\s*(?:{_TAGS})\s*>|{_TOKENS}", re.IGNORECASE | re.MULTILINE)
_UNOPENED_PLAIN = re.compile("assistantfinal")
_ANY = re.compile("[<[\u25c1]|assistantfinal")
_LINE = 80


def without_reasoning(text: str, last: slice) -> tuple[str, str]:
    """Split a reply after reasoning whose opening is missing, and remove complete reasoning from both parts.

    Without such reasoning the first part is empty. An opening that is never closed counts only at the beginning of a
    line, where it removes the rest of the text; elsewhere it is a mere mention. The same holds for a closing tag
    without an opening, but a closing token counts anywhere: servers that put the opening into the request return only
    the closing. An opening inside the object at `last` is part of that object.
    """
    if not _ANY.search(text):
        return "", text
    kept: list[str] = []
    at, absent = 0, set[re.Pattern[str]]()
    while opening := _OPENING.search(text, at):
        closing = _closing(opening.lastgroup or "", (opening["tag"] or "").lower())
        end = None if closing in absent else closing.search(text, opening.end())
        if end is None:
            absent.add(closing)
        is_part = last.start <= opening.start() < last.stop
        if is_part or (end is None and not _begins_line(text, opening.start())):
            kept.append(text[at : opening.end()])
            at = opening.end()
            continue
        kept += [text[at : opening.start()], GAP]
        at = end.end() if end else len(text)
    stripped, behind = "".join([*kept, text[at:]]), len(text) - last.start
    return _split(stripped, max(0, len(stripped) - behind))


def _split(text: str, until: int) -> tuple[str, str]:
    """Split a text after the last closing before `until` that has no opening."""
    last, pattern = 0, _UNOPENED_PLAIN if text.startswith(("analysis", "assistantfinal")) else _UNOPENED
    for closing in pattern.finditer(text, 0, until):
        last = closing.end()
    return text[:last], text[last:]


def _begins_line(text: str, at: int) -> bool:
    before = text[max(0, at - _LINE) : at].rstrip(" \t\r")
    return before.endswith(("\n", ">")) or (not before and at <= _LINE)


@cache
def _closing(form: str, tag: str) -> re.Pattern[str]:
    return re.compile(rf"<\s*/\s*{tag}\s*>" if tag else _CLOSINGS[form], re.IGNORECASE)
