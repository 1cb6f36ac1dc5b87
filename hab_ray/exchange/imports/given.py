"""`hab import tests`: the distinct queries of published rows, as a file of tests that `tests:` reads."""

from __future__ import annotations

from pathlib import Path

from hab_ray.exchange.imports.hub import EVALUATIONS
from hab_ray.exchange.imports.source import (
    OF_TESTS,
    Imported,
    NamedTest,
    TableSource,
    by_dimension,
    named_test,
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
    table = open_source(source, EVALUATIONS, load_rubrics(rubrics))
    columns = table.columns(OF_TESTS, ("dimension", "prompt"))
    tests: dict[NamedTest, None] = {}
    for where, row in table.rows(columns):
        tests[named_test(row, table.rubrics, where)] = None
    about = table.about(columns, {"tests": by_dimension(test.dimension for test in tests)})
    texts = {name: [getattr(test, name) for test in tests] for name in _COLUMNS}
    stated = (about["source"], about["licence"], " ".join(about["canaries"]))
    origin = {name: [value] * len(tests) for name, value in zip(ORIGIN.texts, stated, strict=True)}
    write_table({**texts, **origin}, out, about)
    said = f"{table.rows_read:,} rows, {len(tests):,} distinct tests; licence: {about['licence']}"
    return Imported(out, (said, *table.notes(about, "tests", {"rows": table.rows_read, "tests": len(tests)})))
