"""Signs of trouble that a run's own data can show. The report opens with them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hab_ray.analysis.agreement import Agreement, agreement
from hab_ray.analysis.differences import Difference, differences
from hab_ray.analysis.marks import OVERALL, PANEL, ScoreSettings
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.row_status import MissingReason, StatusCount
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.bounds import TOLERATED_MISSING, Bounds, bounds_of
from hab_ray.rows import Score, State

VERY_HIGH = 0.9
FEW_TESTS = 30
TOLERATED_UNREADABLE = 0.05


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a reader should know before using the scores, and what it may mean."""

    title: str
    detail: str


def spoken(dimension: str) -> str:
    """A dimension's id as words in a sentence."""
    return dimension.replace("_", " ")


@analysis(order=10, link="Before use", heading="Before you use these scores")
def findings(summary: Summary) -> Sequence[Finding]:
    """What a reader should know before using the scores."""
    doubtful = bounds_of(summary.marks[summary.settings.truncated])
    others = diagnose(summary.scores, doubtful, summary.statuses, differences(summary.sent), summary.settings)
    return [*of_judges(summary), *others]


def of_judges(summary: Summary) -> list[Finding]:
    """What has to be known of the judges before any score is read; said above the leaderboard everywhere."""
    agreed = agreement(summary.marks[summary.settings.truncated])
    return [*judges_without_scores(summary.statuses), *lost_verdicts(summary.statuses), *chance(agreed)]


def judges_without_scores(statuses: Iterable[StatusCount]) -> Iterator[Finding]:
    """Judges all of whose verdicts ended without a score."""
    for judge, counts in _ended_by_judge(statuses).items():
        if not counts[State.OK]:
            why = ", ".join(f"{count} {state}" for state, count in counts.items())
            yield Finding(
                f"{judge} has no scored row",
                f"None of its {counts.total()} verdicts has a score ({why}), so the panel has none either: read the "
                "reasons under excluded rows, and ask another judge or take it out of `judges:`.",
            )


def lost_verdicts(statuses: Iterable[StatusCount]) -> Iterator[Finding]:
    """Judges of whose verdicts more than 5 % cannot be read."""
    for judge, counts in _ended_by_judge(statuses).items():
        lost, ended = counts[State.UNREADABLE], counts.total()
        if lost > TOLERATED_UNREADABLE * ended and counts[State.OK]:
            yield Finding(
                f"More than {100 * TOLERATED_UNREADABLE:.0f} % of {judge}'s verdicts are unreadable",
                f"{lost} of {ended}. Which are lost is not random: a judge that does not keep to the form is seldom a "
                "good one. A model with an enforced schema loses none.",
            )


def chance(agreed: Agreement | None) -> Iterator[Finding]:
    """Judges whose agreement may be chance."""
    if agreed is not None and agreed.is_chance:
        yield Finding(
            "The judges agree no better than chance",
            f"Krippendorff's alpha is {agreed.alpha:.2f}, its 95 % interval {agreed.low:.2f} to {agreed.high:.2f}: 0 "
            "is chance, 1 perfect agreement. Scores by such a panel say nothing of the subjects.",
        )


def unreadable(statuses: Iterable[StatusCount]) -> list[str]:
    """Each judge that lost verdicts, with how many of how many."""
    ended = _ended_by_judge(statuses)
    return [f"{judge} {n[State.UNREADABLE]} of {n.total()}" for judge, n in ended.items() if n[State.UNREADABLE]]


def _ended_by_judge(statuses: Iterable[StatusCount]) -> dict[str, Counter[State | MissingReason]]:
    found: dict[str, Counter[State | MissingReason]] = defaultdict(Counter)
    for status in statuses:
        if status.judge is not None and status.state is not MissingReason.OPEN:
            found[status.judge][status.state] += status.count
    return found


def diagnose(
    scores: Sequence[Score],
    doubtful: Sequence[Bounds],
    statuses: Sequence[StatusCount],
    differing: Sequence[Difference],
    settings: ScoreSettings,
) -> list[Finding]:
    """All findings, what makes scores incomparable first. Scores are read by the panel."""
    panel = [score for score in scores if score.judge == PANEL]
    return [
        *_unfinished(statuses),
        *_without_overall(panel),
        *_missing(doubtful),
        *_settings_differ(differing),
        *_too_easy(panel),
        *_few_tests(settings),
        *_overlaps(panel),
    ]


