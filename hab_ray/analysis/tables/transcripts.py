"""Transcripts to read: a few tests of each dimension with all answers and verdicts, and examples of what they lack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hab_ray.analysis.examples import pick, single_answers, transcripts_shown
from hab_ray.analysis.registry import section
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.issues import issues
from hab_ray.results import Transcript
from hab_ray.rubric import Rubric


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
    rates = issues(summary)
    found, single = transcripts_shown(summary, dimension, rates), single_answers(summary, dimension, rates)
    return DimensionSample(
        summary.rubrics[dimension],
        len(test_ids),
        {sent.subject: sent.system for sent in summary.sent},
        tuple(_first_answers(found[test_id]) for test_id in pick(test_ids)),
        tuple(Example(tuple(of), _first_answers(found[test_id], subject)) for (test_id, subject), of in single.items()),
    )


def _first_answers(transcript: Transcript, subject: str | None = None) -> Transcript:
    """Return a test with the first answer of every subject, or of one."""
    first = (one for one in transcript.answers if one.sample == 0 and subject in (None, one.subject))
    return replace(transcript, answers=tuple(first))
