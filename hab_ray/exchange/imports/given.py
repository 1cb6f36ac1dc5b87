"""`hab import tests`: the distinct queries of published rows, as a file of tests that `tests:` reads."""

from __future__ import annotations

from pathlib import Path

from hab_ray.exchange.imports.hub import EVALUATIONS
from hab_ray.exchange.imports.source import (
    NAMES_OF_TESTS,
    Imported,
    NamedTest,
    Seen,
    TableSource,
    by_dimension,
    named_test,
    notes_of,
    open_source,
    record_beside,
    write_table,
)
from hab_ray.rubric import load_rubrics
from hab_ray.storage.given import ORIGIN

_COLUMNS = ("dimension", "prompt", "context")


def import_tests(source: TableSource, out: Path, rubrics: Path | None = None) -> Imported:
    """Write the distinct queries of a table in the order in which they first come, and beside them where they are from.

    Raises:
        ConfigError: the table cannot be read or lacks a column, a row is no test of its dimension, or `out` is there.
    """
    record_beside(out)
    table = open_source(source, EVALUATIONS)
    known = load_rubrics(rubrics)
    columns = table.columns(NAMES_OF_TESTS, source, ("dimension", "prompt"))
    tests: dict[NamedTest, None] = {}
    seen = Seen()
    for where, row in table.rows(columns, source, seen):
        tests[named_test(row, known, where)] = None
    counts = {"tests": by_dimension(test.dimension for test in tests)}
    about = table.about(source, columns, seen, counts)
    texts = {name: [getattr(test, name) for test in tests] for name in _COLUMNS}
    stated = (about["source"], about["licence"], " ".join(about["canaries"]))
    origin = {name: [value] * len(tests) for name, value in zip(ORIGIN.texts, stated, strict=True)}
    write_table({**texts, **origin}, out, about)
    said = f"{seen.rows:,} rows, {len(tests):,} distinct tests; licence: {about['licence']}"
    unexpected = table.unexpected({"rows": seen.rows, "tests": len(tests)})
    return Imported(out, (said, *notes_of(about, "tests", known), *unexpected))
