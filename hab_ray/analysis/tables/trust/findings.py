"""Signs of trouble in a run's own data, the most severe first. The report opens with the first three."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from hab_ray.analysis.evidence.verdicts import read_verdicts
from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.signs import design, judging, rows
from hab_ray.analysis.signs import drift as signs
from hab_ray.analysis.signs import people as rating
from hab_ray.analysis.signs.finding import Finding, ranked
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.bounds import bounds_of
from hab_ray.analysis.tables.differences import differences
from hab_ray.analysis.tables.settings import settings
from hab_ray.analysis.tables.trust.agreement import agreed
from hab_ray.analysis.tables.trust.drift import drift
from hab_ray.analysis.tables.trust.people import people
from hab_ray.analysis.tables.trust.preferences import preferences
from hab_ray.results import rows_in
from hab_ray.rows import State

MIN_SIMILARITY = 0.7
_WORD = re.compile(r"\w+")
_WORDS = 3
_TEXTS_AT_ONCE = 256


def near_duplicates(texts: Sequence[str]) -> dict[int, int]:
    """Return, by position, the first other text whose word trigrams have a Jaccard index of .7 or more with a text's.

    Memory grows with the number of texts, also where all of them share words: `_TEXTS_AT_ONCE` are compared at a time.
    """
    trigrams = [_trigrams(text) for text in texts]
    columns: dict[str, int] = {}
    indices = [columns.setdefault(each, len(columns)) for each in chain.from_iterable(trigrams)]
    if not columns:
        return {}
    starts = np.cumsum([0, *map(len, trigrams)])
    contains = csr_array((np.ones(len(indices), dtype=np.int32), indices, starts), shape=(len(texts), len(columns)))
    contained, sizes = contains.T.tocsr(), np.diff(starts)
    found = [
        _first_similar(contains[start : start + _TEXTS_AT_ONCE] @ contained, sizes, start)
        for start in range(0, len(texts), _TEXTS_AT_ONCE)
    ]
    return {text: other for text, other in enumerate(np.concatenate(found).tolist()) if other < len(texts)}


def _first_similar(shared: csr_array, sizes: NDArray[np.int64], start: int) -> NDArray[np.int64]:
    """Return the first text similar to each text from `start` on, or the number of texts if there is none.

    `shared` are the numbers of trigrams that each of them shares with each text.
    """
    counts = shared.tocoo()
    one, other = counts.row + start, counts.col
    jaccard = counts.data / (sizes[one] + sizes[other] - counts.data)
    is_similar = (jaccard >= MIN_SIMILARITY) & (one != other)
    first = np.full(shared.shape[0], len(sizes))
    np.minimum.at(first, counts.row[is_similar], other[is_similar])
    return first


def _trigrams(text: str) -> set[str]:
    words = _WORD.findall(text.casefold())
    return {" ".join(words[at : at + _WORDS]) for at in range(max(1, len(words) - _WORDS + 1))} if words else set()


@analysis(Finding, order=10, heading="Before you use these scores")
def findings(summary: Summary) -> Sequence[Finding]:
    """Return all findings that a reader should know before using the scores, the most severe first."""
    marks, asked, record = summary.marks[summary.settings.truncated], summary.settings, summary.run.record
    panel = [score for score in summary.scores if score.judge == PANEL]
    agreement, statuses, models = agreed(summary), summary.statuses, settings(summary)
    without_effect = {line.name: [each.field for each in line.unheeded] for line in models.subjects}
    unheeded = {line.name: [*map(str, line.unheeded)] for line in (*models.subjects, *models.judges) if line.unheeded}
    cutoffs = {subject.name: record.entry(subject.model).cutoff for subject in record.sweep.subjects}
    made = None if record.sweep.gives_tests else record.started.date()
    read = list(read_verdicts(summary.run, asked, summary.rubrics))
    rated = people(summary)
    return ranked(
        [
            *rows.without_tests(asked.tests),
            *rows.unfinished(statuses, len(asked.panel) * asked.replicates),
            *judging.chance(agreement, rated),
            *design.separate_nobody(differences(summary), asked),
            *judging.judges_without_scores(statuses),
            *judging.lost_verdicts(statuses),
            *judging.empty_verdicts(read),
            *judging.contradictory_verdicts(read),
            *rating.people_differ(rated, asked.panel),
            *rating.people_disagree(rated),
            *rating.raters_at_chance(rated, asked.panel),
            *judging.ambiguous_rubrics(agreement),
            *(rows.without_overall(panel, statuses) if all(asked.tests.values()) else ()),
            *rows.not_at_random((one for one in marks if one.judge == PANEL), statuses),
            *rows.missing(bounds_of(marks)),
            *signs.changed_models(summary),
            *signs.shifted_judges(drift(summary)),
            *rows.settings_differ(summary.sent, without_effect),
            *judging.partial_judges(preferences(summary)),
            *design.too_easy(panel),
            *design.at_the_ends(marks),
            *design.near_duplicates(_alike_tests(summary), asked),
            *rows.refusals(_refused(summary)),
            *rows.cut((who, int(texts.truncated.sum()), texts.answers) for (who, _), texts in summary.answers.items()),
            *design.few_calls(asked),
            *design.varying_calls(marks),
            *design.trained_on(cutoffs, made, _named_tests(summary)),
            *rows.not_sent(unheeded),
        ]
    )


def _refused(summary: Summary) -> list[tuple[str, int, int]]:
    """Count refusals in prose and answers that the vendor blocked, among all tests of a subject in a dimension."""
    blocked = Counter[tuple[str, str]]()
    for status in summary.statuses:
        if status.judge is None and status.state is State.BLOCKED:
            blocked[status.subject, status.dimension] += status.count
    return [
        (cell[0], int(texts.refuses.sum()) + blocked[cell], texts.refuses.size)
        for cell, texts in summary.answers.items()
    ]


def _alike_tests(summary: Summary) -> Mapping[str, Mapping[str, str]]:
    """Return, by dimension, the tests that resemble another, and the first that each resembles."""
    found = {}
    for dimension in summary.settings.tests:
        table = summary.run.tests(dimension, columns=["id", "prompt", "context"])
        texts = {id_: f"{prompt}\n{context}" for id_, prompt, context in rows_in(table)}
        ids = list(texts)
        found[dimension] = {ids[one]: ids[other] for one, other in near_duplicates(list(texts.values())).items()}
    return found


def _named_tests(summary: Summary) -> tuple[str, ...]:
    sweep = summary.run.record.sweep
    given = sweep.tests or (sweep.responses.file if sweep.responses else "")
    return (given if isinstance(given, str) else given.name,)
