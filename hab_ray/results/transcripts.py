"""Transcripts: a test with every answer to it and every verdict on these answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from hab_ray.results.views import Views
from hab_ray.rows import ChosenTest, R, Response, Verdict, from_table
from hab_ray.stages.views import responses_file, tests_file, verdicts_file


@dataclass(frozen=True, slots=True)
class Answer:
    """What one subject answered when it was asked a test for the `sample`-th time, counted from 0.

    `response` is None until there is one; its `state` and `finish` say whether it is an answer, why not, and whether
    it was cut at the output limit. `verdicts` are those of the panel's judges in the sweep's order, then those of
    further raters by name, replicates of one rater in their order; each has the letters of its issues, the assessment,
    the score (0..10, None unless its state is ok) and the reason of any other state.
    """

    subject: str
    sample: int
    response: Response | None
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class Transcript:
    """A test (prompt, context, system text) with the answers of every subject, in the sweep's order."""

    test: ChosenTest
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Asked:
    """Who was asked, how often, and who read the answers: the order of a transcript."""

    subjects: Sequence[str]
    samples: int
    raters: Sequence[str]


def read_transcripts(
    views: Views, dimension: str, asked: Asked, test_ids: Sequence[str] | None
) -> Iterator[Transcript]:
    """The transcripts of a dimension's tests, or of those of them in `test_ids`."""
    rows_on = partial(_rows_on, views, test_ids)
    there = set(views.verdict_files())
    files = [verdicts_file(rater, subject, dimension) for subject in asked.subjects for rater in asked.raters]
    return _arranged(
        rows_on(ChosenTest, [tests_file(dimension)], "id"),
        rows_on(Response, [responses_file(subject, dimension) for subject in asked.subjects], "test_id"),
        rows_on(Verdict, [file for file in files if file in there], "test_id"),
        asked,
    )


def _rows_on(
    views: Views, test_ids: Sequence[str] | None, row_type: type[R], names: Sequence[str], column: str
) -> list[R]:
    """The rows of some views about certain tests (None: all), read one by one so that only what is wanted is held."""
    wanted = None if test_ids is None else pa.array(test_ids, pa.string())
    found: list[R] = []
    for name in names:
        table = views.read(row_type, [name])
        found += from_table(row_type, table if wanted is None else table.filter(pc.is_in(table.column(column), wanted)))
    return found


def _arranged(
    tests: Sequence[ChosenTest], responses: Sequence[Response], verdicts: Sequence[Verdict], asked: Asked
) -> Iterator[Transcript]:
    given = {(row.test_id, row.subject, row.sample): row for row in responses}
    read: dict[tuple[str, str, int], list[Verdict]] = defaultdict(list)
    for row in verdicts:
        read[row.test_id, row.subject, row.sample].append(row)
    for test in tests:
        slots = [(test.id, subject, sample) for subject in asked.subjects for sample in range(asked.samples)]
        yield Transcript(
            test,
            tuple(
                Answer(slot[1], slot[2], given.get(slot), _in_order(read.get(slot, ()), asked.raters)) for slot in slots
            ),
        )


def _in_order(verdicts: Sequence[Verdict], raters: Sequence[str]) -> tuple[Verdict, ...]:
    known = (verdict for verdict in verdicts if verdict.judge in raters)
    return tuple(sorted(known, key=lambda verdict: (raters.index(verdict.judge), verdict.replicate)))
