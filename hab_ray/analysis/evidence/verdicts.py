"""Signs in a judge's verdicts on a dimension: copies, one assessment for all, every issue at once, denied issues."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from hab_ray.analysis.marks import ScoreSettings
from hab_ray.results import Run, rows_in
from hab_ray.rows import State
from hab_ray.rubric import Rubric
from hab_ray.stages.replies.copying import COPIED

_COLUMNS = ("test_id", "state", "issues", "assessment", "reason")
_WORD = re.compile(r"\w+")
_LETTER = re.compile(r"^[^\w\n]*(\w)[^\w\n]*[:.)]", re.MULTILINE)


def _words(said: str) -> str:
    return " ".join(_WORD.findall(said.casefold()))


_NAMED = ("", "it ", "this ", "issue ", "the issue ", "this issue ")
_PLAIN_DENIALS = {
    *(_words(f"{named}{denied}") for named in _NAMED for denied in ("does not apply", "doesn't apply")),
    *(f"{named}is not present" for named in _NAMED[3:]),
    *map(_words, ("not applicable", "n/a", "not an issue", "no issue", "no issues", "no issue found")),
}
_BARE_DENIALS = {"none", "none found", "no", "not present", "not found", "not observed", "absent", "false"}
_DENIALS = _PLAIN_DENIALS | _BARE_DENIALS


@dataclass(frozen=True, slots=True)
class Denial:
    """A verdict that lists issues of which its assessment says that they are not there."""

    subject: str
    test: str
    letters: tuple[str, ...]


@dataclass(frozen=True)
class VerdictTexts:
    """Counts of a judge's verdicts on all subjects in a dimension.

    Of the `ended` ones `scored` have a score and `copied` repeat the request instead of assessing. Of the scored ones
    `everything` name every issue there is, `alike` have the commonest assessment, in whatever spelling, and
    `denied` list an issue that their assessment denies, the first of them as an `example`.
    """

    judge: str
    dimension: str
    ended: int
    scored: int
    copied: int
    everything: int
    alike: int
    denied: int
    example: Denial | None


def read_verdicts(run: Run, settings: ScoreSettings, rubrics: Mapping[str, Rubric]) -> Iterator[VerdictTexts]:
    """The counts of every judge in every dimension, one file of the run held at a time.

    Raises:
        DamagedFile: a file of the run cannot be read.
    """
    for judge, dimension in product(settings.panel, settings.tests):
        yield _of_part(run, settings, judge, rubrics[dimension])


def _of_part(run: Run, settings: ScoreSettings, judge: str, rubric: Rubric) -> VerdictTexts:
    every, said = len(rubric.issue_letters()), Counter[str]()
    ended = scored = copied = everything = 0
    denials: list[Denial] = []
    for subject in settings.subjects:
        table = run.verdicts(judge, subject, rubric.id, columns=_COLUMNS)
        for test, state, issues, assessment, reason in rows_in(table):
            ended += 1
            copied += state == State.UNREADABLE and COPIED in reason
            if state == State.OK:
                scored += 1
                everything += issues is not None and len(set(issues)) == every
                said[" ".join(assessment.casefold().split())] += 1
                if letters := denied_letters(assessment, issues or ()):
                    denials.append(Denial(subject, test, letters))
    del said[""]
    alike = max(said.values(), default=0)
    return VerdictTexts(
        judge, rubric.id, ended, scored, copied, everything, alike, len(denials), denials[0] if denials else None
    )


def denied_letters(assessment: str, listed: Iterable[str]) -> tuple[str, ...]:
    """The listed letters of which an assessment, one thought a line, says nothing but that the issue is not there.

    A bare "no" or "none" may as well agree with an issue that itself says what an answer lacks. It counts only where
    all thoughts of the verdict deny, so that none tells what is listed from what is not.
    """
    parts = _LETTER.split(assessment)
    thoughts = dict(zip(parts[1::2], map(_words, parts[2::2]), strict=True))
    if not _DENIALS.issuperset(thoughts.values()):
        thoughts = {letter: thought for letter, thought in thoughts.items() if thought in _PLAIN_DENIALS}
    return tuple(letter for letter in dict.fromkeys(listed) if letter in thoughts)
