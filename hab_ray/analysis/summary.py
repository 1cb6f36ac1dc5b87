"""The input of every analysis: one pass over a run's rows, part by part, so that a run may exceed memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, TypeVar

import pyarrow as pa

from hab_ray.analysis.bridge import Bridge, bridge_of
from hab_ray.analysis.evidence.answers import AnswerTexts, read_answers
from hab_ray.analysis.intervals import Array
from hab_ray.analysis.marks import (
    PANEL,
    Answered,
    ItemScores,
    Judged,
    RowIndex,
    ScoreSettings,
    Truncated,
    is_truncated,
    marks_of,
)
from hab_ray.analysis.row_status import StatusCount, count_statuses, row_statuses
from hab_ray.analysis.scores import scores_of
from hab_ray.results import Run, Sent, Transcript, rows_in
from hab_ray.results.run import steady, tests_with_calls
from hab_ray.rows import Score, State
from hab_ray.rubric import Rubric

T = TypeVar("T")
_STATES = {state.value: state for state in State}


@dataclass(frozen=True, eq=False)
class Summary:
    """The input of every analysis: a run, its settings, and marks and counts of its rows.

    `marks` holds all marks in the sweep's order, with truncated answers scored ("judge") and without them ("exclude");
    the sweep says which of them `scores` use. `tables` caches the rows of analyses by module, `shares` how often each
    issue is named by subject, judge and dimension, `transcripts` those to show by dimension and test. An analysis that
    needs more reads it through `run`.
    """

    run: Run
    settings: ScoreSettings
    rubrics: Mapping[str, Rubric]
    marks: Mapping[Truncated, tuple[ItemScores, ...]]
    statuses: tuple[StatusCount, ...]
    sent: tuple[Sent, ...]
    tables: dict[str, Sequence[Any]] = field(default_factory=dict, compare=False, repr=False)
    shares: dict[tuple[str, str, str], Array] = field(default_factory=dict, compare=False, repr=False)
    transcripts: dict[str, Mapping[str, Transcript]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        """The scores of every subject in every dimension and overall, by each judge and by the panel."""
        return tuple(scores_of(self.marks[self.settings.truncated]))

    @cached_property
    def cells(self) -> Mapping[tuple[str, str, str], ItemScores]:
        """The marks by subject, dimension and judge (or the panel), with truncated answers as the sweep asks."""
        return {(each.subject, each.dimension, each.judge): each for each in self.marks[self.settings.truncated]}

    @cached_property
    def answers(self) -> Mapping[tuple[str, str], AnswerTexts]:
        """The lengths, refusals and cuts of the answers, by subject and dimension."""
        return read_answers(self.run, self.settings)

    @cached_property
    def bridge(self) -> Bridge:
        """The judges compared with those of earlier studies."""
        return bridge_of(self.run, self.settings, self.rubrics)


def summarise(run: Run) -> Summary:
    """Summarise the rows of a run written so far.

    Raises:
        DamagedFile: a file cannot be read, or an answer or verdict occurs twice.
    """
    run = steady(run)
    rubrics = run.rubrics
    settings = score_settings(run, rubrics)
    parts = (
        (*cell, RowIndex.of(answers_of(run, *cell), verdicts_on(run, *cell)))
        for cell in product(settings.subjects, settings.tests)
    )
    marks, statuses = marks_and_statuses(parts, settings)
    return Summary(run, settings, rubrics, marks, statuses, run.settings().subjects)


def answers_of(run: Run, subject: str, dimension: str) -> list[Answered]:
    """Return a subject's responses in a dimension without their texts."""
    return _rows(Answered, run.responses(subject, dimension, columns=Answered._fields))


def verdicts_on(run: Run, subject: str, dimension: str, judge: str | None = None) -> list[Judged]:
    """Return the verdicts on a subject's responses by the panel, or by one rater, without their texts."""
    return _rows(Judged, run.verdicts(judge, subject, dimension, columns=Judged._fields))


def _rows(row_type: type[T], table: pa.Table) -> list[T]:
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    columns["state"] = [_STATES[state] for state in columns["state"]]
    return list(map(row_type, *columns.values()))


def score_settings(run: Run, dimensions: Iterable[str]) -> ScoreSettings:
    """Return the settings that scores in these dimensions depend on.

    Tests are sorted by id: bootstraps, permutations and splits must not depend on the order of a file of tests.
    """
    tests = {dimension: dict(sorted(_generation_calls(run, dimension))) for dimension in dimensions}
    return ScoreSettings(
        subjects=run.subjects,
        panel=run.panel,
        tests={dimension: tuple(calls) for dimension, calls in tests.items()},
        samples=run.record.sweep.samples,
        replicates=run.record.sweep.replicates,
        truncated=run.record.sweep.truncated,
        calls={dimension: tuple(calls.values()) for dimension, calls in tests.items()},
        given=frozenset(run.subjects) - {subject.name for subject in run.record.sweep.subjects},
    )


def _generation_calls(run: Run, dimension: str) -> Iterator[tuple[str, str]]:
    """Yield the id of each test of a dimension and the key of the call that generated it, or the id if none did."""
    return ((id_, call or id_) for id_, call in rows_in(tests_with_calls(run, dimension).select(["id", "call"])))


def marks_and_statuses(
    parts: Iterable[tuple[str, str, RowIndex]], settings: ScoreSettings
) -> tuple[Mapping[Truncated, tuple[ItemScores, ...]], tuple[StatusCount, ...]]:
    """Return all marks and the counts of responses, then of each judge's verdicts, in the sweep's order.

    A part is a subject, a dimension and their rows; the rows of one part at a time are held.
    """
    marks: dict[Truncated, list[ItemScores]] = {"judge": [], "exclude": []}
    statuses: list[StatusCount] = []
    for subject, dimension, rows in parts:
        own = replace(settings, subjects=(subject,), tests={dimension: settings.tests[dimension]})
        judged = complete = marks_of(rows, replace(own, truncated="judge"))
        if any(map(is_truncated, rows.responses.values())):
            complete = marks_of(rows, replace(own, truncated="exclude"))
        marks["judge"] += judged
        marks["exclude"] += complete
        statuses += count_statuses(row_statuses(rows, own))
    subjects = {name: rank for rank, name in enumerate(settings.subjects)}
    judges = {name: rank for rank, name in enumerate((None, *settings.panel, PANEL))}
    for scores in marks.values():
        scores.sort(key=lambda each: (subjects[each.subject], judges[each.judge]))
    statuses.sort(key=lambda counted: judges[counted.judge])
    return {truncated: tuple(scores) for truncated, scores in marks.items()}, tuple(statuses)
