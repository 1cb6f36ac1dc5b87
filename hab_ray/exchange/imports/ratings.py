"""`hab import verdicts` and `hab import ratings`: import scores as files that `raters:` reads.

Verdicts come from an earlier study's judges, ratings from people. A judge of another study is named "published NAME",
one of an exported run "earlier NAME", to distinguish it from the run's judges. People become person-1, person-2, ... in
order of first appearance, and no written file reveals their names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.columns import NAMES, snake
from hab_ray.exchange.imports.hub import ANNOTATIONS, EVALUATIONS
from hab_ray.exchange.imports.people import Cells, Judges, People, Raters
from hab_ray.exchange.imports.scored import Form, form_of, is_empty, is_wide, scores_in
from hab_ray.exchange.imports.source import (
    OF_ANSWERS,
    OF_EXPORTED_VERDICTS,
    OpenSource,
    TableSource,
    by_dimension,
    name_in,
    open_source,
    sample_in,
)
from hab_ray.given.ratings import response_digest, whole_score
from hab_ray.given.rows import call_name
from hab_ray.rows import Rater
from hab_ray.visible import counted, one_line

_MAX_SHOWN = 30
_ANSWER = ("dimension", "test_id", "prompt", "context", "subject", "sample")


def import_verdicts(source: TableSource, out: Path, rubrics: Path | None = None) -> tuple[str, ...]:
    """Write the verdicts of a table's judges, and a record of their source beside them; return notes.

    Issue letters are taken from a column, or from a reply that can be read and yields the score. A verdict whose reply
    shows that the published code had failed is imported as failed, whatever its score.

    Raises:
        ConfigError: as for `import_ratings`.
    """
    table = open_source(source, EVALUATIONS, out, rubrics)
    return _import(table, Judges(table.rubrics))


def import_ratings(
    source: TableSource, out: Path, rubrics: Path | None = None, *, with_comments: bool = False
) -> tuple[str, ...]:
    """Write a table's ratings by people under pseudonyms, and a record of their source beside them; return notes.

    Raises:
        ConfigError: the table cannot be read or lacks a column, a score is not on its scale, a row identifies no
            answer, a rater gave an answer two different scores, or `out` exists.
    """
    return _import(open_source(source, ANNOTATIONS, out, rubrics), People(with_comments))


def _names(table: OpenSource, raters: Raters) -> Mapping[str, Sequence[str]]:
    """Return the known names of columns. Lists and columns of single raters have none: the user must name them.

    Where the scores are in another form than a row for each, because the user names it or a column is known as a list
    of ratings, `rater` and `score` have none either: they may be a judge's.
    """
    source = table.source
    known = {
        name: NAMES[name] for name in ("test_id", "rater", "score", "scores", *OF_EXPORTED_VERDICTS, *raters.columns)
    }
    unnamed = [name for name in source.columns if is_wide(name)]
    has_list = any(snake(name) in known.get(Form.LIST.value, ()) for frame in table.frames for name in frame.names)
    is_by_row = bool({"rater", "score"} & source.columns.keys())
    if unnamed or {Form.OBJECT, Form.LIST} & source.columns.keys() or (has_list and not is_by_row):
        unnamed += ["rater", "score"]
    return {**OF_ANSWERS, Form.LIST.value: (), **known, **dict.fromkeys(unnamed, ())}


def _import(table: OpenSource, raters: Raters) -> tuple[str, ...]:
    cause = "it is a file of ratings already, with `kind` and `response_sha256`, which an import would lose"
    table.refuse_own({"rater", "kind", "response_sha256"}, cause, "`raters: [FILE]`")
    source, reader = table.source, _ScoreReader(table, raters)
    if table.expected is not None and table.expected.judge is not None:
        source = table.source = replace(source, values={"rater": table.expected.judge, **source.values})
    known = _names(table, raters)
    columns = table.columns(known, ("dimension", "subject"))
    form = form_of([*columns, *source.values], list(source.columns), raters.forms)
    of_tests, of_raters = [] if "test_id" in columns else ["prompt"], ["rater"] if form is Form.ROWS else []
    table.columns(known, [*of_tests, *of_raters])
    for where, row in table.rows(columns):
        reader.add_row(row, form, where)
    if not reader.columns:
        if reader.of_others:
            raise ConfigError(one_line(f"{table.got.paths[0]}: all rows are {next(iter(reader.of_others))}"))
        shown = columns.get(form, f"the columns {form}")
        raise ConfigError(one_line(f"{table.got.paths[0]}: no row has a score in {shown}; name the column"))
    scored = [score is not None for score in reader.columns["score"]]
    dimensions, names = ([str(cell) for cell in reader.columns[name]] for name in ("dimension", "rater"))
    counts: dict[str, Any] = {
        "scores": by_dimension(dimension for dimension, known in zip(dimensions, scored, strict=True) if known),
        "raters": dict(Counter(names)),
        "failed": dict(Counter(rater for rater, known in zip(names, scored, strict=True) if not known)),
        **({"scale": str(source.scale)} if source.scale else {}),
    }
    about = table.about(_impersonal(columns, reader.raters.kind), counts)
    table.write(reader.columns, about)
    return tuple(_notes(table, about, reader))


@dataclass
class _ScoreReader:
    """Collects the scores of rows as columns of the new file, and counts omitted ones."""

    table: OpenSource
    raters: Raters
    columns: dict[str, list[str | int | float | None]] = field(default_factory=dict)
    without_score: int = 0
    repeated: int = 0
    of_others: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    _places: dict[tuple[str | int | float | None, ...], int] = field(default_factory=dict)

    def add_row(self, row: Mapping[str, Any], form: Form, where: str) -> None:
        """Add the scores of one row; raise ConfigError if it identifies no answer or a score is not on the scale."""
        if whose := self.raters.others.get(str(row.get("kind"))):
            self.of_others[whose] += 1
            return
        answer = self._answer(row, where)
        for place, scored in enumerate(scores_in(row, form, where), 1):
            if is_empty(scored.score) and not scored.failed:
                self.without_score += 1
                continue
            if form is Form.ROWS and not scored.rater:
                remedy = "name the rater, give --value rater=NAME if all such rows are of one rater, or leave them out"
                raise ConfigError(f"{where}: has no rater; {remedy}")
            failed = scored.failed or self.raters.failure(scored, str(answer["dimension"]))
            score = None if failed else self._score(scored.score, where)
            cells = {
                **answer,
                "kind": str(self.raters.kind),
                "score": score,
                "failed": failed or None,
                **({"scale": str(self.table.source.scale)} if self.table.source.scale else {}),
                **self.raters.cells(scored, score, str(answer["dimension"]), place, where),
            }
            self._add(cells, scored.rater, where)

    def _add(self, cells: Cells, rater: str, where: str) -> None:
        key = (*(cells[name] for name in _ANSWER), cells["rater"])
        if (place := self._places.setdefault(key, len(self._places))) < len(self.columns.get("score", ())):
            if any(self.columns[name][place] != cells[name] for name in ("score", "failed", "response_sha256")):
                raise ConfigError(
                    one_line(
                        f"{where}: {rater or 'the rater'} has scored this answer before, differently; if they are two "
                        "answers of the subject, name the column that numbers them with --column sample=NAME; of "
                        "several readings of one answer, leave in one"
                    )
                )
            self.repeated += 1
            return
        self.failures[str(cells["failed"])] += cells["failed"] is not None
        for name, value in cells.items():
            self.columns.setdefault(name, []).append(value)

    def _score(self, cell: object, where: str) -> float:
        try:
            return whole_score(cell) if self.table.source.scale is None else self.table.source.scale.score(cell)
        except ValueError as error:
            raise ConfigError(one_line(f"{where}: score: {error}")) from None

    def _answer(self, row: Mapping[str, Any], where: str) -> Cells:
        text = row.get("text")
        return {
            **self._test(row, where),
            "subject": name_in(row.get("subject"), "subject", where),
            "sample": sample_in(row.get("sample"), where),
            "response_sha256": response_digest(text) if text else None,
        }

    def _test(self, row: Mapping[str, Any], where: str) -> Cells:
        test_id = call_name(row.get("test_id"))
        if not is_empty(test_id) and not row.get("prompt"):
            dimension = name_in(snake(row.get("dimension") or ""), "dimension", where)
            named = name_in(test_id, "test_id", where)
            return {"dimension": dimension, "test_id": named, "prompt": None, "context": None}
        test = self.table.test(row, where)
        return {"dimension": test.dimension, "test_id": None, "prompt": test.prompt, "context": test.context}


def _impersonal(columns: Mapping[str, str], kind: Rater) -> dict[str, str]:
    """Return the columns for the record, with people's own columns only counted, as their names must not appear."""
    personal = [name for name in columns if is_wide(name) and kind is Rater.PERSON]
    rest = {name: theirs for name, theirs in columns.items() if name not in personal}
    return rest | ({"of single people": f"{len(personal)} columns"} if personal else {})


