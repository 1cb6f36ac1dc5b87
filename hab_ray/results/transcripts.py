"""Transcripts: a test with all answers to it and all verdicts on these answers."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from textwrap import indent

import pyarrow as pa
import pyarrow.compute as pc

from hab_ray.calls import Finish
from hab_ray.results.views import Views
from hab_ray.rows import ChosenTest, R, Response, State, Verdict, from_table
from hab_ray.stages.views import responses_file, tests_file, verdicts_file
from hab_ray.visible import for_terminal

_MARGIN = "    "


@dataclass(frozen=True, slots=True)
class Answer:
    """A subject's `sample`-th answer to a test, counted from 0, with the verdicts on it.

    `response` is None until there is one; its `state` and `finish` say whether it is an answer and whether it was cut
    at the output limit. `verdicts` are ordered by judge of the panel in the sweep's order, then further raters by name,
    then replicate; each has the letters of its issues, the assessment, the score (0..10, None unless its state is ok)
    and the reason for any other state.
    """

    subject: str
    sample: int
    response: Response | None
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """Texts for printing a transcript: the rubric's words for each issue, and subjects' own system prompts."""

    issues: Mapping[str, str] = field(default_factory=dict)
    systems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A test (prompt, context, system text) with the answers of every subject, in the sweep's order.

    `print` shows it as text with the help of `words`, which are empty if several transcripts are read at once.
    """

    test: ChosenTest
    answers: tuple[Answer, ...]
    words: Words = Words()

    def __str__(self) -> str:
        return for_terminal("\n".join(_lines(self)))


def _lines(transcript: Transcript) -> Iterator[str]:
    test, words = transcript.test, transcript.words
    yield f"Test {test.id} ({test.dimension})"
    for title, text in (("System prompt", test.system), ("Query", test.prompt), ("Context", test.context)):
        if text:
            yield from ("", title, indent(text, _MARGIN))
    for answer in transcript.answers:
        number = f", sample {answer.sample}" if answer.sample else ""
        yield from ("", f"Answer of {answer.subject}{number}")
        if own := words.systems.get(answer.subject):
            yield from (f"{_MARGIN}(asked under its own system prompt, before the one above)", indent(own, 2 * _MARGIN))
        yield indent(_answer_text(answer.response), _MARGIN)
        for verdict in answer.verdicts:
            yield from ("", *_verdict_lines(verdict, words.issues))


def _answer_text(response: Response | None) -> str:
    if response is None:
        return "(no answer)"
    if response.state is not State.OK:
        return f"({response.state}: {response.reason})"
    return f"{response.text}\n(cut at the output limit)" if response.finish == Finish.TRUNCATED else response.text


def _verdict_lines(verdict: Verdict, words: Mapping[str, str]) -> Iterator[str]:
    from hab_ray.rubric.parts import SCORE_START

    number = f", reading {verdict.replicate + 1}" if verdict.replicate else ""
    if verdict.state is not State.OK or verdict.score is None:
        yield f"{_MARGIN}{verdict.judge}{number}: no score ({verdict.state}: {verdict.reason})"
        return
    yield f"{_MARGIN}{verdict.judge}{number}: {verdict.score:g} of {SCORE_START}"
    if verdict.issues is None:
        yield f"{_MARGIN}  its issues are unknown"
    elif not verdict.issues:
        yield f"{_MARGIN}  names no issue"
    for letter in verdict.issues or ():
        yield f"{_MARGIN}  {letter}: {words.get(letter, '(its wording is no longer available)')}"
    if verdict.assessment:
        yield indent(verdict.assessment, f"{_MARGIN}  > ")


def read_transcripts(
    views: Views,
    dimension: str,
    test_ids: Sequence[str] | None,
    subjects: Sequence[str],
    samples: int,
    raters: Sequence[str],
) -> Iterator[Transcript]:
    """Yield the transcripts of a dimension's tests, or of those in `test_ids`, in the order of subjects and raters."""
    rows_on = partial(_rows_on, views, test_ids)
    existing, order = set(views.verdict_files()), {rater: at for at, rater in enumerate(raters)}
    answers = rows_on(Response, [responses_file(subject, dimension) for subject in subjects], "test_id")
    by_answer = {(row.test_id, row.subject, row.sample): row for row in answers}
    files = [verdicts_file(rater, subject, dimension) for subject in subjects for rater in raters]
    verdicts = rows_on(Verdict, [file for file in files if file in existing], "test_id")
    read: dict[tuple[str, str, int], list[Verdict]] = defaultdict(list)
    for row in sorted((v for v in verdicts if v.judge in order), key=lambda v: (order[v.judge], v.replicate)):
        read[row.test_id, row.subject, row.sample].append(row)
    for test in rows_on(ChosenTest, [tests_file(dimension)], "id"):
        keys = [(test.id, subject, sample) for subject in subjects for sample in range(samples)]
        yield Transcript(test, tuple(Answer(*key[1:], by_answer.get(key), tuple(read.get(key, ()))) for key in keys))


def _rows_on(
    views: Views, test_ids: Sequence[str] | None, row_type: type[R], names: Sequence[str], column: str
) -> list[R]:
    """Return the rows on certain tests (None: all); read one view at a time to hold only these rows."""
    wanted = None if test_ids is None else pa.array(test_ids, pa.string())
    rows: list[R] = []
    for name in names:
        table = views.read(row_type, [name])
        rows += from_table(row_type, table if wanted is None else table.filter(pc.is_in(table.column(column), wanted)))
    return rows
