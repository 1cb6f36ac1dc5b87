"""Signs of trouble in a judge's verdicts: copies, repeated assessments, every issue listed, issues that it denies."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product

from hab_ray.analysis.marks import ScoreSettings
from hab_ray.results import Run, rows_in
from hab_ray.rows import State
from hab_ray.rubric import Rubric
from hab_ray.stages.replies.copying import COPIED

_COLUMNS = ("test_id", "state", "issues", "assessment", "reason")
_WORD = re.compile(r"\w+")
_MAX_WORDS, _BEGINNING = 6, 20
_MIN_ISSUES = 3  # an answer may well have one issue, or two that go together
_LETTER = re.compile(r"^[^\w\n]*(\w)[^\w\n]*[:.)]", re.MULTILINE)


def _words(text: str) -> str:
    """Return the first words, one more than any denial has."""
    return " ".join(word.group() for word in islice(_WORD.finditer(text), _MAX_WORDS)).casefold()


_SUBJECTS = ("", "it ", "this ", "issue ", "the issue ", "this issue ")
_PLAIN_DENIALS = {
    *(_words(f"{subject}{verb}") for subject in _SUBJECTS for verb in ("does not apply", "doesn't apply")),
    *(f"{subject}is not present" for subject in _SUBJECTS[3:]),
    *map(_words, ("not applicable", "n/a", "not an issue", "no issue", "no issues", "no issue found")),
}
_BARE_DENIALS = {"none", "none found", "no", "not present", "not found", "not observed", "absent", "false"}
_DENIALS = _PLAIN_DENIALS | _BARE_DENIALS


@dataclass(frozen=True, slots=True)
class Denial:
    """A verdict that lists issues which its own assessment denies."""

    subject: str
    test: str
    letters: tuple[str, ...]


@dataclass(frozen=True)
class VerdictTexts:
    """Counts of a judge's verdicts on all subjects in a dimension.

    Of the `ended` ones, `scored` have a score and `copied` repeat the request instead of assessing. Of the scored ones,
    `everything` name every issue of a rubric with three or more, `alike` share the most common assessment (ignoring
    case and spacing), and `denied` list an issue that their assessment denies; `example` is the first of these.
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
    """Count the verdicts of every judge in every dimension; holds one file of the run at a time.

    Raises:
        DamagedFile: a file of the run cannot be read.
    """
    for judge, dimension in product(settings.panel, settings.tests):
        yield _of_part(run, settings, judge, rubrics[dimension])


def _of_part(run: Run, settings: ScoreSettings, judge: str, rubric: Rubric) -> VerdictTexts:
    issue_count, assessments = len(rubric.issue_letters()), list[str]()
    ended = scored = copied = everything = 0
    denials: list[Denial] = []
    for subject in settings.subjects:
        table = run.verdicts(judge, subject, rubric.id, columns=_COLUMNS)
        for test, state, issues, assessment, reason in rows_in(table):
            ended += 1
            copied += state == State.UNREADABLE and COPIED in reason
            if state == State.OK:
                scored += 1
                everything += issues is not None and len(set(issues)) == issue_count >= _MIN_ISSUES
                assessments.append(assessment)
                if issues and (letters := denied_letters(assessment, issues)):
                    denials.append(Denial(subject, test, letters))
    alike, example = _most_alike(assessments), denials[0] if denials else None
    return VerdictTexts(judge, rubric.id, ended, scored, copied, everything, alike, len(denials), example)


def _most_alike(assessments: Iterable[str]) -> int:
    """Return how many share the most common text; only those that begin alike are compared as a whole."""
    by_beginning: dict[str, list[str]] = defaultdict(list)
    for each in assessments:
        by_beginning[" ".join(each.split(maxsplit=_BEGINNING)[:_BEGINNING]).casefold()].append(each)
    by_beginning.pop("", None)
    most = 0
    for group in by_beginning.values():
        if len(group) > most:
            most = max(most, *Counter(" ".join(each.split()).casefold() for each in group).values())
    return most


def denied_letters(assessment: str, listed: Iterable[str]) -> tuple[str, ...]:
    """Return the listed letters whose line in the assessment only denies the issue.

    A bare "no" or "none" may also confirm an issue that describes what an answer lacks. It counts only if every line of
    the assessment is a denial, which then does not distinguish listed issues from others.
    """
    parts = _LETTER.split(assessment)
    lines = dict(zip(parts[1::2], parts[2::2], strict=True))
    denied = {letter: words for letter in listed if (words := _words(lines.get(letter, ""))) in _DENIALS}
    if denied and not _DENIALS.issuperset(map(_words, lines.values())):
        return tuple(letter for letter, words in denied.items() if words in _PLAIN_DENIALS)
    return tuple(denied)
