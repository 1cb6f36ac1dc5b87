"""Reads verdicts and validations: letters by our rules, or as imported wording and the published code have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hab_ray.calls import Reply
from hab_ray.rubric import SCORE_START, VALIDATION_START, Reading, Rubric
from hab_ray.stages.prompts.literal import AnyWording
from hab_ray.stages.replies.copying import COPIED, ShownTexts
from hab_ray.stages.replies.published import Listed, loose_total, loose_verdict, tagged_score
from hab_ray.stages.replies.reading import Unreadable, named_letters, whole_text


@dataclass(frozen=True)
class StrictVerdicts:
    """By the rules of `reading`; a copy of what was `shown` is no verdict. `key` is the list's name in the reply.

    `is_strict`: a letter counts once, and what is unreadable is asked again.
    """

    key: str
    known: tuple[str, ...]
    shown: ShownTexts
    is_strict: bool = True

    def read(self, text: str) -> Listed:
        """The one verdict of a reply, or raises Unreadable."""
        named = named_letters(text, self.key, self.known)
        if self.shown.holds(named.assessment):
            raise Unreadable(COPIED)
        return Listed(named.letters, named.assessment)

    def score(self, rubric: Rubric, letters: Sequence[str]) -> int:
        """10 minus the deductions of the distinct letters."""
        return score(rubric, letters)


@dataclass(frozen=True)
class PublishedVerdicts:
    """As the published code reads them: each time a letter is named costs, and nothing is asked again."""

    key: str
    known: tuple[str, ...]
    is_strict: bool = False

    def read(self, text: str) -> Listed:
        """What stands from a reply's first brace to its last, or raises Unreadable."""
        return loose_verdict(text, self.key, self.known)

    def score(self, rubric: Rubric, letters: Sequence[str]) -> int:
        """10 minus the deductions of the letters, each as often as it is named."""
        return _left(rubric, letters)


def score(rubric: Rubric, issues: Iterable[str]) -> int:
    """10 minus the deductions of the distinct issues, never below 0."""
    return _left(rubric, set(issues))


def _left(rubric: Rubric, letters: Iterable[str]) -> int:
    return max(0, SCORE_START - sum(map(rubric.deduction, letters)))


VerdictReader = StrictVerdicts | PublishedVerdicts


@dataclass(frozen=True)
class VerdictReaders:
    """The reader in force, and the other one where wording is imported."""

    own: VerdictReader
    other: VerdictReader | None

    def other_score(self, rubric: Rubric, reply: Reply) -> int | None:
        """The score by the rules that are not in force; None where they find none."""
        if (other := self.other) is None:
            return None
        try:
            text = whole_text(reply) if other.is_strict else reply.text
            return other.score(rubric, other.read(text).letters or ())
        except Unreadable:
            return None


def verdict_readers(rubric: Rubric, wording: AnyWording) -> VerdictReaders:
    """How the verdicts of a rubric, asked for in this wording, are read."""
    literal, known, judging = rubric.literal_judging, rubric.issue_letters(), rubric.judging
    own, criteria = (one.assessment for one in judging.examples), (issue.text for issue in judging.issues)
    shown = ShownTexts(wording, {"rubric": rubric, "prompt": "-", "context": "", "response": "-"}, own, criteria)
    if literal is None or rubric.literal is None:
        return VerdictReaders(StrictVerdicts("issues", known, shown), None)
    strict, loose = StrictVerdicts(literal.key, known, shown), PublishedVerdicts(literal.key, known)
    return VerdictReaders(*((loose, strict) if rubric.literal.reading is Reading.PUBLISHED else (strict, loose)))


@dataclass(frozen=True)
class Validated:
    """A validation's score, the letters that cost it points, and its words."""

    score: int
    letters: tuple[str, ...] = ()
    assessment: str = ""


@dataclass(frozen=True)
class Validations:
    """Reads validations by a rubric's criteria; imported wording asks for a total instead of letters."""

    rubric: Rubric
    wording: AnyWording

    @cached_property
    def _deductions(self) -> Mapping[str, int]:
        return {criterion.letter: criterion.deduction for criterion in self.rubric.criteria}

    @cached_property
    def _letters(self) -> StrictVerdicts:
        examples = self.rubric.validation.examples if self.rubric.validation else ()
        own, criteria = (one.assessment for one in examples), (criterion.text for criterion in self.rubric.criteria)
        shown = ShownTexts(self.wording, {"rubric": self.rubric, "prompt": "-", "context": ""}, own, criteria)
        return StrictVerdicts("deductions", tuple(self._deductions), shown)

    def read(self, reply: Reply) -> Validated:
        """1000 points minus the deductions of the letters, or the total that the reply holds; or raises Unreadable."""
        literal = self.rubric.literal
        if literal and literal.validation:
            is_strict = literal.reading is Reading.STRICT
            return Validated(tagged_score(whole_text(reply)) if is_strict else loose_total(reply.text))
        found = self._letters.read(whole_text(reply))
        letters = found.letters or ()
        lost = sum(self._deductions[letter] for letter in letters)
        return Validated(max(0, VALIDATION_START - lost), letters, found.assessment)
