"""How often each issue is named for each subject's answers, and its share of the points lost."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hab_ray.analysis.examples import costliest, pick, transcripts_shown
from hab_ray.analysis.marks import PANEL
from hab_ray.analysis.pairs import benjamini_hochberg, of_known
from hab_ray.analysis.rates import IssueRate, rates_in
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary
from hab_ray.results import Answer
from hab_ray.rows import ChosenTest
from hab_ray.rubric import Criterion


@dataclass(frozen=True)
class Worst:
    """The issue that costs a subject most in a dimension, with an answer for which it was named.

    `is_transcript` says whether the answer stands among the report's transcripts.
    """

    rate: IssueRate
    issue: Criterion
    test: ChosenTest | None
    answer: Answer | None
    is_transcript: bool


@dataclass(frozen=True)
class DimensionIssues:
    """What costs points in a dimension: the worst issue of each subject, the costliest first, and all rates."""

    worst: tuple[Worst, ...]
    rates: tuple[IssueRate, ...]

    @property
    def first(self) -> Criterion | None:
        """The issue that costs most subjects most; None if no points are lost."""
        ((issue, _),) = Counter(one.issue for one in self.worst).most_common(1) or ((None, 0),)
        return issue

    @property
    def costing(self) -> list[IssueRate]:
        """The rates of the first issue for the subjects whom it costs most."""
        return [one.rate for one in self.worst if one.issue == self.first]


def _shown(summary: Summary, rates: Sequence[IssueRate]) -> Mapping[str, DimensionIssues] | None:
    worst = {name: tuple(_worst(summary, name, rates)) for name in summary.settings.tests}
    if not any(worst.values()):
        return None
    of_panel = [rate for rate in rates if rate.judge == PANEL]
    return {
        name: DimensionIssues(found, tuple(rate for rate in of_panel if rate.dimension == name))
        for name, found in worst.items()
    }


def _worst(summary: Summary, dimension: str, rates: Sequence[IssueRate]) -> Iterator[Worst]:
    found = transcripts_shown(summary, dimension, rates)
    issues = {issue.letter: issue for issue in summary.rubrics[dimension].judging.issues}
    picked = pick(summary.settings.tests[dimension])
    for rate in costliest(rates, dimension):
        transcript = found.get(rate.example or "")
        test, answers = (transcript.test, transcript.answers) if transcript else (None, ())
        answer = next((each for each in answers if _is_named(rate, each, summary.settings.panel)), None)
        is_picked = rate.example in picked and bool(answer and answer.sample == 0)
        yield Worst(rate, issues[rate.issue], test, answer, is_picked)


def _is_named(row: IssueRate, answer: Answer, panel: Sequence[str]) -> bool:
    named = [verdict.issues or () for verdict in answer.verdicts if verdict.judge in panel]
    return answer.subject == row.subject and any(row.issue in found for found in named)


@analysis(IssueRate, order=22, heading="Why points are lost", layout=_shown)
def issues(summary: Summary) -> Sequence[IssueRate]:
    """Return the rate of every issue by dimension, judge and subject; the panel's come first."""
    rows = [row for dimension in summary.settings.tests for row in rates_in(summary, dimension)]
    corrected = of_known(benjamini_hochberg, [row.p for row in rows])
    return [replace(row, q=q) for row, q in zip(rows, corrected, strict=True)]
