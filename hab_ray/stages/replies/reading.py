"""Reads a verdict out of what a model wrote: tolerant about what leads to it, strict about there being one verdict.

A reply may quote a verdict, draft one, recall an example or correct itself. Which of several is meant cannot be
known, so only a reply that ends with its verdict, and says nothing else before it, is read; any other is unreadable,
never scored. "The key" is the name under which the verdict lists what was asked for: "issues", "deductions" or
"queries".

R1. A reply that the vendor cut off is unreadable, whatever it holds.
R2. Reasoning is taken out (`reasoning`): tags such as <think> and <seed:think>, [THINK], the tokens of harmony, Cohere
    and Kimi, and what comes before a closing that nothing opened. What stands where it was is still something.
R3. The verdict is the JSON object that ends the text. Behind it only invisible characters, closing fences, closing
    tags and end tokens may stand.
R4. It is strict JSON: no NaN or Infinity, no name twice at any depth, nested at most 500 levels. Names are compared
    after NFKC, without invisible characters, in any case; names that only look alike are the same name twice. It has
    the key, and where objects inside it have the key too, they say the same.
R5. The key's value is a list of known letters (a letter named twice counts once), the assessment a text or an object
    whose values are texts, such as a thought on each letter.
R6. What leads to it on its line, markup aside, is nothing or ends like a sentence or a label. An object within a
    sentence, a list, an open brace or a Markdown quotation, or announced as an example or a quotation, is one.
R7. What the text before it says under the key, as a verdict or to apply names the same letters, in whatever form
    (`statements`); and it refuses nothing. Of reasoning whose opening is missing only JSON counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from hab_ray.calls import Finish, Reply, clean_text, has_visible_text
from hab_ray.stages.replies.folding import folded, looks, plain
from hab_ray.stages.replies.reasoning import without_reasoning
from hab_ray.stages.replies.statements import Contradiction, check, mentions

# Raised when a rule above or in `published` changes, so that a run can tell by which rules its verdicts were read.
READER_VERSION = 5

_MAX_BRACKETS = 500
_CLOSERS = re.compile(r"`+|~{3,}|</[\w:.-]+\s*>|<[|\uff5c]/?[\w\u2581]+[|\uff5c]>")
_MARKUP = re.compile(r"(?:<[^<>\n]{1,120}>|`{3,}\w*|~{3,}\w*|[`*_\s\x00])++\Z")
_SENTENCE = re.compile(r"[.!?](?=\s|\Z)|\}")
_LEAD = 300
_MARK = re.compile('["{}]')
_BLOCK = 4096
_WITHIN = re.compile(r"[\w,\"'\u2018\u201c\u00ab(\[]\Z|^\s*>[>\s]*\Z")
_LABEL = re.compile(r"\b(?:json|verdict|answer|final|result|output)\Z", re.IGNORECASE)
_QUOTING = re.compile(
    r"\bexample\s+\d|\b(?:planted|quoted|injected|embedded)\b"
    r"|\b(?:plants|quotes|injects|embeds|claims|pretends)(?: (?:this|that|its|a|one|verdict))*\W*\Z",
    re.IGNORECASE,
)
_INCOMPLETE = "its JSON object is not complete"


class Unreadable(ValueError):
    """A reply does not hold what was asked for; the message says why, as a clause.

    The message never quotes the reply, because it becomes part of the request that asks once more. It thereby enters
    that request's key: a message that is changed makes stored second replies be paid for again.
    """


@dataclass(frozen=True)
class Named:
    """The letters a reader of a rubric named, each once, in the rubric's order, and its words."""

    letters: tuple[str, ...]
    assessment: str


@dataclass(frozen=True)
class _Found:
    """The object that ends a reply, its names as `plain`; what stands before it, and before that reasoning."""

    value: dict[str, Any]
    before: str = ""
    muted: str = ""


def whole_text(reply: Reply) -> str:
    """The text of a reply that is not cut off (R1).

    Raises:
        Unreadable: it is.
    """
    if reply.finish is Finish.TRUNCATED:
        raise Unreadable("it was cut off at the output limit")
    return reply.text


def named_letters(text: str, key: str, allowed: Collection[str]) -> Named:
    """The letters that the one verdict of a text lists under `key`, and its assessment.

    Raises:
        Unreadable: there is no verdict, something else may be meant, or it is broken or invalid.
    """
    found = _found(text, key)
    named = _named(found.value, key, allowed)
    try:
        check(found.before, found.muted, key, allowed, named.letters)
    except Contradiction:
        raise Unreadable("it holds several verdicts that differ") from None
    return named


def _named(found: dict[str, Any], key: str, allowed: Collection[str]) -> Named:
    letters = found[key]
    if not isinstance(letters, list):
        raise Unreadable(f'"{key}" is not a list')
    if not all(isinstance(letter, str) and letter in allowed for letter in letters):
        raise Unreadable(f'"{key}" names something other than the letters {", ".join(allowed)}')
    return Named(tuple(letter for letter in allowed if letter in letters), _assessment(found.get("assessment", "")))


def _assessment(said: object) -> str:
    """The words of a verdict; thoughts on letters one a line, in the reply's order."""
    thoughts = said if isinstance(said, dict) else {"": said}
    lines: list[str] = []
    for name, thought in thoughts.items():
        if not isinstance(thought, str):
            raise Unreadable('"assessment" is not a text')
        lines.append(f"{name}: {thought}" if name else thought)
    return clean_text("\n".join(lines))


