"""Reads the verdict of a reply: tolerant of the text that leads to it, strict about there being exactly one verdict.

A reply may quote a verdict, draft one, recall an example or correct itself. Nobody can know which of several verdicts
is meant. So a reply is read only if it ends with its verdict and says nothing else before it; any other reply is
unreadable and never scored. "The key" is the name under which the verdict lists what was requested: "issues",
"deductions" or "queries".

R1. A reply that was truncated is unreadable, whatever it contains.
R2. Reasoning is removed (`reasoning`): tags such as <think> and <seed:think>, [THINK], the tokens of harmony, Cohere
    and Kimi, and everything before a closing tag without an opening. A mark remains in its place and counts as text.
R3. The verdict is the JSON object that ends the text. Only invisible characters, closing fences, closing tags and end
    tokens may follow it.
R4. It is strict JSON: no NaN or Infinity, no duplicate name at any depth, nested at most 500 levels. Names are compared
    after NFKC, without invisible characters and case; names that look alike are duplicates. It has the key, and objects
    inside it that have the key too have the same value there.
R5. The key's value is a list of known letters (duplicates count once). The assessment is a text or an object whose
    values are texts, such as a thought on each letter.
R6. The text before it on its line, markup aside, is empty or ends like a sentence or a label. An object within a
    sentence, a list, an open brace or a Markdown quotation, or announced as an example or a quotation, is a quotation.
R7. Whatever the text before it states under the key, as a verdict or as applying names the same letters, in any form
    (`statements`), and the text does not refuse the task. In reasoning without an opening only JSON counts.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from hab_ray.calls import Finish, Reply, clean_text, has_visible_text
from hab_ray.stages.replies.reasoning import without_reasoning
from hab_ray.stages.replies.statements import Contradiction, check, folded, looks, mentions, plain

# Increment it when a rule above or in `published` changes: runs record by which rules their verdicts were read.
READER_VERSION = 5

_MAX_BRACKETS = 500
_CLOSERS = re.compile(r"`+|~{3,}|</[\w:.-]+\s*>|<[|\uff5c]/?[\w\u2581]+[|\uff5c]>")
_MARKUP = re.compile(r"(?:<[^<>\n]{1,120}>|`{3,}\w*|~{3,}\w*|[`*_\s\x00])++\Z")
_SENTENCE = re.compile(r"[.!?](?=\s|\Z)|\}")
_LEAD = 300
_BRACE_OR_QUOTE = re.compile('["{}]')
_BLOCK = 4096
_WITHIN_SENTENCE = re.compile(r"[\w,\"'\u2018\u201c\u00ab(\[]\Z|^\s*>[>\s]*\Z")
_LABEL = re.compile(r"\b(?:json|verdict|answer|final|result|output)\Z", re.IGNORECASE)
_QUOTING = re.compile(
    r"\bexample\s+\d|\b(?:planted|quoted|injected|embedded)\b"
    r"|\b(?:plants|quotes|injects|embeds|claims|pretends)(?: (?:this|that|its|a|one|verdict))*\W*\Z",
    re.IGNORECASE,
)
_INCOMPLETE = "its JSON object is not complete"


class Unreadable(ValueError):
    """A reply does not contain what was requested. The message says why, as a clause.

    The message must not quote the reply: it becomes part of the repeated request and thus of its key. Changing a
    message therefore makes runs pay again for stored second replies.
    """


@dataclass(frozen=True)
class Named:
    """The letters that a verdict names, each once and in the rubric's order, and its assessment."""

    letters: tuple[str, ...]
    assessment: str


@dataclass(frozen=True)
class _Found:
    """The object that ends a reply, with `plain` names, the text before it, and reasoning that precedes that text."""

    value: dict[str, Any]
    before: str = ""
    reasoning: str = ""


def whole_text(reply: Reply) -> str:
    """Return the text of a reply (R1); raise Unreadable if the reply was truncated."""
    if reply.finish is Finish.TRUNCATED:
        raise Unreadable("it was cut off at the output limit")
    return reply.text


def named_letters(text: str, key: str, allowed: Collection[str]) -> Named:
    """Return the letters that the only verdict of a text lists under `key`, and its assessment.

    Raises:
        Unreadable: there is no verdict, it is ambiguous, broken or invalid.
    """
    found = _found(text, key)
    named = _named(found.value, key, allowed)
    try:
        check(found.before, found.reasoning, key, allowed, named.letters)
    except Contradiction:
        raise Unreadable("it holds several verdicts that differ") from None
    return named


def _named(verdict: dict[str, Any], key: str, allowed: Collection[str]) -> Named:
    letters = verdict[key]
    if not isinstance(letters, list):
        raise Unreadable(f'"{key}" is not a list')
    if not all(isinstance(letter, str) and letter in allowed for letter in letters):
        raise Unreadable(f'"{key}" names something other than the letters {", ".join(allowed)}')
    return Named(tuple(letter for letter in allowed if letter in letters), _assessment(verdict.get("assessment", "")))


