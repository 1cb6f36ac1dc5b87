"""Transcripts to read: a few tests of each dimension with all answers and verdicts.

Tests are picked by the hash of their ids: reproducibly, and independently of results. Single answers are added for
quarters of the score, and issues named by the panel, that the picked tests do not cover.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.registry import section
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.issues import hash_of, issues, pick
from hab_ray.results import Answer, Transcript
from hab_ray.rows import ChosenTest, Response, Verdict
from hab_ray.rubric import Criterion, Rubric

QUARTERS = 4


@dataclass(frozen=True)
class ReadVerdict:
    """A verdict with the issues behind its letters; `on_panel` is false for other raters."""

    verdict: Verdict
    issues: tuple[Criterion, ...]
    on_panel: bool


@dataclass(frozen=True)
class ShownAnswer:
    """A subject's first response, if any, and the verdicts on it; `system` is the subject's own system prompt."""

    subject: str
    system: str | None
    response: Response | None
    verdicts: tuple[ReadVerdict, ...]


@dataclass(frozen=True)
class ShownTest:
    """One test with every subject's first answer."""

    test: ChosenTest
    answers: tuple[ShownAnswer, ...]


@dataclass(frozen=True)
class Example:
    """One answer to a test, and what it exemplifies."""

    of: tuple[str, ...]
    test: ShownTest


@dataclass(frozen=True)
class DimensionSample:
    """A dimension's transcripts; `tests` counts all its tests."""

    rubric: Rubric
    tests: int
    shown: tuple[ShownTest, ...]
    examples: tuple[Example, ...]


@section(order=65, heading="Transcripts")
def transcripts(summary: Summary) -> Sequence[DimensionSample]:
    """Return the sample of every dimension, in the sweep's order."""
    return [_sample(summary, dimension, ids) for dimension, ids in summary.settings.tests.items()]


def _sample(summary: Summary, dimension: str, test_ids: Sequence[str]) -> DimensionSample:
    rubric, picked = summary.rubrics[dimension], pick(test_ids)
    wanted: dict[tuple[str, str], list[str]] = {}
    for what, at in (*_of_quarters(summary, dimension, picked), *_of_issues(summary, dimension, picked)):
        wanted.setdefault(at, []).append(what)
    ids = list(dict.fromkeys([*picked, *(test_id for test_id, _ in wanted)]))
    found = {one.test.id: one for one in summary.run.transcripts(dimension, test_ids=ids)}
    systems = {sent.subject: sent.system for sent in summary.sent}
    panel = summary.settings.panel
    return DimensionSample(
        rubric,
        len(test_ids),
        tuple(_shown(found[test_id], rubric, panel, systems) for test_id in picked),
        tuple(
            Example(tuple(of), _shown(found[test_id], rubric, panel, systems, subject))
            for (test_id, subject), of in wanted.items()
        ),
    )


def _of_quarters(summary: Summary, dimension: str, picked: Sequence[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield an answer, by test and subject, for each quarter of the score that no picked test covers."""
    ids = summary.settings.tests[dimension]
    at: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for marks in summary.marks[summary.settings.truncated]:
        if marks.judge == PANEL and marks.dimension == dimension:
            for test_id, (first, *_) in zip(ids, marks.by_test, strict=True):
                if first is not None:
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


def _shown(
    transcript: Transcript,
    rubric: Rubric,
    panel: Sequence[str],
    systems: Mapping[str, str | None],
    subject: str | None = None,
) -> ShownTest:
    """Return a test with the first answer of every subject, or of one."""
    first = [one for one in transcript.answers if one.sample == 0 and subject in (None, one.subject)]
    return ShownTest(transcript.test, tuple(_answer(one, rubric, panel, systems.get(one.subject)) for one in first))


def _answer(answer: Answer, rubric: Rubric, panel: Sequence[str], system: str | None) -> ShownAnswer:
    read = tuple(ReadVerdict(v, _spelt_out(rubric, v.issues or ()), v.judge in panel) for v in answer.verdicts)
    return ShownAnswer(answer.subject, system, answer.response, read)


def _spelt_out(rubric: Rubric, letters: Sequence[str]) -> tuple[Criterion, ...]:
    return tuple(issue for issue in rubric.judging.issues for _ in range(letters.count(issue.letter)))
