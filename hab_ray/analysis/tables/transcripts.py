"""Transcripts to read: a few tests of each dimension with all answers and verdicts.

Tests are picked by the hash of their ids: reproducibly, and independently of results. Single answers are added for
quarters of the score, and issues named by the panel, that the picked tests do not cover.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan

from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.registry import section
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.issues import hash_of, issues, pick
from hab_ray.results import Transcript
from hab_ray.rubric import Rubric

QUARTERS = 4


@dataclass(frozen=True)
class Example:
    """One answer to a test, and what it exemplifies."""

    of: tuple[str, ...]
    test: Transcript


@dataclass(frozen=True)
class DimensionSample:
    """A dimension's transcripts of first answers; `tests` counts all its tests, `systems` are subjects' own prompts."""

    rubric: Rubric
    tests: int
    systems: Mapping[str, str | None]
    shown: tuple[Transcript, ...]
    examples: tuple[Example, ...]


@section(order=65, heading="Transcripts")
def transcripts(summary: Summary) -> Sequence[DimensionSample]:
    """Return the sample of every dimension, in the sweep's order."""
    return [_sample(summary, dimension, ids) for dimension, ids in summary.settings.tests.items()]


def _sample(summary: Summary, dimension: str, test_ids: Sequence[str]) -> DimensionSample:
    picked = pick(test_ids)
    wanted: dict[tuple[str, str], list[str]] = {}
    for what, at in (*_of_quarters(summary, dimension, picked), *_of_issues(summary, dimension, picked)):
        wanted.setdefault(at, []).append(what)
    ids = list(dict.fromkeys([*picked, *(test_id for test_id, _ in wanted)]))
    found = {one.test.id: one for one in summary.run.transcripts(dimension, test_ids=ids)}
    return DimensionSample(
        summary.rubrics[dimension],
        len(test_ids),
        {sent.subject: sent.system for sent in summary.sent},
        tuple(_first_answers(found[test_id]) for test_id in picked),
        tuple(Example(tuple(of), _first_answers(found[test_id], subject)) for (test_id, subject), of in wanted.items()),
    )


def _of_quarters(summary: Summary, dimension: str, picked: Sequence[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield an answer, by test and subject, for each quarter of the score that no picked test covers."""
    ids = summary.settings.tests[dimension]
    at: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for marks in summary.marks[summary.settings.truncated]:
        if marks.judge == PANEL and marks.dimension == dimension:
            for test_id, first in zip(ids, marks.by_test[:, 0].tolist(), strict=True):
                if not isnan(first):
                    at[min(int(first * QUARTERS), QUARTERS - 1)].append((test_id, marks.subject))
    for quarter, answers in sorted(at.items()):
        if not any(test_id in picked for test_id, _ in answers):
            yield f"score {quarter / QUARTERS:.2f} to {(quarter + 1) / QUARTERS:.2f}", min(answers, key=_hash)


def _of_issues(summary: Summary, dimension: str, picked: Sequence[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield an answer, by test and subject, for each issue named by the panel but for no picked test."""
    by_issue: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for rate in issues(summary):
        if rate.dimension == dimension and rate.judge == PANEL and rate.example is not None:
            by_issue[rate.issue].append((rate.example, rate.subject))
    for issue, answers in sorted(by_issue.items()):
        if not any(test_id in picked for test_id, _ in answers):
            yield f"issue {issue}", min(answers, key=_hash)


def _hash(answer: tuple[str, str]) -> bytes:
    return hash_of("\0".join(answer))


def _first_answers(transcript: Transcript, subject: str | None = None) -> Transcript:
    """Return a test with the first answer of every subject, or of one."""
    first = (one for one in transcript.answers if one.sample == 0 and subject in (None, one.subject))
    return replace(transcript, answers=tuple(first))
