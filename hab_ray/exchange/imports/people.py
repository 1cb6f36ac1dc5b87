"""The raters of imported scores: judges with issue letters and failures, people under pseudonyms."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

from hab_ray.calls import clean_text
from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.scored import Form, Scored, is_empty
from hab_ray.exchange.imports.source import name_in
from hab_ray.given.ratings import number_in
from hab_ray.given.responses import ERROR_MARKS
from hab_ray.inputs.csv_text import NO_ISSUES
from hab_ray.rows import Rater
from hab_ray.rubric import Rubric
from hab_ray.stages.replies.reading import Unreadable, named_letters
from hab_ray.stages.replies.verdicts import score as score_of

Cells = Mapping[str, str | int | float | None]
_KEYS = ("issues", "deductions")
_QUOTED = re.compile(r"'(issues|assessment)'")

# Of the raters in an export of ours: a run may have had o3 beside the published o3.
_PREFIXES: Mapping[str, str] = {Rater.MODEL: "earlier ", Rater.PUBLISHED: ""}


@dataclass
class Judges:
    """Judges of an earlier study. `unread` counts verdicts whose issues cannot be read with certainty."""

    rubrics: Mapping[str, Rubric]
    unread: int = 0
    kind: ClassVar = Rater.PUBLISHED
    others: ClassVar[Mapping[str, str]] = {Rater.PERSON: "by people and left out; `hab import ratings` reads them"}
    forms: ClassVar = (Form.ROWS, Form.OBJECT)
    columns: ClassVar = ("issues", "reply")

    def failure(self, scored: Scored, dimension: str) -> str:
        """Return why the published code had no verdict to score, or "".

        That code scored failures 0, and replies that name no issues 10. So an empty or broken reply is a failure only
        if its score is 0; a different score shows that another reader could read the reply.
        """
        if not isinstance(scored.reply, str) or not is_empty(scored.issues):
            return ""
        text, is_zero = scored.reply.strip(), number_in(scored.score) == 0
        if not text:
            return "the reply is empty" if is_zero else ""
        if text.startswith(ERROR_MARKS):
            return "the reply is an error text"
        start, end = text.find("{"), text.rfind("}")
        if not 0 <= start < end:
            return "the reply holds no JSON"
        keys = _keys(self.rubrics.get(dimension))
        if not any(f"{quote}{key}{quote}" in text for key in keys for quote in "'\""):
            return "the reply names no issues"
        try:
            found = json.loads(_repaired(text[start : end + 1]))
        except (ValueError, RecursionError):
            return "the reply is no JSON that can be read" if is_zero else ""
        listed = [found[key] for key in keys if isinstance(found, dict) and key in found]
        if not listed:
            return "the reply names no issues"
        return "the reply's issues are no list" if is_zero and not isinstance(listed[0], list | str) else ""

    def cells(self, scored: Scored, score: float | None, dimension: str, place: int, where: str) -> Cells:
        """Return the judge's name and issue letters."""
        rater = f"{_PREFIXES.get(scored.kind, 'published ')}{name_in(scored.rater, 'rater', where)}"
        return {"rater": rater, "issues": None if score is None else self._issues(scored, score, dimension)}

    def _issues(self, scored: Scored, score: float, dimension: str) -> str | None:
        rubric = self.rubrics.get(dimension)
        if rubric is None or (is_empty(scored.issues) and is_empty(scored.reply)):
            return None
        is_listed = not is_empty(scored.issues)
        letters = _in_column(scored.issues, rubric) if is_listed else _in_reply(scored.reply, score, rubric)
        self.unread += letters is None
        return None if letters is None else ", ".join(letters) or NO_ISSUES

    def notes(self) -> Iterator[str]:
        """Yield notes for the user."""
        if self.unread:
            yield f"the issues of {self.unread:,} verdicts cannot be read for certain and are left unknown"


@dataclass
class People:
    """People under pseudonyms, numbered in order of first appearance."""

    with_comments: bool
    pseudonyms: dict[str, str] = field(default_factory=dict)
    unnamed: int = 0
    kind: ClassVar = Rater.PERSON
    others: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (Rater.MODEL, Rater.PUBLISHED), "by judges and left out; `hab import verdicts` reads them"
    )
    forms: ClassVar = (Form.LIST, Form.ROWS, Form.OBJECT)
    columns: ClassVar = ("comment", "annotations")

    def failure(self, scored: Scored, dimension: str) -> str:
        """Return "": a person without a score has no rating that could have failed."""
        return ""

    def cells(self, scored: Scored, score: float | None, dimension: str, place: int, where: str) -> Cells:
        """Return the pseudonym and, if wanted, the comment.

        Raises:
            ConfigError: only some ratings name their raters.
        """
        text = scored.comment if isinstance(scored.comment, str) and scored.comment.strip() else None
        comment = {"comment": None if text is None else clean_text(text)} if self.with_comments else {}
        return {"rater": self._pseudonym(scored.rater, place, where), **comment}

    def _pseudonym(self, name: str, place: int, where: str) -> str:
        self.unnamed += not name
        found = self.pseudonyms.setdefault(name, f"person-{len(self.pseudonyms) + 1}") if name else f"person-{place}"
        if self.unnamed and self.pseudonyms:
            raise ConfigError(f"{where}: some ratings up to here name their raters and some do not; complete the names")
        return found

    def notes(self) -> Iterator[str]:
        """Yield notes for the user."""
        if self.unnamed:
            yield "NOTE: ratings have no names: person-1 is the first rating of each row, and not one person"
        yield f"comments are {'kept, and may name people' if self.with_comments else 'left out; --comments keeps them'}"


Raters = Judges | People
"""A kind of rater: the forms and columns of its scores, the cells kept beside a score, and who `others` are.

`place` counts the scores of a row from 1.
"""


def _keys(rubric: Rubric | None) -> tuple[str, ...]:
    literal = rubric.literal_judging if rubric else None
    return tuple(dict.fromkeys((*([literal.key] if literal else []), *_KEYS)))


def _repaired(reply: str) -> str:
    """Return a reply with double quotes around its keys, as the published code repairs them."""
    return _QUOTED.sub(r'"\1"', reply)


def _in_column(issues: Any, rubric: Rubric) -> tuple[str, ...] | None:
    """Return the letters listed in a cell; None if it holds anything else."""
    if isinstance(issues, str):
        issues = [] if issues.strip().lower() == NO_ISSUES else re.split(r"[\s,;]+", issues.strip(" \t\r\n[](),;"))
    known = rubric.issue_letters()
    if not isinstance(issues, list) or not all(letter in known for letter in issues):
        return None
    return tuple(letter for letter in known if letter in issues)


def _in_reply(reply: Any, score: float, rubric: Rubric) -> tuple[str, ...] | None:
    """Return the letters of a judge's reply if they are readable, as it is or repaired, and yield the score."""
    for key, text in product(_keys(rubric), dict.fromkeys((str(reply), _repaired(str(reply))))):
        try:
            letters = named_letters(text, key, rubric.issue_letters()).letters
        except Unreadable:
            continue
        if score_of(rubric, letters) == score:
            return letters
    return None