def _assessment(value: object) -> str:
    """Return the text of an assessment; thoughts on letters one per line, in the reply's order."""
    thoughts = value if isinstance(value, dict) else {"": value}
    lines: list[str] = []
    for name, thought in thoughts.items():
        if not isinstance(thought, str):
            raise Unreadable('"assessment" is not a text')
        lines.append(f"{name}: {thought}" if name else thought)
    return clean_text("\n".join(lines))


def listed_objects(text: str, key: str) -> list[Any]:
    """Return the members of the list under `key`, of any type; the caller must check them.

    Raises:
        Unreadable: there is no such list, it is ambiguous or broken.
    """
    members = one_object(text, key)[key]
    if not isinstance(members, list):
        raise Unreadable(f'"{key}" is not a list')
    return members


def one_object(text: str, key: str) -> dict[str, Any]:
    """Return the only object of a text that has the key, with its names as `plain`.

    Raises:
        Unreadable: there is no such object, it is ambiguous or broken.
    """
    found = _found(text, key)
    if mentions(found.reasoning + found.before, key):
        raise Unreadable(f'it holds several objects with "{key}" that differ')
    return found.value


def _found(text: str, key: str) -> _Found:
    """Find the object with the key that ends a text; raise Unreadable if there is none or it may be a quotation."""
    stripped = text.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        whole = _decoded(stripped, key)
        if whole is not None and key in whole:
            return _Found(whole)
    end = text.rfind("}") + 1
    start = _opening(text, end)
    reasoning, answer = without_reasoning(text, slice(end if start is None else start, end))
    if start is not None and answer is not text:
        end = answer.rfind("}") + 1
        start = _opening(answer, end)
    try:
        value = _ending(answer, start, end, key)
    except Unreadable:
        if _names_key(answer, key):
            raise
        raise Unreadable(f'it holds no JSON object with "{key}"') from None
    return _Found(value, _without_lead(answer[:start]), reasoning)


def _ending(text: str, start: int | None, end: int, key: str) -> dict[str, Any]:
    """Read the object with the key between two positions; raise Unreadable if it is broken or text follows it."""
    if has_visible_text(_CLOSERS.sub("", text[end:])):
        if _is_open(text):
            raise Unreadable(_INCOMPLETE)
        if text[end:].lstrip().startswith("]"):
            raise Unreadable("it holds a list of verdicts where one verdict is wanted")
        raise Unreadable("something stands behind its JSON object")
    if start is not None and _is_open(text[:start]):
        raise Unreadable(_INCOMPLETE)
    value = None if start is None else _decoded(text[start:end], key)
    if value is None:
        raise Unreadable("its JSON object is not valid JSON")
    if key not in value:
        raise Unreadable(f'it holds no JSON object with "{key}"')
    return value


def _names_key(text: str, key: str) -> bool:
    """Whether the key occurs anywhere with a colon behind it, quoted or not."""
    naming = re.compile(rf"(?<!\w)[\"']?{re.escape(key)}[\"']?\s*:", re.IGNORECASE)
    return naming.search(folded(text)) is not None


def _is_open(text: str) -> bool:
    """Whether a brace in a text is not closed."""
    depth = 0
    if "{" in text:
        for brace in re.findall("[{}]", text):
            depth = max(0, depth + (1 if brace == "{" else -1))
    return depth > 0


def _opening(text: str, end: int) -> int | None:
    """Return where the object begins whose closing brace is just before `end`, if it is JSON. Scans backwards."""
    depth, quoted, block = 0, False, end
    while block > 0:
        block_start = max(0, block - _BLOCK)
        for at in reversed([mark.start() for mark in _BRACE_OR_QUOTE.finditer(text, block_start, block)]):
            char = text[at]
            if char == '"':
                quoted ^= not _is_escaped(text, at)
            elif not quoted:
                depth += 1 if char == "}" else -1
                if depth == 0:
                    return at
        block = block_start
    return None


def _is_escaped(text: str, at: int) -> bool:
    backslashes = 0
    while at > backslashes and text[at - backslashes - 1] == "\\":
        backslashes += 1
    return backslashes % 2 == 1


def _decoded(text: str, key: str) -> dict[str, Any] | None:
    """Decode an object, its names as `plain` (R4); None if the text is not one."""
    if text.count("{") + text.count("[") > _MAX_BRACKETS:
        return None
    key_values: list[Any] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        named = {looks(name): value for name, value in pairs}
        if len(named) < len(pairs):
            raise ValueError("a name stands twice")
        if key in named:
            key_values.append(named[key])
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=members, parse_constant=_refused)
    except ValueError:
        return None
    if any(other != key_values[0] for other in key_values):
        raise Unreadable("it holds several verdicts that differ")
    return {plain(name): member for name, member in value.items()}


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _without_lead(before: str) -> str:
    """Strip the markup that leads to an object from the text before it; raise Unreadable if it is quoted (R6)."""
    at = max(0, len(before) - _LEAD)
    line = _MARKUP.sub("", before[max(at, before.rfind("\n") + 1) :])
    bare = before[:at] + _MARKUP.sub("", before[at:])
    announcing = _SENTENCE.split(bare[bare.rfind("\n") + 1 :][-_LEAD:])[-1]
    if (_WITHIN_SENTENCE.search(line) and not _LABEL.search(line)) or _QUOTING.search(announcing):
        raise Unreadable("its JSON object reads as a quotation")
    return bare
