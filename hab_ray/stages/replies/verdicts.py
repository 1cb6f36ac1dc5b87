"""Reads verdicts and validations by our strict rules (`reading`) or as the published code does (`published`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from hab_ray.calls import Reply
from hab_ray.rubric import SCORE_START, VALIDATION_START, Reading, Rubric
from hab_ray.stages.prompts.literal import AnyWording
from hab_ray.stages.replies.copying import COPIED, ShownTexts
from hab_ray.stages.replies.published import Listed, loose_total, loose_verdict, tagged_score
from hab_ray.stages.replies.reading import Named, Unreadable, named_letters, whole_text


@dataclass(frozen=True)
class StrictVerdicts:
    """Reads verdicts by the rules of `reading`, and refuses copies of `shown` texts.

    `key` is the name of the list of letters. `is_strict`: unreadable replies are requested again.
    """

    key: str
    known: tuple[str, ...]
    shown: ShownTexts
    is_strict: bool = True

    def read(self, text: str) -> Named:
        """Read the only verdict of a reply. Raises Unreadable."""
        named = named_letters(text, self.key, self.known)
        if self.shown.holds(named.assessment):
            raise Unreadable(COPIED)
        return named


@dataclass(frozen=True)
class PublishedVerdicts:
    """Reads verdicts as the published code does, which keeps repeated letters; nothing is requested again."""

    key: str
    known: tuple[str, ...]
    is_strict: bool = False

    def read(self, text: str) -> Listed:
        """Read the object between a reply's first and last brace. Raises Unreadable."""
        return loose_verdict(text, self.key, self.known)


def score(rubric: Rubric, issues: Iterable[str]) -> int:
    """Return 10 minus the deductions of the issues, repetitions included, never below 0."""
    return max(0, SCORE_START - sum(map(rubric.deduction, issues)))


VerdictReader = StrictVerdicts | PublishedVerdicts


@dataclass(frozen=True)
class VerdictReaders:
    """The reader in force, and the other one if the rubric's wording is imported."""

    own: VerdictReader
    other: VerdictReader | None

    def other_score(self, rubric: Rubric, reply: Reply) -> int | None:
        """Return the score by the reader that is not in force; None if there is no such reader or score."""
        if self.other is None:
            return None
        try:
            text = whole_text(reply) if self.other.is_strict else reply.text
            return score(rubric, self.other.read(text).letters or ())
        except Unreadable:
            return None


def verdict_readers(rubric: Rubric, wording: AnyWording) -> VerdictReaders:
    """Return the readers of verdicts on a rubric that were requested in this wording."""
    literal, known, judging = rubric.literal_judging, rubric.issue_letters(), rubric.judging
    examples, criteria = (one.assessment for one in judging.examples), (issue.text for issue in judging.issues)
    shown = ShownTexts(wording, {"rubric": rubric, "prompt": "-", "context": "", "response": "-"}, examples, criteria)
    if literal is None or rubric.literal is None:
        return VerdictReaders(StrictVerdicts("issues", known, shown), None)
    strict, loose = StrictVerdicts(literal.key, known, shown), PublishedVerdicts(literal.key, known)
    return VerdictReaders(*((loose, strict) if rubric.literal.reading is Reading.PUBLISHED else (strict, loose)))


@dataclass(frozen=True)
class Validated:
    """A validation's score, the letters of its deductions, and its assessment."""

    score: int
    letters: tuple[str, ...] = ()
    assessment: str = ""


@dataclass(frozen=True)
class Validations:
    """Reads validations by a rubric's criteria. Imported wording requests a total instead of letters."""

    rubric: Rubric
    wording: AnyWording

    @cached_property
    def _deductions(self) -> Mapping[str, int]:
        return {criterion.letter: criterion.deduction for criterion in self.rubric.criteria}

    @cached_property
    def _letters(self) -> StrictVerdicts:
        validation, criteria = self.rubric.validation, (criterion.text for criterion in self.rubric.criteria)
        examples = (one.assessment for one in (validation.examples if validation else ()))
        shown = ShownTexts(self.wording, {"rubric": self.rubric, "prompt": "-", "context": ""}, examples, criteria)
        return StrictVerdicts("deductions", tuple(self._deductions), shown)

    def read(self, reply: Reply) -> Validated:
        """Compute 1000 minus the deductions of the letters, or read the reply's total. Raises Unreadable."""
        literal = self.rubric.literal
        if literal and literal.validation:
            is_strict = literal.reading is Reading.STRICT
            return Validated(tagged_score(whole_text(reply)) if is_strict else loose_total(reply.text))
        found = self._letters.read(whole_text(reply))
        deducted = sum(self._deductions[letter] for letter in found.letters)
        return Validated(max(0, VALIDATION_START - deducted), found.letters, found.assessment)
