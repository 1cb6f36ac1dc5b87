"""Transcripts to read: a few tests of each dimension with every answer and every verdict.

The tests are picked by the hash of their ids: the same ones whenever the report is written, and not by result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hab_ray.analysis.cells import RowId, id_of
from hab_ray.report.gather import Gathered, shown
from hab_ray.rows import ChosenTest, Response, Verdict
from hab_ray.rubric import Criterion, Rubric


@dataclass(frozen=True)
class ReadVerdict:
    """A verdict with its letters spelt out."""

    verdict: Verdict
    issues: tuple[Criterion, ...]


@dataclass(frozen=True)
class Answer:
    """What one subject said (None: nothing yet) and what the judges made of it."""

    subject: str
    response: Response | None
    verdicts: tuple[ReadVerdict, ...]


@dataclass(frozen=True)
class Transcript:
    """One test with every subject's first answer."""

    test: ChosenTest
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class DimensionSample:
    """A dimension's transcripts."""

    rubric: Rubric
    tests: int
    transcripts: tuple[Transcript, ...]


def samples(rubrics: Mapping[str, Rubric], gathered: Gathered) -> tuple[DimensionSample, ...]:
    """The transcripts of every dimension."""
    responses = {id_of(response): response for response in gathered.responses if response.sample == 0}
    verdicts = {(verdict.judge, id_of(verdict)): verdict for verdict in gathered.verdicts if verdict.sample == 0}
    return tuple(
        DimensionSample(
            rubric,
            len(gathered.tests[dimension]),
            tuple(
                _transcript(test, rubric, gathered, responses, verdicts) for test in shown(gathered.tests[dimension])
            ),
        )
        for dimension, rubric in rubrics.items()
    )


def _transcript(
    test: ChosenTest,
    rubric: Rubric,
    gathered: Gathered,
    responses: Mapping[RowId, Response],
    verdicts: Mapping[tuple[str, RowId], Verdict],
) -> Transcript:
    answers = []
    for subject in gathered.settings.subjects:
        row = RowId(subject, test.dimension, test.id, 0)
        found = (verdicts.get((judge, row)) for judge in gathered.settings.judges)
        read = tuple(ReadVerdict(verdict, _spelt_out(rubric, verdict.issues)) for verdict in found if verdict)
        answers.append(Answer(subject, responses.get(row), read))
    return Transcript(test, tuple(answers))


def _spelt_out(rubric: Rubric, letters: Sequence[str]) -> tuple[Criterion, ...]:
    return tuple(issue for issue in rubric.judging.issues if issue.letter in letters)
