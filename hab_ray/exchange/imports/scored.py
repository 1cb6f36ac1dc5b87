"""How tables hold several raters' scores: one a row, one a column, or several in one cell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.columns import NAMES, snake
from hab_ray.inputs.files import BadInput
from hab_ray.inputs.json_text import parse_json
from hab_ray.visible import one_line

_SAID = ("score", "issues", "reply", "comment")
_WIDE = re.compile(rf"({'|'.join(_SAID)}):(.+)", re.DOTALL)


class Form(StrEnum):
    """Where the scores are: `score` with `rater` beside it, `score:NAME` for each rater, or in the cells of one column.

    A cell of `scores` is an object of scores by rater, a cell of `annotations` a list of objects with a rater, a score
    and a comment; either may be the text of one.
    """

    ROWS = "score"
    COLUMNS = "score:NAME"
    OBJECT = "scores"
    LIST = "annotations"


@dataclass(frozen=True)
class Scored:
    """A rater's score of the answer in one row, as the table has it. `rater` is "" where nothing says who it is.

    `reply` is None where the table has no replies, and "" where it has them and this one is null.
    """

    rater: str
    score: Any
    issues: Any = None
    reply: Any = None
    comment: Any = None

    @classmethod
    def of(cls, rater: Any, said: Mapping[str, Any]) -> Scored:
        """What columns say of a rater."""
        name = str(rater).strip() if isinstance(rater, str | int) and not isinstance(rater, bool) else ""
        reply = "" if "reply" in said and said["reply"] is None else said.get("reply")
        return cls(name, said.get("score"), said.get("issues"), reply, said.get("comment"))


def is_wide(ours: str) -> bool:
    """Whether a column is one rater's, such as `score:NAME`."""
    return _WIDE.fullmatch(ours) is not None


def form_of(columns: Sequence[str], given: Sequence[str], preferred: Sequence[Form]) -> Form:
    """The form in which a table has scores: the one that is given, else the first of those preferred that is there.

    Raises:
        ConfigError: there is none, or several are given.
    """
    by_column = {name: _form(name) for name in columns}
    stated = {form for name in given if (form := by_column.get(name)) is not None}
    if len(stated) > 1:
        raise ConfigError(f"--column: {' and '.join(sorted(stated))} are given; scores come in one of these forms")
    found = next((form for form in (*stated, *preferred) if form in by_column.values()), None)
    if found is None:
        raise ConfigError(
            "no column is known to hold scores: name it with --column score=NAME where each row has one rater's, with "
            "--column score:RATER=NAME for each rater that has a column, with --column scores=NAME where cells hold "
            "objects of scores by rater, or with --column annotations=NAME where they hold lists of ratings"
        )
    return found


def _form(column: str) -> Form | None:
    if is_wide(column):
        return Form.COLUMNS if column.startswith("score:") else None
    return next((form for form in Form if column == form), None)


def scores_in(row: Mapping[str, Any], form: Form, where: str) -> Iterator[Scored]:
    """The scores in a row; those that are empty, too.

    Raises:
        ConfigError: a cell holds something else than its form says.
    """
    match form:
        case Form.ROWS:
            yield Scored.of(row.get("rater"), row)
        case Form.COLUMNS:
            by_rater: dict[str, dict[str, Any]] = {}
            for name, value in row.items():
                if found := _WIDE.fullmatch(name):
                    by_rater.setdefault(found[2], {})[found[1]] = value
            yield from (Scored.of(rater, said) for rater, said in by_rater.items())
        case Form.OBJECT:
            for rater, score in _members(row.get("scores"), dict, where, "an object of scores by rater").items():
                yield Scored(rater, score)
        case Form.LIST:
            for each in _members(row.get("annotations"), list, where, "a list of objects"):
                if not isinstance(each, dict):
                    what = "and not an object with a rating; name another"
                    raise ConfigError(one_line(f"{where}: holds {str(each)[:40]!r} {what}"))
                known = {snake(str(name)): value for name, value in each.items()}
                rater, score, comment = (_first(known, NAMES[name]) for name in ("rater", "score", "comment"))
                yield Scored.of(rater, {"score": score, "comment": comment})


def _members(cell: Any, kind: type[Any], where: str, what: str) -> Any:
    """What is in a cell: an object or a list, or the JSON text of one; an empty one where there is nothing."""
    try:
        found = parse_json(cell.encode()) if isinstance(cell, str) and cell.strip() else cell
    except (BadInput, UnicodeEncodeError):
        found = cell
    if found is None or found == "":
        return kind()
    if not isinstance(found, kind):
        raise ConfigError(one_line(f"{where}: holds {str(cell)[:40]!r} and not {what}; name another column"))
    return found


def _first(known: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((known[name] for name in names if name in known), None)


def is_empty(value: object) -> bool:
    """Whether a cell holds nothing, in one of the ways in which tables say so."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())
