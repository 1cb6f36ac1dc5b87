"""Consistency of each judge over replicates of the same answer."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean, stdev

from hab_ray.analysis.marks import VerdictMark
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary
from hab_ray.results import rows_in


@dataclass(frozen=True, slots=True)
class Steadiness:
    """The consistency of a judge in a dimension, over the answers with two or more readable replicates.

    `agreeing` is the share of these answers whose replicates name the same issues, `spread` the mean over them of the
    standard deviation of their scores (0..1, n - 1 in the denominator); both are None without such answers.
    """

    judge: str
    dimension: str
    answers: int
    agreeing: float | None
    spread: float | None


@analysis(Steadiness, order=35, heading="Replicates")
def replicates(summary: Summary) -> Sequence[Steadiness]:
    """Return the steadiness of every judge, varied or not, in every dimension it judges; nothing without replicates."""
    settings, varied = summary.settings, summary.run.record.sweep.varied_judges
    if settings.replicates < 2:
        return []
    panel = [_steadiness(summary, *cell) for cell in product(settings.panel, settings.tests)]
    beside = [_steadiness(summary, judge.name, dimension) for judge in varied for dimension in settings.tests]
    return [*panel, *(line for line in beside if line.answers)]


def _steadiness(summary: Summary, judge: str, dimension: str) -> Steadiness:
    repeated: list[list[VerdictMark]] = []
    for subject in summary.settings.subjects:
        rows = rows_in(summary.run.verdicts(judge, subject, dimension, columns=VerdictMark._fields))
        repeated += repeated_readings(map(VerdictMark._make, rows))
    return steadiness(judge, dimension, repeated)


def repeated_readings(verdicts: Iterable[VerdictMark]) -> list[list[VerdictMark]]:
    """Return one judge's readable verdicts on each answer of one subject that has two or more."""
    by_answer: dict[tuple[str, int], list[VerdictMark]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.mark is not None:
            by_answer[verdict.test_id, verdict.sample].append(verdict)
    return [found for found in by_answer.values() if len(found) > 1]


def steadiness(judge: str, dimension: str, repeated: Sequence[Sequence[VerdictMark]]) -> Steadiness:
    """Return a judge's steadiness over repeated readings of some answers."""
    same = [len({frozenset(one.issues or ()) for one in found}) == 1 for found in repeated]
    spreads = [stdev([one.mark or 0.0 for one in found]) for found in repeated]
    return Steadiness(
        judge, dimension, len(repeated), fmean(same) if same else None, fmean(spreads) if spreads else None
    )
