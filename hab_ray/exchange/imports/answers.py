"""`hab import tests` and `hab import responses`: import queries and answers as files that a sweep reads.

They import no scores: `hab import verdicts` imports those as raters, to compare with the panel's verdicts on the same
answers.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hab_ray.calls import clean_text, has_visible_text
from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.columns import NAMES
from hab_ray.exchange.imports.hub import EVALUATIONS
from hab_ray.exchange.imports.source import (
    OF_ANSWERS,
    OF_TESTS,
    NamedTest,
    OpenSource,
    TableSource,
    by_dimension,
    name_in,
    open_source,
    sample_in,
)
from hab_ray.given.responses import ERROR_MARKS
from hab_ray.given.rows import ORIGIN, call_name
from hab_ray.visible import counted, one_line

Answer = tuple[NamedTest, str, int]
Answers = dict[Answer, str]


def import_tests(source: TableSource, out: Path, rubrics: Path | None = None) -> tuple[str, ...]:
    """Write the distinct queries of a table in order, and a record of their source beside them; return notes.

    Raises:
        ConfigError: the table cannot be read or lacks a column, a row is not a test of its dimension, `out` exists, or
            the table is a file of tests already.
    """
    table = open_source(source, EVALUATIONS, out, rubrics)
    cause = "it is a file of tests already, with `id` and `system`, which an import would lose"
    table.refuse_own({"id", "system", "call"}, cause, "`tests: FILE`")
    columns = table.columns(OF_TESTS, ("dimension", "prompt"))
    tests: dict[NamedTest, str | None] = {}
    for where, row in table.rows(columns):
        test = table.test(row, where)
        tests[test] = tests.get(test) or call_name(row.get("call"))
    about = table.about(columns, {"tests": by_dimension(test.dimension for test in tests)})
    values = (about["source"], about["licence"], " ".join(about["canaries"]))
    origin = {name: [value] * len(tests) for name, value in zip(ORIGIN.texts, values, strict=True)}
    table.write({**_texts(tests), **_column("call", tests.values()), **origin}, about)
    summary = f"{counted(table.rows_read, 'row')}, {counted(len(tests), 'distinct test')}; licence: {about['licence']}"
    return (summary, *table.notes(about, "tests", {"rows": table.rows_read, "tests": len(tests)}))


def _texts(tests: Iterable[NamedTest]) -> dict[str, list[str]]:
    rows = list(tests)
    return {name: [getattr(test, name) for test in rows] for name in ("dimension", "prompt", "context")}


def _column(name: str, cells: Iterable[Any]) -> Mapping[str, list[str | None]]:
    """Return a column of texts, if any row has one: tests of one `call` are not independent."""
    found = [None if cell is None else clean_text(str(cell)) or None for cell in cells]
    return {name: found} if any(found) else {}


def import_responses(source: TableSource, out: Path, rubrics: Path | None = None) -> tuple[str, ...]:
    """Write the distinct answers of a table in order, and a record of their source beside them; return notes.

    Answers that begin with an error mark of the published code are kept unchanged: `responses:` counts them as failed.
    Null is an empty answer. `finish`, such as `truncated`, is kept. Raise ConfigError if the table cannot be read or
    lacks a column, a row is not an answer to a test of its dimension, a subject has two different answers to a test, or
    `out` exists.
    """
    table = open_source(source, EVALUATIONS, out, rubrics)
    cause = "it is a file of answers already, which names their tests by `test_id`"
    table.refuse_own(
        {"test_id", "subject", "state", "text"}, cause, "`responses: FILE`, and `tests:` of the same export"
    )
    known = {**OF_ANSWERS, "finish": NAMES["finish"]}
    columns = table.columns(known, ("dimension", "prompt", "subject", "text"))
    answers: Answers = {}
    calls: dict[NamedTest, str | None] = {}
    finishes: dict[Answer, str | None] = {}
    for where, row in table.rows(columns):
        answer = (
            table.test(row, where),
            name_in(row.get("subject"), "subject", where),
            sample_in(row.get("sample"), where),
        )
        calls[answer[0]] = calls.get(answer[0]) or call_name(row.get("call"))
        finishes[answer] = finishes.get(answer) or row.get("finish")
        text = clean_text(row.get("text") or "")
        if answers.setdefault(answer, text) != text:
            raise ConfigError(
                one_line(
                    f"{where}: {answer[1]} has answered this test before, differently; name the column that numbers "
                    "the answers with --column sample=NAME, or leave the row out"
                )
            )
    about = table.about(columns, {"responses": by_dimension(test.dimension for test, _, _ in answers)})
    table.write(
        {
            **_texts(test for test, _, _ in answers),
            "subject": [subject for _, subject, _ in answers],
            "sample": [sample for _, _, sample in answers],
            "text": list(answers.values()),
            **_column("finish", finishes.values()),
            **_column("call", (calls[test] for test, _, _ in answers)),
        },
        about,
    )
    return tuple(_notes(table, about, answers))


def _notes(table: OpenSource, about: Mapping[str, Any], answers: Answers) -> Iterator[str]:
    tests, subjects = {test for test, _, _ in answers}, Counter(subject for _, subject, _ in answers)
    yield (
        f"{counted(about['rows'], 'row')}, {counted(len(answers), 'answer')} of {counted(len(subjects), 'subject')} to "
        f"{counted(len(tests), 'test')}; licence: {about['licence']}"
    )
    for subject, count in subjects.items():
        yield f"  {one_line(subject)}: {counted(count, 'response')}"
    if failed := sum(text.lstrip().startswith(ERROR_MARKS) for text in answers.values()):
        yield f"{failed:,} begin with an error mark of the published code, and count as failed"
    if empty := sum(not has_visible_text(text) for text in answers.values()):
        yield f"{empty:,} are null or empty, and count as empty answers"
    if repeated := table.rows_read - len(answers):
        yield f"{repeated:,} rows repeat an earlier one and are left out"
    yield from table.notes(about, "responses", {"rows": about["rows"], "tests": len(tests)})
