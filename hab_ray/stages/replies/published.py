"""Reads replies to imported wording, which requests other forms than our own prompts do.

Queries are one object with numbers as keys, `{"1": ..., "2": ...}`. A member is the text of a query or, in a dimension
with a context, an object with a paragraph and its misinformation. A validation is a total in `<score>` tags; nothing
else in the reply counts. Verdicts have the same form as ours.

Under `reading: published`, `loose_verdict` and `loose_total` read verdicts and totals as the benchmark's published code
does. That code ignores everything outside the outermost braces or the tag, and truncation. It takes a quoted verdict, a
draft or a worked example for the judge's own, and finds no fault if the judge writes letters in lower case or lists
them under another name. What that code cannot read, it scores 0; here it gets no score.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from hab_ray.calls import clean_text
from hab_ray.rubric import VALIDATION_START
from hab_ray.stages.replies.reading import Unreadable, one_object
from hab_ray.stages.replies.reasoning import without_reasoning

_SCORE = re.compile(r"<score>(.{0,80}?)</score>", re.IGNORECASE | re.DOTALL)
_OPENING = re.compile(r"<score>", re.IGNORECASE)
_WHOLE = re.compile(r"\s*([+-]?[0-9]{1,9})(?:\.0+)?\s*")
_LOOSE_SCORE = re.compile(r"<score>\s{0,80}([0-9]{1,9})\s{0,80}</score>", re.IGNORECASE)
_FENCE = re.compile(r"```[A-Za-z]{0,20}")
_NAMES = {"prompt": ("paragraph", "prompt", "query", "question"), "context": ("misinformation", "context")}


def numbered_queries(text: str, fields: Sequence[str]) -> list[Any]:
    """Return the members of a reply's numbered object, in the order of their numbers, as objects with our `fields`.

    A member without any of a field's names lacks that field; the caller must check the members. Raise Unreadable if
    there is no such object, there are several that differ, or its keys are not 1, 2, 3 and so on.
    """
    found = one_object(text, "1")
    if sorted(found) != sorted(map(str, range(1, len(found) + 1))):
        raise Unreadable("the keys of its object are not the numbers from 1 on")
    return [_member(found[str(number)], fields) for number in range(1, len(found) + 1)]


def _member(member: Any, fields: Sequence[str]) -> dict[str, Any]:
    if isinstance(member, str):
        return {"prompt": member}
    if not isinstance(member, dict):
        return {}
    given = {str(name).casefold(): value for name, value in member.items()}
    return {field: given[name] for field in fields for name in _NAMES[field] if name in given}


def tagged_score(text: str) -> int:
    """Return the total in a reply's `<score>` tags outside of its reasoning, never below 0.

    Raises:
        Unreadable: there is no tag, there are several that differ, or one does not hold a whole number up to 1000.
    """
    answer = "".join(without_reasoning(text, slice(0, 0)))
    tagged = _SCORE.findall(answer)
    if not tagged or len(tagged) != len(_OPENING.findall(answer)):
        raise Unreadable("it holds no total in <score> tags")
    totals = {int(found[1]) if (found := _WHOLE.fullmatch(text)) else None for text in tagged}
    if len(totals) > 1:
        raise Unreadable("it holds several <score> tags that differ")
    total = totals.pop()
    if total is None or total > VALIDATION_START:
        raise Unreadable(f"its <score> tag holds no whole number up to {VALIDATION_START}")
    return max(0, total)


@dataclass(frozen=True)
class Listed:
    """The letters that a verdict lists, repetitions included, and its assessment. None: it has no list."""

    letters: tuple[str, ...] | None
    assessment: str


def loose_verdict(text: str, key: str, allowed: Collection[str]) -> Listed:
    """Read a verdict as the published code does: the JSON between the first and the last brace of a text.

    `assessment` and `key` may be in single quotes. Unknown letters are ignored, and the last of equal names counts.
    Raise Unreadable if there is no JSON object, or its value under `key` is not a list.
    """
    braced = text[max(0, text.find("{")) : text.rfind("}") + 1]
    try:
        found = json.loads(re.sub(rf"'(assessment|{re.escape(key)})'(?=\s{{0,80}}:)", r'"\1"', braced))
    except (ValueError, RecursionError):
        raise Unreadable("what stands from its first brace to its last is not a JSON object") from None
    value = found.get("assessment", "")
    assessment = clean_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if key not in found:
        return Listed(None, assessment)
    if not isinstance(found[key], list):
        raise Unreadable(f'"{key}" is not a list')
    return Listed(tuple(letter for letter in found[key] if letter in allowed), assessment)


def loose_total(text: str) -> int:
    """Return the first whole number in `<score>` tags, as the published code does, code fences removed.

    Raises:
        Unreadable: there is none, or it is above 1000.
    """
    found = _LOOSE_SCORE.search(_FENCE.sub("", text))
    if found is None or int(found[1]) > VALIDATION_START:
        raise Unreadable(f"it holds no whole number up to {VALIDATION_START} in <score> tags")
    return int(found[1])
