"""Transcripts: a test with every answer to it and every verdict on these answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hab_ray.rows import ChosenTest, Response, Verdict


@dataclass(frozen=True, slots=True)
class Answer:
    """What one subject answered when it was asked a test for the `sample`-th time, counted from 0.

    `response` is None until there is one; its `state` and `finish` say whether it is an answer, why not, and whether
    it was cut at the output limit. `verdicts` are those of the panel's judges in the sweep's order, then those of
    further raters by name; each has the letters of its issues, the assessment, the score (0..10, None unless its
    state is ok) and the reason of any other state.
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


def transcripts_of(
    tests: Sequence[ChosenTest], responses: Sequence[Response], verdicts: Sequence[Verdict], asked: Asked
) -> Iterator[Transcript]:
    """The transcripts of some tests, in their order, from the rows that belong to them."""
    given = {(row.test_id, row.subject, row.sample): row for row in responses}
    read: dict[tuple[str, str, int], dict[str, Verdict]] = defaultdict(dict)
    for row in verdicts:
        read[row.test_id, row.subject, row.sample][row.judge] = row
    for test in tests:
        slots = [(test.id, subject, sample) for subject in asked.subjects for sample in range(asked.samples)]
        yield Transcript(
            test,
            tuple(
                Answer(slot[1], slot[2], given.get(slot), _in_order(read.get(slot, {}), asked.raters)) for slot in slots
            ),
        )


def _in_order(verdicts: Mapping[str, Verdict], raters: Sequence[str]) -> tuple[Verdict, ...]:
    return tuple(verdicts[rater] for rater in raters if rater in verdicts)
