"""What planted judges look for in their requests.

A judge of a dimension whose issues are worded must be shown all of these, in whatever order and layout: each issue
under its letter, the test to which an answer was given, the context of that test, and the answer, whole. It gives no
verdict where one of them is missing or belongs to something else, and what was missing is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b, sha256

from pydantic import Field

from hab_simulator.settings import Settings, Share
from hab_simulator.truth.draws import unit

TOP = 10
RAREST, COMMONEST = 0.1, 0.5
# A client may break marks of chat templates and codes by one of these signs, and show control characters as pictures.
_IGNORED = re.compile("[-|\uff5c¦\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u2400-\u2421]+")
_LETTER_ALONE = re.compile(r"(?<!\w)[A-Z](?!\w)")
_BEFORE = 40


class PlantedIssue(Settings):
    """One issue: its letter, what it costs of 10 points, how probable it is in an answer, and how it is worded.

    A judge must be shown the wording; "" = none is looked for.
    """

    letter: str = Field(pattern="^[A-Z]$")
    deduction: int = Field(ge=0, le=TOP)
    probability: Share
    text: str = ""

    @classmethod
    def drawn(cls, seed: int, dimension: str, letter: str, deduction: int, text: str = "") -> PlantedIssue:
        """An issue whose probability, 0.1 to 0.5, is drawn from the seed."""
        share = unit(seed, "probability", dimension, letter)
        probability = RAREST + (COMMONEST - RAREST) * share
        return cls(letter=letter, deduction=deduction, probability=probability, text=text)


def normal(text: str) -> str:
    """A text as it is compared: white space as single spaces, without signs that a client may add or change."""
    return " ".join(_IGNORED.sub("", text).split())


def spaced(text: str) -> str:
    """The digest (hex) of a text with its white space, but without signs that a client may add or change."""
    return _digest(_IGNORED.sub("", text)).hex()


@dataclass(frozen=True, slots=True)
class Marked:
    """The mark of an answer, as it stands in it and in parts; `seen` tells given answers apart that have equal ones."""

    whole: str
    dimension: str
    letters: str
    seen: str = ""


@dataclass(frozen=True, slots=True)
class Judging:
    """The answers that judges may be shown, by their marks, and what requests to judge them lacked.

    By the sha256 (hex) of the prompt, `contexts` are the tests' contexts, `_prompts` the prompts in normal form, and
    `_given` the answers with a mark: the length and digest of each in normal form.
    """

    contexts: dict[str, str]
    _prompts: dict[str, str] = field(default_factory=dict)
    _given: dict[str, dict[str, set[tuple[int, bytes]]]] = field(default_factory=dict)
    _missed: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def note_answer(self, mark: str, prompt: str, text: str) -> None:
        """Remember an answer, so that it is known when it is judged."""
        digest = sha256(prompt.encode("utf-8", "replace")).hexdigest()
        if digest not in self._prompts:
            self._prompts[digest] = normal(prompt)
        shown = normal(text)
        self._given.setdefault(mark, {}).setdefault(digest, set()).add((len(shown), _digest(shown)))

    def note_missing(self, judge: str, dimension: str, what: str) -> None:
        """Count a request that lacks something."""
        self._missed[judge, dimension, what] += 1

    def lacks(self, marks: Sequence[Marked], transcript: str) -> str | None:
        """The first thing that a request to judge an answer with these marks lacks, beside issues."""
        if len({mark.whole for mark in marks}) > 1:
            return "one answer alone: it holds several"
        shown = normal(transcript)
        tests = self._given.get(marks[0].whole)
        if tests is None:
            return "an answer that was given: nobody gave this one"
        found = [self._lacking_of_test(prompt, answers, marks[0], shown) for prompt, answers in tests.items()]
        return None if None in found else found[0]

    def _lacking_of_test(self, digest: str, answers: set[tuple[int, bytes]], mark: Marked, shown: str) -> str | None:
        prompt = self._prompts[digest]
        if prompt not in shown:
            return "the test to which the answer was given"
        if normal(self.contexts.get(digest, "")) not in shown.replace(prompt, ""):
            return "the context of the test"
        return None if any(_holds(shown, mark.whole, *answer) for answer in answers) else "the whole answer"

    def missed(self) -> list[Mapping[str, object]]:
        """Wire JSON of `GET /_truth/missing`."""
        return [
            {"judge": judge, "dimension": dimension, "what": what, "requests": requests}
            for (judge, dimension, what), requests in sorted(self._missed.items())
        ]


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def wording_shown(wordings: Sequence[Sequence[PlantedIssue]], transcript: str) -> int:
    """The number of the wording of a dimension's issues that a request holds in its order; 0 where it holds none.

    Of several the longest counts: one may be part of another.
    """
    if len(wordings) == 1:
        return 0
    shown = normal(transcript)
    held = [number for number, issues in enumerate(wordings) if _in_order(issues, shown)]
    return max(held, key=lambda number: sum(len(issue.text) for issue in wordings[number]), default=0)


def _in_order(issues: Sequence[PlantedIssue], shown: str) -> bool:
    places = [shown.find(normal(issue.text)) for issue in issues]
    return -1 not in places and places == sorted(places)


def lacking_issue(issues: Sequence[PlantedIssue], transcript: str) -> str | None:
    """The first issue that a request lacks."""
    shown = normal(transcript)
    return next((lack for issue in issues if (lack := _lacking_issue(issue, shown))), None)


def _lacking_issue(issue: PlantedIssue, shown: str) -> str | None:
    text = normal(issue.text)
    if not text:
        return None
    letters = list(_letters_before(text, shown))
    if not letters:
        return f"issue {issue.letter}"
    return None if issue.letter in letters else f"issue {issue.letter} under its letter"


def _letters_before(text: str, shown: str) -> Iterator[str]:
    """The last capital that stands alone shortly before each place of a text; "" where there is none."""
    at = shown.find(text)
    while at >= 0:
        alone = _LETTER_ALONE.findall(shown[max(0, at - _BEFORE) : at])
        yield alone[-1] if alone else ""
        at = shown.find(text, at + 1)


def _holds(shown: str, mark: str, length: int, digest: bytes) -> bool:
    at = shown.find(mark)
    return at >= 0 and _digest(shown[at : at + length]) == digest