def _unfinished(statuses: Iterable[StatusCount]) -> Iterator[Finding]:
    still_open = [s for s in statuses if s.state is MissingReason.OPEN]
    answers = sum(s.count for s in still_open if s.judge is None)
    verdicts = sum(s.count for s in still_open if s.judge is not None)
    if still_open:
        detail = f"Still open: {answers} answers and {verdicts} verdicts. The same command goes on where it stopped."
        yield Finding("The run is not complete", detail)


def _without_overall(panel: Iterable[Score]) -> Iterator[Finding]:
    unknown = [score for score in panel if score.mean is None]
    for subject in [score.subject for score in unknown if score.dimension == OVERALL]:
        where = [spoken(s.dimension) for s in unknown if s.subject == subject and s.dimension != OVERALL]
        yield Finding(
            f"{subject} has no overall score",
            f"It has no scored row in {', '.join(where)}; a mean over its other dimensions would not be comparable.",
        )


def _missing(doubtful: Iterable[Bounds]) -> Iterator[Finding]:
    means = [b for b in doubtful if b.judge == PANEL and b.dimension != OVERALL]
    if means:
        most = max(means, key=lambda b: b.missing / b.rows)
        yield Finding(
            f"More than {100 * TOLERATED_MISSING:.0f} % of the rows are missing",
            f"This concerns {len(means)} cells of the leaderboard, most of all {most.subject} in "
            f"{spoken(most.dimension)} ({most.missing} of {most.rows} rows). Rows are seldom missing at random: "
            "see how far the means could move.",
        )


def _settings_differ(differing: Iterable[Difference]) -> Iterator[Finding]:
    told = []
    for difference in differing:
        by_value = [
            f"{'not sent' if value is None else value} ({', '.join(names)})"
            for value, names in difference.subjects.items()
        ]
        told.append(f"{difference.parameter}: {'; '.join(by_value)}")
    if told:
        yield Finding("The compared subjects were not asked with the same settings", ". ".join(told) + ".")


def _too_easy(panel: Sequence[Score]) -> Iterator[Finding]:
    for dimension in dict.fromkeys(score.dimension for score in panel if score.dimension != OVERALL):
        means = [s.mean for s in panel if s.dimension == dimension and s.mean is not None]
        if means and min(means) > VERY_HIGH:
            yield Finding(
                f"Every subject scores above {VERY_HIGH} in {spoken(dimension)}",
                "The tests may be too easy, or the validation let through tests that do not show the behaviour.",
            )


def _few_tests(settings: ScoreSettings) -> Iterator[Finding]:
    few = [f"{spoken(d)} ({len(tests)})" for d, tests in settings.tests.items() if len(tests) < FEW_TESTS]
    if few:
        yield Finding(
            f"Fewer than {FEW_TESTS} tests in a dimension",
            f"{', '.join(few)}. With so few the intervals themselves are rough, and one of no width means no "
            "more than that the tests happened to score alike.",
        )


def _overlaps(panel: Iterable[Score]) -> Iterator[Finding]:
    """Neighbours in the ranking whose intervals overlap, joined into chains."""
    ranked = sorted(
        (s for s in panel if s.dimension == OVERALL and s.mean is not None), key=lambda s: (-(s.mean or 0), s.subject)
    )
    chains: list[list[str]] = []
    for upper, lower in pairwise(ranked):
        if upper.low is None or lower.high is None or upper.low > lower.high:
            continue
        if chains and chains[-1][-1] == upper.subject:
            chains[-1].append(lower.subject)
        else:
            chains.append([upper.subject, lower.subject])
    if chains:
        yield Finding(
            "Some ranks are not settled",
            f"The overall intervals of neighbours overlap: {'; '.join(', '.join(chain) for chain in chains)}. "
            "All subjects answered the same tests, so a paired comparison may separate what these intervals do not.",
        )
