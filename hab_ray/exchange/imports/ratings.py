"""`hab import verdicts` and `hab import ratings`: scores that others gave, as files that `raters:` reads.

Verdicts are those of an earlier study's judges, ratings those of people. A judge of another study is called "published
NAME", so as not to pass for one who is asked today. People become person-1, person-2 and so on, in the order in which
they first come, and nothing that is written leads back to a name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.hub import ANNOTATIONS, EVALUATIONS, DataSet
from hab_ray.exchange.imports.naming import snake
from hab_ray.exchange.imports.people import Judges, People, Raters
from hab_ray.exchange.imports.scored import COMMENT, RATER, SCORE, Form, form_of, is_empty, is_wide, scores_in
from hab_ray.exchange.imports.source import (
    NAMES_OF_ANSWERS,
    NAMES_OF_TESTS,
    Imported,
    OpenSource,
    Seen,
    TableSource,
    by_dimension,
    name_in,
    named_test,
    notes_of,
    open_source,
    record_beside,
    sample_in,
    write_table,
)
from hab_ray.rows import Rater
from hab_ray.rubric import Rubric, load_rubrics
from hab_ray.storage.given_ratings import response_digest, whole_score
from hab_ray.visible import one_line

_SHOWN = 30
_ANSWER = ("dimension", "test_id", "prompt", "context", "subject", "sample")
Cells = Mapping[str, str | int | None]


@dataclass(frozen=True)
class _Study:
    """From which data set scores come unless a file is named, in which forms, and what their columns are called."""

    data_set: DataSet
    forms: tuple[Form, ...]
    names: Mapping[str, Sequence[str]]


_JUDGES = _Study(
    data_set=EVALUATIONS,
    forms=(Form.ROWS, Form.OBJECT),
    names={"issues": ("issues",), "reply": ("reply", "evaluator_response"), Form.LIST.value: ()},
)
_PEOPLE = _Study(
    data_set=ANNOTATIONS,
    forms=(Form.LIST, Form.ROWS, Form.OBJECT),
    names={"comment": COMMENT, Form.LIST.value: ("annotations", "human_annotations", "ratings", "human_ratings")},
)


def import_verdicts(source: TableSource, out: Path, rubrics: Path | None = None) -> Imported:
    """Write the verdicts of a table's judges, and beside them where they are from.

    Letters are kept where a column has them, or where a reply can be read and its letters make the score.

    Raises:
        ConfigError: as for `import_ratings`.
    """
    known = load_rubrics(rubrics)
    return _import(source, out, _JUDGES, _Reader(known, Judges(known)))


def import_ratings(
    source: TableSource, out: Path, rubrics: Path | None = None, *, with_comments: bool = False
) -> Imported:
    """Write people's ratings of a table under pseudonyms, and beside them where they are from.

    Raises:
        ConfigError: the table cannot be read or lacks a column, a score is none from 0 to 10, a row names no answer,
            or `out` is there.
    """
    return _import(source, out, _PEOPLE, _Reader(load_rubrics(rubrics), People(with_comments)))


def _import(source: TableSource, out: Path, study: _Study, reader: _Reader) -> Imported:
    record_beside(out)
    table = open_source(source, study.data_set)
    if table.expected is not None and table.expected.judge is not None:
        source = replace(source, values={"rater": table.expected.judge, **source.values})
    columns = table.columns(_names(study, source), source, ("dimension", "subject"))
    form = form_of([*columns, *source.values], list(source.columns), study.forms)
    of_tests, of_raters = [] if "test_id" in columns else ["prompt"], ["rater"] if form is Form.ROWS else []
    table.columns(_names(study, source), source, [*of_tests, *of_raters])
    seen = Seen()
    for where, row in table.rows(columns, source, seen):
        reader.take_in(row, form, where)
    if not reader.columns:
        raise ConfigError(one_line(f"{table.got.path}: no row has a score in {_shown(columns, form)}; name the column"))
    counts = {
        "scores": by_dimension(map(str, reader.columns["dimension"])),
        "raters": dict(Counter(map(str, reader.columns["rater"]))),
    }
    about = table.about(source, _impersonal(columns, reader.raters.kind), seen, counts)
    write_table(reader.columns, out, about)
    return Imported(out, tuple(_notes(table, about, reader)))


def _names(study: _Study, source: TableSource) -> Mapping[str, Sequence[str]]:
    """The words by which columns are found; columns of one rater each are as they are given."""
    wide: dict[str, Sequence[str]] = {name: () for name in source.columns if is_wide(name)}
    known = {"test_id": ("test_id",), "rater": RATER, "score": SCORE, Form.OBJECT.value: ("scores",)}
    return {**NAMES_OF_TESTS, **NAMES_OF_ANSWERS, **known, **study.names, **wide}


@dataclass
class _Reader:
    """Turns the scores of rows into the columns of the new file, and counts the empty ones."""

    rubrics: Mapping[str, Rubric]
    raters: Raters
    columns: dict[str, list[str | int | None]] = field(default_factory=dict)
    without_score: int = 0
    _scores: dict[tuple[str | int | None, ...], int] = field(default_factory=dict)

    def take_in(self, row: Mapping[str, Any], form: Form, where: str) -> None:
        """Add the scores of one row.

        Raises:
            ConfigError: it names no answer, or a score is none from 0 to 10.
        """
        answer = self._answer(row, where)
        for place, scored in enumerate(scores_in(row, form, where), 1):
            if is_empty(scored.score):
                self.without_score += 1
                continue
            try:
                score = whole_score(scored.score)
            except ValueError as error:
                raise ConfigError(one_line(f"{where}: score: {error}")) from None
            cells = self.raters.cells(scored, str(answer["dimension"]), place, where)
            who = (*(answer[name] for name in _ANSWER), cells["rater"])
            if self._scores.setdefault(who, score) != score:
                raise ConfigError(
                    one_line(
                        f"{where}: {scored.rater or 'somebody'} has scored this answer before, otherwise; name a "
                        "column that numbers a subject's answers with --column sample=NAME, or leave the row out"
                    )
                )
            for name, value in {**answer, "kind": str(self.raters.kind), "score": score, **cells}.items():
                self.columns.setdefault(name, []).append(value)

    def _answer(self, row: Mapping[str, Any], where: str) -> Cells:
        text = row.get("text")
        return {
            **self._test(row, where),
            "subject": name_in(row.get("subject"), "subject", where),
            "sample": sample_in(row.get("sample"), where),
            "response_sha256": response_digest(text) if text else None,
        }

    def _test(self, row: Mapping[str, Any], where: str) -> Cells:
        """The test by its texts, or else by its id."""
        if row.get("test_id") and not row.get("prompt"):
            dimension = name_in(snake(row.get("dimension") or ""), "dimension", where)
            return {
                "dimension": dimension,
                "test_id": name_in(row["test_id"], "test_id", where),
                "prompt": None,
                "context": None,
            }
        test = named_test(row, self.rubrics, where)
        return {"dimension": test.dimension, "test_id": None, "prompt": test.prompt, "context": test.context}


def _impersonal(columns: Mapping[str, str], kind: Rater) -> dict[str, str]:
    """The columns for the record, which must name nobody: those of single people are counted."""
    wide = [name for name in columns if is_wide(name) and kind is Rater.PERSON]
    rest = {name: theirs for name, theirs in columns.items() if name not in wide}
    return rest | ({"of single people": f"{len(wide)} columns"} if wide else {})


def _shown(columns: Mapping[str, str], form: Form) -> str:
    return columns.get(form, f"the columns {form}")


def _notes(table: OpenSource, about: Mapping[str, Any], reader: _Reader) -> Iterator[str]:
    columns = reader.columns
    answers = set(zip(*(columns[name] for name in _ANSWER), strict=True))
    tests = {answer[:4] for answer in answers}
    yield (
        f"{about['rows']:,} rows, {len(columns['score']):,} scores of {len(answers):,} answers by "
        f"{len(about['raters']):,} raters; licence: {about['licence']}"
    )
    yield from notes_of(about, "scores", reader.rubrics)
    raters: Mapping[str, int] = about["raters"]
    for rater in list(raters)[:_SHOWN]:
        yield one_line(f"  {rater}: {raters[rater]:,} scores")
    if len(raters) > _SHOWN:
        yield f"  and {len(raters) - _SHOWN:,} more raters"
    for subject, count in Counter(map(str, columns["subject"])).items():
        yield one_line(f"  of answers by {subject}: {count:,}")
    if reader.without_score:
        yield f"{reader.without_score:,} places for a score are empty and left out"
    yield from reader.raters.notes()
    if "response_sha256" in columns and not any(columns["response_sha256"]):
        yield "NOTE: no column holds the answers that were scored (--column text=NAME), so that names alone join them"
    people = {"rated": len(answers)} if reader.raters.kind is Rater.PERSON else {"tests": len(tests)}
    yield from table.unexpected({"rows": about["rows"], **people})
