"""A run's rows as the report needs them, read from the run folder part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from hab_ray.analysis.cells import ScoreSettings
from hab_ray.analysis.summary import Part, Summary, Summing
from hab_ray.rows import ChosenTest, Response, Verdict
from hab_ray.stages.choose import tests_file
from hab_ray.stages.judge import verdicts_file
from hab_ray.stages.respond import responses_file
from hab_ray.work import Work

TESTS_SHOWN = 3


@dataclass(frozen=True)
class Gathered:
    """All tests of a run, what its sweep asks for and what its rows show.

    Of the rows themselves only the answers to the tests `shown` and the verdicts on them are kept.
    """

    tests: Mapping[str, list[ChosenTest]]
    settings: ScoreSettings
    summary: Summary
    responses: list[Response]
    verdicts: list[Verdict]


def gather(work: Work) -> Gathered:
    """Read what is there; views that are not written yet leave their rows missing."""
    tests = {dimension: work.run.read(ChosenTest, tests_file(dimension)) for dimension in work.rubrics}
    settings = ScoreSettings(
        subjects=tuple(subject.name for subject in work.sweep.subjects),
        judges=tuple(judge.name for judge in work.sweep.judges),
        tests={dimension: tuple(test.id for test in chosen) for dimension, chosen in tests.items()},
        samples=work.sweep.samples,
        truncated=work.sweep.truncated,
    )
    to_read = {dimension: {test.id for test in shown(chosen)} for dimension, chosen in tests.items()}
    summing, responses, verdicts = Summing(settings), list[Response](), list[Verdict]()
    for part in _parts(work, settings):
        summing.add(part)
        responses += [row for row in part.responses if row.test_id in to_read[part.dimension]]
        verdicts += [row for row in part.verdicts if row.test_id in to_read[part.dimension]]
    return Gathered(tests, settings, summing.summary(), responses, verdicts)


def shown(tests: Sequence[ChosenTest]) -> list[ChosenTest]:
    """The tests of a dimension whose transcripts are in the report: the first by the hash of their ids."""
    return sorted(tests, key=lambda test: sha256(test.id.encode("utf-8", "surrogatepass")).digest())[:TESTS_SHOWN]


def _parts(work: Work, settings: ScoreSettings) -> Iterator[Part]:
    for subject in settings.subjects:
        for dimension in settings.tests:
            responses = work.run.read(Response, responses_file(subject, dimension))
            files = (verdicts_file(judge, subject, dimension) for judge in settings.judges)
            verdicts = [row for file in files for row in work.run.read(Verdict, file)]
            yield Part(subject, dimension, responses, verdicts)