def _notes(table: OpenSource, about: Mapping[str, Any], reader: _ScoreReader) -> Iterator[str]:
    columns = reader.columns
    answers = set(zip(*(columns[name] for name in _ANSWER), strict=True))
    raters: Mapping[str, int] = about["raters"]
    yield (
        f"{counted(about['rows'], 'row')}, {counted(sum(about['scores'].values()), 'score')} of "
        f"{counted(len(answers), 'answer')} by {counted(len(raters), 'rater')}; licence: {about['licence']}"
    )
    for rater in list(raters)[:_MAX_SHOWN]:
        failed = about["failed"].get(rater, 0)
        yield f"  {one_line(rater)}: {raters[rater] - failed:,} scores" + f", {failed:,} failed verdicts" * bool(failed)
    if len(raters) > _MAX_SHOWN:
        yield f"  and {len(raters) - _MAX_SHOWN:,} more raters"
    for subject, count in Counter(map(str, columns["subject"])).items():
        yield f"  of answers by {one_line(subject)}: {count:,}"
    for reason, count in (+reader.failures).most_common(_MAX_SHOWN):
        yield one_line(f"failed, and in no mean whatever their score: {count:,}, as {reason}")
    for whose, count in reader.of_others.items():
        yield f"{counted(count, 'row')} {'is' if count == 1 else 'are'} {whose}"
    if reader.without_score:
        yield f"{reader.without_score:,} places for a score are empty and left out"
    if reader.repeated:
        yield f"{reader.repeated:,} scores repeat an earlier one and are left out"
    yield from reader.raters.notes()
    if "response_sha256" in columns and not any(columns["response_sha256"]):
        yield "NOTE: no column holds the scored answers (--column text=NAME), so scores are joined to them by name only"
    is_people = reader.raters.kind is Rater.PERSON
    known = {"rated": len(answers)} if is_people else {"tests": len({answer[:4] for answer in answers})}
    yield from table.notes(about, "scores", {"rows": about["rows"], **known})
