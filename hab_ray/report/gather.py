"""A run's rows as the report needs them, read from the run folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hab_ray.analysis.cells import ScoreSettings
from hab_ray.rows import ChosenTest, Response, Verdict
from hab_ray.work import Shard, StageName, Work


@dataclass(frozen=True)
class Gathered:
    """All tests, responses and verdicts of a run, and what its sweep asks for."""

    tests: Mapping[str, list[ChosenTest]]
    responses: list[Response]
    verdicts: list[Verdict]
    settings: ScoreSettings


def gather(work: Work) -> Gathered:
    """Read what is there; views that are not written yet leave their rows missing."""
    tests = {dimension: work.tests(dimension) for dimension in work.rubrics}
    return Gathered(
        tests=tests,
        responses=[row for file in _files(work, StageName.RESPOND) for row in work.run.read(Response, file)],
        verdicts=[row for file in _files(work, StageName.JUDGE) for row in work.run.read(Verdict, file)],
        settings=ScoreSettings(
            subjects=tuple(subject.name for subject in work.sweep.subjects),
            judges=tuple(judge.name for judge in work.sweep.judges),
            tests={dimension: tuple(test.id for test in chosen) for dimension, chosen in tests.items()},
            samples=work.sweep.samples,
            truncated=work.sweep.truncated,
        ),
    )


def _files(work: Work, stage: StageName) -> Iterator[str]:
    return (shard.file for shard in work.shards() if shard.stage is stage)


def response_file(subject: str, dimension: str) -> str:
    """Where a subject's responses are kept, below the run folder."""
    return Shard(StageName.RESPOND, subject, dimension).file


def verdict_file(judge: str, subject: str, dimension: str) -> str:
    """Where a judge's verdicts on a subject are kept, below the run folder."""
    return Shard(StageName.JUDGE, judge, dimension, subject).file
