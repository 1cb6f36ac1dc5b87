"""The answers that a report shows: all to a few tests, and single ones for what these tests lack.

Tests are picked by the hash of their ids: reproducibly, and independently of results. Single answers are added for
quarters of the score, and issues named by the panel, that the picked tests do not cover, and for the costliest issue of
each subject.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import isnan

from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.rates import IssueRate, hash_of
from hab_ray.analysis.summary import Summary
from hab_ray.results import Transcript

TESTS_SHOWN = 3
QUARTERS = 4


def pick(test_ids: Sequence[str]) -> list[str]:
    """Return the tests whose transcripts are shown: the first by the hash of their ids."""
    return sorted(test_ids, key=hash_of)[:TESTS_SHOWN]


def costliest(rates: Iterable[IssueRate], dimension: str) -> list[IssueRate]:
    """Return the rate of the issue that costs each subject most by the panel, the costliest first."""
    found: dict[str, IssueRate] = {}
    for rate in rates:
        if rate.dimension == dimension and rate.judge == PANEL and rate.lost:
            found[rate.subject] = max(found.get(rate.subject, rate), rate, key=lambda one: one.lost or 0.0)
    return sorted(found.values(), key=lambda one: (-(one.lost or 0.0), one.subject))


def single_answers(
    summary: Summary, dimension: str, rates: Iterable[IssueRate]
) -> Mapping[tuple[str, str], Sequence[str]]:
    """Return, by test and subject, the answers to show beside those to picked tests, and what each exemplifies."""
    picked, found = pick(summary.settings.tests[dimension]), defaultdict[tuple[str, str], list[str]](list)
    for groups in (_by_quarter(summary, dimension), _by_issue(rates, dimension)):
        for what, answers in sorted(groups.items()):
            if not any(test_id in picked for test_id, _ in answers):
                found[min(answers, key=lambda answer: hash_of("\0".join(answer)))].append(what)
    return found


def transcripts_shown(summary: Summary, dimension: str, rates: Sequence[IssueRate]) -> Mapping[str, Transcript]:
    """Return the transcripts of all tests with an answer to show, by the test's id; reads them once."""
    if dimension not in summary.transcripts:
        ids = {
            *pick(summary.settings.tests[dimension]),
            *(test_id for test_id, _ in single_answers(summary, dimension, rates)),
            *(rate.example for rate in costliest(rates, dimension) if rate.example),
        }
        found = summary.run.transcripts(dimension, test_ids=sorted(ids))
        summary.transcripts[dimension] = {one.test.id: one for one in found}
    return summary.transcripts[dimension]


def _by_quarter(summary: Summary, dimension: str) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Return the tests and subjects of first answers by the quarter of their score."""
    ids, found = summary.settings.tests[dimension], defaultdict[str, list[tuple[str, str]]](list)
    for marks in summary.marks[summary.settings.truncated]:
        if marks.judge == PANEL and marks.dimension == dimension:
            for test_id, first in zip(ids, marks.by_test[:, 0].tolist(), strict=True):
                if not isnan(first):
                    quarter = min(int(first * QUARTERS), QUARTERS - 1)
                    what = f"score {quarter / QUARTERS:.2f} to {(quarter + 1) / QUARTERS:.2f}"
                    found[what].append((test_id, marks.subject))
    return found


def _by_issue(rates: Iterable[IssueRate], dimension: str) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Return an example, by test and subject, of every issue that the panel names for each subject."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for rate in rates:
        if rate.dimension == dimension and rate.judge == PANEL and rate.example is not None:
            found[f"issue {rate.issue}"].append((rate.example, rate.subject))
    return found
