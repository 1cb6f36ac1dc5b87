"""Who gave imported scores, and what is kept of them: judges with their letters, people without their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hab_ray.calls import clean_text
from hab_ray.exchange.imports.scored import Scored, is_empty
from hab_ray.exchange.imports.source import name_in
from hab_ray.rows import Rater
from hab_ray.rubric import Rubric
from hab_ray.stages.judge import score as score_of
from hab_ray.stages.reading import Unreadable, named_letters
from hab_ray.storage.given_ratings import NO_ISSUES, whole_score

Cells = Mapping[str, str | int | None]
_KEYS = ("issues", "deductions")


class Raters(Protocol):
    """Who scored, and what is kept of that beside the score."""

    kind: Rater

    def cells(self, scored: Scored, dimension: str, place: int, where: str) -> Cells:
        """`rater`, and further columns. `place` counts the scores of a row from 1."""

    def notes(self) -> Iterator[str]:
        """What has to be said."""


@dataclass
class Judges:
    """Judges of an earlier study. `unread` counts those of their issues that are not known for certain."""

    rubrics: Mapping[str, Rubric]
    unread: int = 0
    kind: Rater = Rater.PUBLISHED

    def cells(self, scored: Scored, dimension: str, place: int, where: str) -> Cells:
        """The judge's name and letters."""
        rater = f"published {name_in(scored.rater, 'rater', where)}"
        return {"rater": rater, "issues": self._issues(scored, dimension)}

    def _issues(self, scored: Scored, dimension: str) -> str | None:
        rubric = self.rubrics.get(dimension)
        if rubric is None or (is_empty(scored.issues) and is_empty(scored.reply)):
            return None
        letters = _in_reply(scored, rubric) if is_empty(scored.issues) else _in_column(scored.issues, rubric)
        self.unread += letters is None
        return None if letters is None else ", ".join(letters) or NO_ISSUES

    def notes(self) -> Iterator[str]:
        """See `Raters`."""
        if self.unread:
            yield f"the issues of {self.unread:,} verdicts cannot be read for certain and are left unknown"


@dataclass
class People:
    """People by pseudonym, which is the order in which they first come."""

    with_comments: bool
    pseudonyms: dict[str, str] = field(default_factory=dict)
    unnamed: int = 0
    kind: Rater = Rater.PERSON

    def cells(self, scored: Scored, dimension: str, place: int, where: str) -> Cells:
        """The pseudonym and, if they are wanted, the comments."""
        return {"rater": self._pseudonym(scored.rater, place)} | self._comment(scored.comment)

    def _pseudonym(self, name: str, place: int) -> str:
        if not name:
            self.unnamed += 1
            return f"person-{place}"
        return self.pseudonyms.setdefault(name, f"person-{len(self.pseudonyms) + 1}")

    def _comment(self, said: object) -> dict[str, str | None]:
        if not self.with_comments:
            return {}
        return {"comment": clean_text(said) if isinstance(said, str) and said.strip() else None}

    def notes(self) -> Iterator[str]:
        """See `Raters`."""
        if self.unnamed:
            yield "NOTE: ratings have no names: person-1 is the first rating of each row, and not one person"
        yield f"comments are {'kept, and may name people' if self.with_comments else 'left out; --comments keeps them'}"


def _in_column(issues: object, rubric: Rubric) -> tuple[str, ...] | None:
    """The letters that a column lists; None where it holds anything else."""
    if isinstance(issues, str):
        issues = [] if issues.strip().lower() == NO_ISSUES else re.split(r"[\s,;]+", issues.strip(" \t\r\n[](),;"))
    known = rubric.issue_letters()
    if not isinstance(issues, list) or not all(letter in known for letter in issues):
        return None
    return tuple(letter for letter in known if letter in issues)


def _in_reply(scored: Scored, rubric: Rubric) -> tuple[str, ...] | None:
    """The letters of a judge's reply, if it is read without doubt and they make the score."""
    literal = rubric.literal_judging
    for key in dict.fromkeys((*([literal.key] if literal else []), *_KEYS)):
        try:
            letters = named_letters(str(scored.reply), key, rubric.issue_letters()).letters
        except Unreadable:
            continue
        if score_of(rubric, letters) == whole_score(scored.score):
            return letters
    return None
