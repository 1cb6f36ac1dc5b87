"""Reads replies to imported wording, which asks for other forms than our own prompts do.

Queries come as one object with numbers for keys, `{"1": ..., "2": ...}`: a member is the text of a query, or an object
with a paragraph and its misinformation where a dimension has a second field. A validation is a total in `<score>` tags,
and nothing else in the reply counts. Verdicts are read as ours are.

Under `reading: published` verdicts and totals are read as the benchmark's published code reads them (`loose_verdict`,
`loose_total`): it looks neither at what a reply says beside its braces or its tag, nor whether it was cut off. A
quoted verdict, a draft or a worked example that stands alone in braces is then taken for the judge's own; a judge that
writes letters in lower case, or its list under another name, finds no fault. What that code cannot read it scores 0;
here it has no score.
"""

from __future__ import annotations

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
    """The members of a reply's one numbered object in the order of their numbers, as objects with our fields.

    A member that has none of the names of a field lacks it: what is bad among members is the caller's to say.

    Raises:
        Unreadable: there is no such object, there are several that differ, or its keys are not 1, 2, 3 and so on.
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
    """The total in a reply's `<score>` tags, outside of what it thinks aloud, never below 0.

    Raises:
        Unreadable: there is no tag, there are several that differ, or one holds no whole number up to 1000.
    """
    at = text.lower().rfind("<score>")
    said = "".join(without_reasoning(text, slice(max(0, at), max(0, at))))
    inside = _SCORE.findall(said)
    if not inside or len(inside) != len(_OPENING.findall(said)):
        raise Unreadable("it holds no total in <score> tags")
    totals = {int(found[1]) if (found := _WHOLE.fullmatch(one)) else None for one in inside}
    if len(totals) > 1:
        raise Unreadable("it holds several <score> tags that differ")
    total = totals.pop()
    if total is None or total > VALIDATION_START:
        raise Unreadable(f"its <score> tag holds no whole number up to {VALIDATION_START}")
    return max(0, total)


@dataclass(frozen=True)
class Listed:
    """The letters that a verdict lists, each as often as it does, and its words; None where it has no list."""

    letters: tuple[str, ...] | None
    assessment: str


def loose_verdict(text: str, key: str, allowed: Collection[str]) -> Listed:
    """What stands from the first brace to the last, its names `assessment` and `key` also in single quotes.

    What is listed beside the known letters counts nothing. As Python reads JSON, the last of equal names counts.

    Raises:
        Unreadable: that is no JSON object, or what it has under `key` is no list.
    """
    between = text[max(0, text.find("{")) : text.rfind("}") + 1]
    try:
        found = json.loads(re.sub(rf"'(assessment|{re.escape(key)})'(?=\s{{0,80}}:)", r'"\1"', between))
    except (ValueError, RecursionError):
        raise Unreadable("what stands from its first brace to its last is not a JSON object") from None
    said = found.get("assessment", "")
    assessment = clean_text(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False))
    if key not in found:
        return Listed(None, assessment)
    if not isinstance(found[key], list):
        raise Unreadable(f'"{key}" is not a list')
    return Listed(tuple(letter for letter in found[key] if letter in allowed), assessment)


def loose_total(text: str) -> int:
    """The first whole number in `<score>` tags, code fences removed.

    Raises:
        Unreadable: there is none, or it is above 1000.
    """
    found = _LOOSE_SCORE.search(_FENCE.sub("", text))
    if found is None or int(found[1]) > VALIDATION_START:
        raise Unreadable(f"it holds no whole number up to {VALIDATION_START} in <score> tags")
    return int(found[1])
