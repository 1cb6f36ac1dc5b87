"""The forms in which tables hold raters' scores: one per row, one per column, or several in a cell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hab_ray.calls import clean_text
from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.columns import NAMES, snake
from hab_ray.given.rows import call_name
from hab_ray.inputs.files import BadInput
from hab_ray.inputs.json_text import parse_json
from hab_ray.rows import State
from hab_ray.visible import one_line

_WIDE = re.compile(r"(score|issues|reply|comment):(.+)", re.DOTALL)

_FAILED = tuple(state for state in State if state is not State.OK)


class Form(StrEnum):
    """Where the scores are: in `score` with `rater` beside it, in `score:NAME` per rater, or in the cells of a column.

    A cell of `scores` is an object of scores by rater; a cell of `annotations` is a list of objects with rater, score
    and comment. Either may be JSON text.
    """

    ROWS = "score"
    COLUMNS = "score:NAME"
    OBJECT = "scores"
    LIST = "annotations"


@dataclass(frozen=True)
class Scored:
    """A rater's unchecked score of the answer in a row. `rater` is "" if unknown.

    `failed` says why the rater has no score, and `kind` who rated, if an export of ours says so.
    `reply` is None if the table has no replies, and "" if it has but this one is null.
    """

    rater: str
    score: Any
    issues: Any = None
    reply: Any = None
    comment: Any = None
    failed: str = ""
    kind: str = ""

    @classmethod
    def of(cls, rater: Any, cells: Mapping[str, Any]) -> Scored:
        """Return a rater's score from its cells by column. A number names a rater, also 2.0, as pandas makes of 2."""
        known = call_name(rater)
        name = known.strip() if isinstance(known, str) else ""
        reply = "" if "reply" in cells and cells["reply"] is None else cells.get("reply")
        has_failed = cells.get("state") in _FAILED
        failed = clean_text(str(cells.get("reason") or cells["state"])) if has_failed else ""
        kind = str(cells.get("kind") or "")
        return cls(name, cells.get("score"), cells.get("issues"), reply, cells.get("comment"), failed, kind)


def is_wide(ours: str) -> bool:
    """Whether a column belongs to one rater, such as `score:NAME`."""
    return _WIDE.fullmatch(ours) is not None


def form_of(columns: Sequence[str], given: Sequence[str], preferred: Sequence[Form]) -> Form:
    """Return the form of a table's scores: the given one, else the first preferred one that the table has.

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
    """Yield the scores in a row, including empty ones; raise ConfigError if a cell does not have its form."""
    match form:
        case Form.ROWS:
            yield Scored.of(row.get("rater"), row)
        case Form.COLUMNS:
            by_rater: dict[str, dict[str, Any]] = {}
            for name, value in row.items():
                if found := _WIDE.fullmatch(name):
                    by_rater.setdefault(found[2], {})[found[1]] = value
            yield from (Scored.of(rater, cells) for rater, cells in by_rater.items())
        case Form.OBJECT:
            for rater, score in _members(row.get("scores"), dict, where, "an object of scores by rater").items():
                yield Scored(rater, score)
        case Form.LIST:
            for each in _members(row.get("annotations"), list, where, "a list of objects"):
                if not isinstance(each, dict):
                    raise _other_form(each, where, "an object with a rating")
                known = {snake(str(name)): value for name, value in each.items()}
                rater, score, comment = (_first(known, NAMES[name]) for name in ("rater", "score", "comment"))
                yield Scored.of(rater, {"score": score, "comment": comment})


def _members(cell: Any, kind: type[Any], where: str, expected: str) -> Any:
    """Return the object or list in a cell, parsed if it is JSON text; an empty one for an empty cell."""
    try:
        members = parse_json(cell.encode()) if isinstance(cell, str) and cell.strip() else cell
    except (BadInput, UnicodeEncodeError):
        members = cell
    if members is None or members == "":
        return kind()
    if not isinstance(members, kind):
        raise _other_form(cell, where, expected)
    return members


def _other_form(value: object, where: str, expected: str) -> ConfigError:
    return ConfigError(
        one_line(f"{where}: holds {str(value)[:40]!r} and not {expected}; write it as JSON, or name another column")
    )


def _first(known: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((known[name] for name in names if name in known), None)


def is_empty(value: object) -> bool:
    """Whether a cell is empty: None, NaN or blank text."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())
