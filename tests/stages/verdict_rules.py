"""What a reply says by the rules of reading, written apart from the reader: the two are compared on fuzzed replies.

Slow and plain on purpose.
"""

import html
import json
import re
import unicodedata
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hab_ray.calls import has_visible_text

TAGS = ("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "analysis", "seed:think")
FORMS = (
    (rf"<\s*({'|'.join(TAGS)})(?:\s[^<>]*)?>", r"<\s*/\s*TAG\s*>"),
    (r"\[THINK\]", r"\[/THINK\]"),
    (r"<\|\s*begin_of_thought\s*\|>", r"<\|\s*end_of_thought\s*\|>"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    (r"<\|channel\|>analysis[^<>]*<\|message\|>", r"<\|end\|>|<\|call\|>|(?=<\|start\|>)|(?=<\|channel\|>)"),
    (r"<\|channel\|>commentary[^<>]*<\|message\|>", r"<\|end\|>|<\|call\|>|(?=<\|start\|>)|(?=<\|channel\|>)"),
)
UNOPENED = "|".join(
    (
        rf"^[ \t]*<\s*/\s*(?:{'|'.join(TAGS)})\s*>",
        r"\[/THINK\]",
        r"<\|\s*end_of_thought\s*\|>",
        r"<\|END_THINKING\|>",
        "\u25c1/think\u25b7",
        r"<\|channel\|>final[^<>]*(?:<\|constrain\|>\w+)?<\|message\|>",
    )
)
MAX_BRACKETS = 500
ALIKE = dict(zip("\u0456\u0410\u0412\u0421\u0415\u2018\u2019\u201c\u201d`\u00ab\u00bb", 'iABCE\'\'""\'""', strict=True))
NOTHING = ("none", "no", "nothing", "null", "nil", "empty", "n")
FILLERS = ("and", "or", "only", "just", "the", "issue", "issues", "letter", "letters", "item", "li")
REFUSES = re.compile(
    r"(?<![\"'\w])I(?:'m sorry|'m unable|'m not able| am sorry| am unable| am not able"
    r"|(?: cannot| can't| won't| will not| must decline to| decline to| refuse to)(?: \w+)? "
    r"(?:judge|evaluate|assess|score|grade|rate|give|provide|comply|help|assist|continue|do))\b"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Nothing(Exception):
    """The reply holds no verdict that counts; the message says by which rule."""


def whole(text: str) -> str:
    """A text without halves of characters, which no file takes."""
    return _SURROGATE.sub("\ufffd", text)


@dataclass(frozen=True)
class Read:
    """A verdict: its letters in the rubric's order, and its words."""

    letters: tuple[str, ...]
    assessment: str


def last_object(text: str, key: str) -> tuple[dict[str, Any], str, str]:
    """The object with the key that ends a text; what stands before it; and before reasoning that nothing opened.

    Raises:
        Nothing: there is none, or it may be a quotation.
    """
    muted, said = aloud(text, _ending(text, text.rfind("}") + 1)[1])
    end = said.rfind("}") + 1
    if end == 0 or not is_closing(said[end:]):
        raise Nothing("no object ends it")
    value, start = _ending(said, end)
    names = [_plain(name) for name in value]
    if key not in names:
        raise Nothing("no key")
    found = {_plain(name): member for name, member in value.items()}
    if any(other != found[key] for other in _inside(value, key)):
        raise Nothing("says another thing inside")
    return found, _led(said[:start]), muted


def _ending(text: str, end: int) -> tuple[dict[str, Any], int]:
    for at, character in enumerate(text[:end]):
        if character == "{" and text.count("{", at, end) + text.count("[", at, end) <= MAX_BRACKETS:
            with suppress(ValueError):
                return json.loads(text[at:end], object_pairs_hook=_members, parse_constant=_refused), at
    raise Nothing("no JSON ends it")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({_looks(name) for name, _ in pairs}) < len(pairs):
        raise ValueError("a name appears twice")
    return dict(pairs)


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _inside(value: Any, key: str) -> list[Any]:
    if isinstance(value, list):
        return [found for member in value for found in _inside(member, key)]
    if not isinstance(value, dict):
        return []
    here = [member for name, member in value.items() if _looks(name) == key]
    return here + [found for member in value.values() for found in _inside(member, key)]


def is_closing(text: str) -> bool:
    """Whether what stands behind a verdict closes it: fences, tags, end tokens, and what nobody sees."""
    for pattern in (r"</[\w:.-]+\s*>", "<[|\uff5c]/?[\\w\u2581]+[|\uff5c]>", "~~~+", "`"):
        text = re.sub(pattern, "", text)
    return not has_visible_text(text)


def _led(before: str) -> str:
    """What stands before an object, without markup at its end. Raises Nothing where the object is quoted."""
    depth = 0
    for character in before:
        depth = max(0, depth + {"{": 1, "}": -1}.get(character, 0))
    line = _stripped(before[-300:].rpartition("\n")[2])
    head = before[: max(0, len(before) - 300)] + _stripped(before[-300:])
    sentence = re.split(r"[.!?](?=\s|$)|\}", head.rpartition("\n")[2][-300:])[-1].lower()
    label = re.search(r"(?<!\w)(json|verdict|answer|final|result|output)$", line.lower())
    within = line and (line[-1].isalnum() or line[-1] in "_,\"'\u2018\u201c\u00ab([" or not line.strip("> "))
    quoting = re.search(r"\bexample\s+\d|\b(planted|quoted|injected|embedded)\b", sentence) or re.search(
        r"\b(plants|quotes|injects|embeds|claims|pretends)( (this|that|its|a|one|verdict))*\W*$", sentence
    )
    if depth or (within and not label) or quoting:
        raise Nothing("quoted")
    return head


def _stripped(text: str) -> str:
    """A text without markup, tags and opening fences at its end."""
    while True:
        shorter = re.sub(r"(<[^<>\n]{1,120}>|(```+|~~~+)\w*|[`*_\s\x00])$", "", text)
        if shorter == text:
            return text
        text = shorter


def aloud(text: str, last: int) -> tuple[str, str]:
    """What is said, without reasoning; first what stands before an end of reasoning that nothing opened.

    The object that begins at `last` is said as it is.
    """
    said, at = "", 0
    while at < len(text):
        if at == last:
            inside = text[last : text.rfind("}") + 1]
            muted, rest = _muted(said)
            behind = "x" + text[last + len(inside) :]
            return muted, rest + inside + aloud(behind, -1)[1][1:]
        opened = next((form for form in FORMS if re.compile(form[0], re.I).match(text, at)), None)
        if opened is None:
            said, at = said + text[at], at + 1
            continue
        opening = re.compile(opened[0], re.I).match(text, at)
        assert opening
        closes = opened[1].replace("TAG", opening[1].lower() if opening.groups() else "")
        closing = re.compile(closes, re.I).search(text, opening.end())
        if closing:
            said, at = said + "\ufffc", closing.end()
            continue
        before = text[max(0, at - 80) : at].rstrip(" \t\r")
        if before.endswith(("\n", ">")) or (not before and at <= 80):
            return "", said + "\ufffc"
        said, at = said + opening.group(), opening.end()
    return "", said


def _muted(said: str) -> tuple[str, str]:
    tokens = "assistantfinal" if said.startswith(("analysis", "assistantfinal")) else UNOPENED
    ends = [found.end() for found in re.finditer(tokens, said, re.I | re.M)]
    return said[: max(ends, default=0)], said[max(ends, default=0) :]


def _plain(name: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf").casefold()


def _looks(name: str) -> str:
    return seen(name).casefold()


def seen(text: str) -> str:
    """A text as it looks: entities and escapes resolved, look-alikes and quotation marks made ordinary."""
    text = html.unescape(text)
    if "\\" in text:
        text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text).replace("\\", "")
    text = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    return "".join(ALIKE.get(c, c) for c in text)


def named_by(text: str, key: str, name_end: Callable[[str, int, int, str], int | None]) -> list[str]:
    """What follows each place where a text names the key, in the forms of which `name_end` knows the end."""
    stem = key.removesuffix("s")
    text, found, last = seen(text), [], 0
    for name in re.finditer(rf"{stem}{'s?' if key.endswith('s') else ''}", text, re.IGNORECASE):
        end = name_end(text, *name.span(), key)
        if end is not None and name.start() >= last:
            last = end
            found.append(text[end : end + 400])
            if end + 400 >= len(text) and not re.search(r"[\w\[\](){}]", text[end:]):
                found.pop()
    return found


def _json_name_end(text: str, start: int, end: int, key: str) -> int | None:
    found = re.match(r"\s*[\"']\s*[:=,|]", text[end:])
    return end + found.end() if found and text[:start].rstrip().endswith(("'", '"')) else None


def _name_end(text: str, start: int, end: int, key: str) -> int | None:
    before, after = text[:start], text[end:]
    if quoted := _json_name_end(text, start, end, key):
        return quoted
    if before.endswith("<") and (found := re.match(r"(\s[^<>\n]*)?>", after)):
        return end + found.end()
    if not before[-1:].isalnum() and (found := re.match(r"\s*=", after)):
        return end + found.end()
    head = before.rpartition("\n")[2]
    if text[start:end].lower() != key or not re.fullmatch(r"\W*(\w+[._])?", head):
        return None
    found = re.match(r"[^\w\n:|]*(:|\||$)", after, re.MULTILINE)
    return end + found.end() if found else None


def letters_of(value: str, allowed: Collection[str]) -> set[str] | None:
    """The letters at the beginning of what follows a name; None where other words stand there."""
    bracketed = re.match(r"[\s\"'*_:=>|,-]*\[([^\]]*)", value)
    words = re.split(r"\W+", bracketed[1] if bracketed else re.split(r"\n\s*\n", value.lstrip())[0])
    found: set[str] = set()
    for word in filter(None, words):
        if word in allowed:
            found.add(word)
        elif word.lower() not in FILLERS:
            return found if found or word.lower() in NOTHING else None
    return found


def in_words(text: str, key: str, allowed: Collection[str]) -> list[set[str]]:
    """The letters that a text calls its verdict, in words on one line."""
    text, stem, found = seen(text), key.removesuffix("s"), []
    name = rf"(?<!\w)(?:verdict|conclusion|final answer|{stem}s?)\b"
    says = r"[^\n.:;={}\"]{0,40}?(?:\bis\b|\bare\b|:|=|->|\u2192|\u2013|\u2014)"
    patterns = name + says, r"\bI (?:find|found|name|choose|conclude|flag)\b(?: that\b)?"
    for said in re.finditer("|".join(patterns), text, re.IGNORECASE):
        named = letters_of(text[said.end() : said.end() + 400].split("\n")[0], allowed)
        if named:
            found.append(named)
    heading = r"^[^\w\n]*(?:my |final |the )*verdict[^\w\n:|]*(?::|\||$)"
    for head in re.finditer(heading, text, re.IGNORECASE | re.MULTILINE):
        if named := letters_of(text[head.end() : head.end() + 400], allowed):
            found.append(named)
    return found


def _contradicts(before: str, muted: str, key: str, allowed: Collection[str], letters: Collection[str]) -> bool:
    values = [*named_by(before, key, _name_end), *named_by(muted, key, _json_name_end)]
    if any(named != set(letters) for named in [letters_of(value, allowed) for value in values]):
        return True
    if any(named != set(letters) for named in in_words(before, key, allowed)):
        return True
    text, letter = seen(before), f"[{''.join(allowed)}]"
    subject = rf"(?<![\w'])(?<!\bif )(?<!whether ){letter}(?:(?:, and |, | and | & ){letter})*"
    applies = rf"({subject}) (?:both |also |clearly )?appl(?:y|ies)\b(?! (?:if|when|where|only|unless|to)\b| ?\?)"
    said = "".join(found[1] for found in re.finditer(applies, text))
    return not {one for one in said if one in allowed} <= set(letters) or REFUSES.search(text) is not None


def read_letters(text: str, key: str, allowed: Collection[str], truncated: bool) -> Read:
    """The one verdict of a reply. Raises Nothing."""
    if truncated:
        raise Nothing("truncated")
    value, before, muted = last_object(text, key)
    verdict = _letters(value, key, allowed)
    if _contradicts(before, muted, key, allowed, verdict.letters):
        raise Nothing("something else is said before it")
    return verdict


def _letters(value: dict[str, Any], key: str, allowed: Collection[str]) -> Read:
    named, words = value[key], value.get("assessment", "")
    if isinstance(words, dict) and all(isinstance(thought, str) for thought in words.values()):
        words = "\n".join(f"{about}: {thought}" if about else thought for about, thought in words.items())
    if not isinstance(named, list) or not isinstance(words, str):
        raise Nothing("a wrong type")
    if not all(isinstance(letter, str) and letter in allowed for letter in named):
        raise Nothing("not a letter")
    return Read(tuple(letter for letter in allowed if letter in named), whole(words))


def read_list(text: str, key: str, truncated: bool) -> list[Any]:
    """The one list of a reply, before which nothing else goes by its key. Raises Nothing."""
    if truncated:
        raise Nothing("truncated")
    value, before, muted = last_object(text, key)
    if named_by(muted + before, key, _name_end):
        raise Nothing("something is said before it")
    members = value[key]
    if not isinstance(members, list):
        raise Nothing("a wrong type")
    return members
