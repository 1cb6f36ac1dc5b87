"""Transcripts to read: a few tests of each dimension with every answer and every verdict.

The tests are picked by the hash of their ids: the same ones whenever the report is written, and not by result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary
from hab_ray.results import Answer, Transcript
from hab_ray.rows import ChosenTest, Response, Verdict
from hab_ray.rubric import Criterion, Rubric

TESTS_SHOWN = 3


@dataclass(frozen=True)
class ReadVerdict:
    """A verdict with its letters spelt out; `on_panel` is false for a further rater's."""

    verdict: Verdict
    issues: tuple[Criterion, ...]
    on_panel: bool


@dataclass(frozen=True)
class ShownAnswer:
    """A subject's first answer (None: nothing yet) and the verdicts on it."""

    subject: str
    response: Response | None
    verdicts: tuple[ReadVerdict, ...]


@dataclass(frozen=True)
class ShownTest:
    """One test with every subject's first answer."""

    test: ChosenTest
    answers: tuple[ShownAnswer, ...]


@dataclass(frozen=True)
class DimensionSample:
    """A dimension's transcripts; `tests` counts all its tests."""

    rubric: Rubric
    tests: int
    shown: tuple[ShownTest, ...]


@analysis(order=80, link="Transcripts", heading="Transcripts")
def transcripts(summary: Summary) -> Sequence[DimensionSample]:
    """The sample of every dimension, in the order of the dimensions."""
    return [_sample(summary, dimension, ids) for dimension, ids in summary.settings.tests.items()]


def _sample(summary: Summary, dimension: str, test_ids: Sequence[str]) -> DimensionSample:
    rubric, picked = summary.rubrics[dimension], pick(test_ids)
    found = {one.test.id: one for one in summary.run.transcripts(dimension, test_ids=picked)}
    panel = summary.settings.panel
    return DimensionSample(rubric, len(test_ids), tuple(_shown(found[test_id], rubric, panel) for test_id in picked))


def pick(test_ids: Sequence[str]) -> list[str]:
    """The tests whose transcripts are shown: the first by the hash of their ids."""
    return sorted(test_ids, key=lambda test_id: sha256(test_id.encode("utf-8", "surrogatepass")).digest())[:TESTS_SHOWN]


def _shown(transcript: Transcript, rubric: Rubric, panel: Sequence[str]) -> ShownTest:
    first = [answer for answer in transcript.answers if answer.sample == 0]
    return ShownTest(transcript.test, tuple(_answer(answer, rubric, panel) for answer in first))


def _answer(answer: Answer, rubric: Rubric, panel: Sequence[str]) -> ShownAnswer:
    read = tuple(ReadVerdict(v, _spelt_out(rubric, v.issues or ()), v.judge in panel) for v in answer.verdicts)
    return ShownAnswer(answer.subject, answer.response, read)


def _spelt_out(rubric: Rubric, letters: Sequence[str]) -> tuple[Criterion, ...]:
    return tuple(issue for issue in rubric.judging.issues for _ in range(letters.count(issue.letter)))
