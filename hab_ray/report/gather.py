"""A run's rows as the report needs them, read from the run folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from sys import intern
from typing import Any

from hab_ray.analysis.cells import ScoreSettings, is_truncated
from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.work import Shard, StageName, Work

TESTS_SHOWN = 3
_ROW_TEXTS = ("test_id", "dimension", "subject", "reason")
_RESPONSE_TEXTS = (*_ROW_TEXTS, "finish", "settings", "model_reported", "served_by")
_VERDICT_TEXTS = (*_ROW_TEXTS, "judge")


@dataclass(frozen=True)
class Gathered:
    """All tests, responses and verdicts of a run, and what its sweep asks for.

    Of answers and assessments only those to the tests `shown` have their words: all of them would take gigabytes.
    """

    tests: Mapping[str, list[ChosenTest]]
    responses: list[Response]
    verdicts: list[Verdict]
    settings: ScoreSettings


def gather(work: Work) -> Gathered:
    """Read what is there; views that are not written yet leave their rows missing."""
    tests = {dimension: work.tests(dimension) for dimension in work.rubrics}
    to_read = {(test.dimension, test.id) for chosen in tests.values() for test in shown(chosen)}
    responses = (row for file in _files(work, StageName.RESPOND) for row in work.run.read(Response, file))
    verdicts = (row for file in _files(work, StageName.JUDGE) for row in work.run.read(Verdict, file))
    return Gathered(
        tests=tests,
        responses=[row if (row.dimension, row.test_id) in to_read else _bare_response(row) for row in responses],
        verdicts=[row if (row.dimension, row.test_id) in to_read else _bare_verdict(row) for row in verdicts],
        settings=ScoreSettings(
            subjects=tuple(subject.name for subject in work.sweep.subjects),
            judges=tuple(judge.name for judge in work.sweep.judges),
            tests={dimension: tuple(test.id for test in chosen) for dimension, chosen in tests.items()},
            samples=work.sweep.samples,
            truncated=work.sweep.truncated,
        ),
    )


def shown(tests: Sequence[ChosenTest]) -> list[ChosenTest]:
    """The tests of a dimension whose transcripts are in the report: the first by the hash of their ids."""
    return sorted(tests, key=lambda test: sha256(test.id.encode("utf-8", "surrogatepass")).digest())[:TESTS_SHOWN]


def _bare_response(row: Response) -> Response:
    """A response without its words, and without its key unless it may be left out."""
    key = "" if row.state is State.OK and not is_truncated(row) else row.reply_key
    return replace(row, text="", reply_key=key, **_held_once(row, _RESPONSE_TEXTS))


def _bare_verdict(row: Verdict) -> Verdict:
    key = "" if row.state is State.OK else row.reply_key
    return replace(row, assessment="", reply_key=key, **_held_once(row, _VERDICT_TEXTS))


def _held_once(row: Response | Verdict, names: Sequence[str]) -> dict[str, Any]:
    """These texts of a row, which many rows have in common."""
    return {name: intern(getattr(row, name)) for name in names}


def _files(work: Work, stage: StageName) -> Iterator[str]:
    return (shard.file for shard in work.shards() if shard.stage is stage)


def response_file(subject: str, dimension: str) -> str:
    """Where a subject's responses are kept, below the run folder."""
    return Shard(StageName.RESPOND, subject, dimension).file


def verdict_file(judge: str, subject: str, dimension: str) -> str:
    """Where a judge's verdicts on a subject are kept, below the run folder."""
    return Shard(StageName.JUDGE, judge, dimension, subject).file
