"""`hab import responses`: published answers, as a file that `responses:` reads.

Scores that somebody gave them are not among its columns: `hab import verdicts` makes raters of those, so that they come
to stand beside the panel's verdicts on the same answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hab_ray.calls import clean_text, has_visible_text
from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.hub import EVALUATIONS
from hab_ray.exchange.imports.source import (
    OF_ANSWERS,
    Imported,
    NamedTest,
    OpenSource,
    TableSource,
    by_dimension,
    name_in,
    named_test,
    open_source,
    record_beside,
    sample_in,
    write_table,
)
from hab_ray.rubric import load_rubrics
from hab_ray.storage.given_responses import ERROR_MARKS
from hab_ray.visible import one_line

Answers = dict[tuple[NamedTest, str, int], str]


def import_responses(source: TableSource, out: Path, rubrics: Path | None = None) -> Imported:
    """Write the answers of a table, each once, in its order, and beside them where they are from.

    Answers that begin with the published code's error marks are kept as they are: `responses:` counts them as failed.
    Null is an empty answer.

    Raises:
        ConfigError: the table cannot be read or lacks a column, a row is no answer to a test of its dimension, one
            subject has answered a test twice in other words, or `out` is there.
    """
    record_beside(out)
    table = open_source(source, EVALUATIONS, load_rubrics(rubrics))
    columns = table.columns(OF_ANSWERS, ("dimension", "prompt", "subject", "text"))
    answers: Answers = {}
    tests: dict[NamedTest, NamedTest] = {}
    for where, row in table.rows(columns):
        test = named_test(row, table.rubrics, where)
        answer = (
            tests.setdefault(test, test),
            name_in(row.get("subject"), "subject", where),
            sample_in(row.get("sample"), where),
        )
        text = clean_text(row.get("text") or "")
        if answers.setdefault(answer, text) != text:
            raise ConfigError(
                one_line(
                    f"{where}: {answer[1]} has answered this test before, in other words; name a column that numbers "
                    "the answers with --column sample=NAME, or leave the row out"
                )
            )
    about = table.about(columns, {"responses": by_dimension(test.dimension for test, _, _ in answers)})
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
    return Imported(out, tuple(_notes(table, about, answers)))


def _notes(table: OpenSource, about: Mapping[str, Any], answers: Answers) -> Iterator[str]:
    tests, subjects = {test for test, _, _ in answers}, Counter(subject for _, subject, _ in answers)
    yield (
        f"{about['rows']:,} rows, {len(answers):,} answers of {len(subjects):,} subjects to {len(tests):,} tests; "
        f"licence: {about['licence']}"
    )
    for subject, count in subjects.items():
        yield one_line(f"  {subject}: {count:,} responses")
    if failed := sum(text.lstrip().startswith(ERROR_MARKS) for text in answers.values()):
        yield f"{failed:,} begin with an error mark of the published code, and count as failed"
    if empty := sum(not has_visible_text(text) for text in answers.values()):
        yield f"{empty:,} are null or empty, and count as empty answers"
    if repeated := table.rows_read - len(answers):
        yield f"{repeated:,} rows repeat an earlier one and are left out"
    yield from table.notes(about, "responses", {"rows": about["rows"], "tests": len(tests)})
