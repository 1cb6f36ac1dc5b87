"""Checks of people's ratings, and of judges against them."""

from collections.abc import Iterable, Iterator, Sequence

from hab_ray.analysis.agreement import LOW_ALPHA, LowAgreement, in_words
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.signs.finding import Finding, Severity, spoken
from hab_ray.analysis.tables.trust.people import PeopleAgreed
from hab_ray.visible import counted, decimal

MAX_GAP = 0.1


def people_disagree(rows: Sequence[PeopleAgreed]) -> Iterator[Finding]:
    """Report people whose agreement among themselves is low."""
    for row in rows[:1]:
        value, low, high = row.agreement, row.low, row.high
        if row.is_low:
            if low is None or high is None:
                how = LowAgreement.PERHAPS_CHANCE
                interval = "without an interval because they rated too few tests or all alike"
                interval += " in a dimension" if row.dimension == OVERALL else ""
            else:
                how = LowAgreement.of(low, high, row.has_enough)
                interval = f"its {in_words(low, high)}"
            yield Finding(
                "people_disagree",
                Severity.MEDIUM,
                f"People {how} with each other",
                f"Krippendorff's alpha of {row.raters} people is {decimal(value or 0.0, 2)}, {interval}: 0 is chance, "
                f"1 perfect agreement. Below {LOW_ALPHA}, people cannot tell whether the judges are right.",
                "See whether one person differs from all others (`hab agreement`); otherwise show raters the rubric's "
                "issues by examples and have them rate a new sheet.",
                value,
            )


def raters_at_chance(rows: Sequence[PeopleAgreed], panel: Sequence[str]) -> Iterator[Finding]:
    """Report people who agree with the panel by chance or less, while at least half of the others agree better.

    The rater's interval includes 0 or is below it, and those of the others are above the rater's. Among 2 to 10
    people who rate 10 to 150 answers equally well, this names somebody in fewer than 3 % of the studies.
    """
    beside = {
        row.rater: row
        for row in rows
        if (row.dimension, row.judge, row.issue) == (rows[0].dimension, _whole(panel), None) and row.rater is not None
    }
    for row in beside.values():
        value, low, high = row.agreement, row.low, row.high
        if value is None or low is None or high is None or low > 0:
            continue
        better = [rater for rater, other in beside.items() if other.low is not None and other.low > high]
        if better and 2 * len(better) >= len(beside) - 1:
            judge = "the panel" if row.judge == PANEL else row.judge
            yield Finding(
                "rater_at_chance",
                Severity.MEDIUM,
                f"{row.rater} may agree with the judges no better than chance, unlike other raters",
                f"Krippendorff's alpha of {judge} and {row.rater} is {decimal(value, 2)}, its "
                f"{in_words(low, high)} over {row.answers} answers: 0 is chance. It is higher for {', '.join(better)}.",
                f"Check {row.rater}'s file: does it belong to this sheet, and did {row.rater} read the answers? Take "
                "it out of `raters:` only for a reason other than disagreement, and report that you did.",
                value,
            )


def _whole(panel: Sequence[str]) -> str | None:
    """Return the name of all judges together in tables: the panel's, or a single judge's."""
    return PANEL if len(panel) > 1 else panel[0] if panel else None


def people_differ(rows: Iterable[PeopleAgreed], panel: Sequence[str]) -> Iterator[Finding]:
    """Report dimensions in which the panel's mean is more than .1 from people's on the same answers: a bias.

    The interval has to exclude 0 for other raters as well, since a few raters may all be severe. That of a single rater
    says nothing of others, so the finding is less severe then.
    """
    judge = _whole(panel)
    far = [
        (row.difference, row)
        for row in rows
        if (row.judge, row.rater, row.issue) == (judge, None, None) and row.dimension != OVERALL
        if row.difference is not None and abs(row.difference) > MAX_GAP
        if row.difference_low is not None and row.difference_high is not None
        if not row.difference_low <= 0 <= row.difference_high
    ]
    if far:
        listed = (f"{spoken(row.dimension)} ({gap:+.2f} over {row.answers} answers)" for gap, row in far)
        raters = max(row.raters for _, row in far)
        whose, doubt = (
            ("people do", "") if raters > 1 else ("a single rater does", " One person may be strict or mild.")
        )
        yield Finding(
            "people",
            Severity.HIGH if raters > 1 else Severity.MEDIUM,
            f"The judges score differently than {whose}",
            f"The panel's mean less that of the {counted(raters, 'person', 'people')} who rated the same answers: "
            f"{', '.join(listed)}, on the scale of 0 to 1.{doubt}",
            "Read people's and judges' verdicts on these answers (Transcripts) before comparing with other studies.",
            max((gap for gap, _ in far), key=abs),
        )