def listed_objects(text: str, key: str) -> list[Any]:
    """The members of the list under `key`, of whatever type; what is bad among them is the caller's to say.

    Raises:
        Unreadable: there is no such list, something else may be meant, or it is broken.
    """
    members = one_object(text, key)[key]
    if not isinstance(members, list):
        raise Unreadable(f'"{key}" is not a list')
    return members


def one_object(text: str, key: str) -> dict[str, Any]:
    """The one object of a text that has the key, its names in lower case.

    Raises:
        Unreadable: there is none, something else may be meant, or it is broken.
    """
    found = _found(text, key)
    if mentions(found.muted + found.before, key):
        raise Unreadable(f'it holds several objects with "{key}" that differ')
    return found.value


def _found(text: str, key: str) -> _Found:
    """The object with the key that ends a text.

    Raises:
        Unreadable: there is none, or it may be a quotation.
    """
    stripped = text.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        whole = _decoded(stripped, key)
        if whole is not None and key in whole:
            return _Found(whole)
    end = text.rfind("}") + 1
    start = _opening(text, end)
    muted, said = without_reasoning(text, slice(end if start is None else start, end))
    if start is not None and said is not text:
        end = said.rfind("}") + 1
        start = _opening(said, end)
    try:
        value, before = _ending(said, start, end, key)
    except Unreadable:
        if _names_key(said, key):
            raise
        raise Unreadable(f'it holds no JSON object with "{key}"') from None
    return _Found(value, _without_lead(before), muted)


def _ending(text: str, start: int | None, end: int, key: str) -> tuple[dict[str, Any], str]:
    """The object with the key between two positions, behind which nothing counts, and what stands before it.

    Raises:
        Unreadable: something counts, or it is broken.
    """
    if has_visible_text(_CLOSERS.sub("", text[end:])):
        raise Unreadable(_why_not_last(text, end))
    before = text[:start]
    if start is not None and _is_open(before):
        raise Unreadable(_INCOMPLETE)
    value = None if start is None else _decoded(text[start:end], key)
    if value is None:
        raise Unreadable("its JSON object is not valid JSON")
    if key not in value:
        raise Unreadable(f'it holds no JSON object with "{key}"')
    return value, before


def _why_not_last(text: str, end: int) -> str:
    if _is_open(text):
        return _INCOMPLETE
    if text[end:].lstrip().startswith("]"):
        return "it holds a list of verdicts where one verdict is wanted"
    return "something stands behind its JSON object"


def _names_key(text: str, key: str) -> bool:
    """Whether the key stands anywhere, in quotation marks or none, with a colon behind it."""
    naming = re.compile(rf"(?<!\w)[\"']?{re.escape(key)}[\"']?\s*:", re.IGNORECASE)
    return naming.search(folded(text)) is not None


def _is_open(text: str) -> bool:
    """Whether a brace of a text is not closed."""
    depth = 0
    if "{" in text:
        for brace in re.findall("[{}]", text):
            depth = max(0, depth + (1 if brace == "{" else -1))
    return depth > 0


def _opening(text: str, end: int) -> int | None:
    """Where the object begins whose closing brace stands before `end`, if it is JSON: read backwards."""
    depth, quoted, block = 0, False, end
    while block > 0:
        begins = max(0, block - _BLOCK)
        for at in reversed([mark.start() for mark in _MARK.finditer(text, begins, block)]):
            char = text[at]
            if char == '"':
                quoted ^= not _is_escaped(text, at)
            elif not quoted:
                depth += 1 if char == "}" else -1
                if depth == 0:
                    return at
        block = begins
    return None


def _is_escaped(text: str, at: int) -> bool:
    backslashes = 0
    while at > backslashes and text[at - backslashes - 1] == "\\":
        backslashes += 1
    return backslashes % 2 == 1


def _decoded(text: str, key: str) -> dict[str, Any] | None:
    """An object, its names as `plain`; None where a text is none (R4)."""
    if text.count("{") + text.count("[") > _MAX_BRACKETS:
        return None
    said: list[Any] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        named = {looks(name): value for name, value in pairs}
        if len(named) < len(pairs):
            raise ValueError("a name stands twice")
        if key in named:
            said.append(named[key])
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=members, parse_constant=_refused)
    except ValueError:
        return None
    if any(other != said[0] for other in said):
        raise Unreadable("it holds several verdicts that differ")
    return {plain(name): member for name, member in value.items()}


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _without_lead(before: str) -> str:
    """What stands before an object, without the markup that leads to it.

    Raises:
        Unreadable: the object is quoted (R6).
    """
    at = max(0, len(before) - _LEAD)
    line = _MARKUP.sub("", before[max(at, before.rfind("\n") + 1) :])
    bare = before[:at] + _MARKUP.sub("", before[at:])
    announcing = _SENTENCE.split(bare[bare.rfind("\n") + 1 :][-_LEAD:])[-1]
    if (_WITHIN.search(line) and not _LABEL.search(line)) or _QUOTING.search(announcing):
        raise Unreadable("its JSON object reads as a quotation")
    return bare
