"""`hab import responses`: published answers, as a file that `responses:` reads.

Scores that somebody gave them are not among its columns: `hab import verdicts` makes raters of those, so that they come
to stand beside the panel's verdicts on the same answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hab_ray.calls import clean_text
from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.hub import EVALUATIONS
from hab_ray.exchange.imports.source import (
    NAMES_OF_ANSWERS,
    NAMES_OF_TESTS,
    Imported,
    NamedTest,
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
from hab_ray.rubric import Rubric, load_rubrics
from hab_ray.storage.given_responses import ERROR_MARKS
from hab_ray.visible import one_line

Answers = dict[tuple[NamedTest, str, int], str]


def import_responses(source: TableSource, out: Path, rubrics: Path | None = None) -> Imported:
    """Write the answers of a table, each once, in its order, and beside them where they are from.

    Answers that begin with the published code's error marks are kept as they are: `responses:` counts them as failed.

    Raises:
        ConfigError: the table cannot be read or lacks a column, a row is no answer to a test of its dimension, one
            subject has answered a test twice, or `out` is there.
    """
    record_beside(out)
    table = open_source(source, EVALUATIONS)
    known = load_rubrics(rubrics)
    columns = table.columns(NAMES_OF_TESTS | NAMES_OF_ANSWERS, source, ("dimension", "prompt", "subject", "text"))
    answers: Answers = {}
    seen = Seen()
    for where, row in table.rows(columns, source, seen):
        _take_in(answers, row, known, where)
    counts = {"responses": by_dimension(test.dimension for test, _, _ in answers)}
    about = table.about(source, columns, seen, counts)
    write_table(
        {
            "dimension": [test.dimension for test, _, _ in answers],
            "prompt": [test.prompt for test, _, _ in answers],
            "context": [test.context for test, _, _ in answers],
            "subject": [subject for _, subject, _ in answers],
            "sample": [sample for _, _, sample in answers],
            "text": list(answers.values()),
        },
        out,
        about,
    )
    return Imported(out, tuple(_notes(table, about, answers, known)))


def _take_in(answers: Answers, row: Mapping[str, Any], rubrics: Mapping[str, Rubric], where: str) -> None:
    test = named_test(row, rubrics, where)
    answer = test, name_in(row.get("subject"), "subject", where), sample_in(row.get("sample"), where)
    text = clean_text(row.get("text") or "")
    if answers.setdefault(answer, text) != text:
        raise ConfigError(
            one_line(
                f"{where}: {answer[1]} has answered this test before, in other words; name a column that numbers the "
                "answers with --column sample=NAME, or leave the row out"
            )
        )


def _notes(
    table: OpenSource, about: Mapping[str, Any], answers: Answers, rubrics: Mapping[str, Rubric]
) -> Iterator[str]:
    tests, subjects = {test for test, _, _ in answers}, Counter(subject for _, subject, _ in answers)
    yield (
        f"{about['rows']:,} rows, {len(answers):,} answers of {len(subjects):,} subjects to {len(tests):,} tests; "
        f"licence: {about['licence']}"
    )
    yield from notes_of(about, "responses", rubrics)
    for subject, count in subjects.items():
        yield one_line(f"  {subject}: {count:,} responses")
    if failed := sum(text.lstrip().startswith(ERROR_MARKS) for text in answers.values()):
        yield f"{failed:,} begin with an error mark of the published code, and count as failed"
    yield from table.unexpected({"rows": about["rows"], "tests": len(tests)})
