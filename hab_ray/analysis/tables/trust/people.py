"""Agreement of people with one another and with each judge, on scores and on each issue."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hab_ray.analysis.agreement import LOW_ALPHA, in_words
from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.rating.reading import RatedDimension, people_of
from hab_ray.analysis.rating.statistics import (
    FEW_RATERS,
    Estimate,
    Rated,
    alpha_among,
    alpha_with,
    difference,
    kappa_with,
    named_rates,
)
from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.trust.agreement import MIN_ANSWERS, MIN_NAMED
from hab_ray.visible import decimal

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class PeopleAgreed:
    """Agreement of a judge with people or, if `judge` is null, of people with one another.

    `rater` is null for all people together: their mean score, or their majority on an issue. `issue` is null for
    scores; `dimension` may be "overall". `agreement` is Krippendorff's alpha or, of a judge on an issue, Cohen's kappa:
    1 is perfect, 0 is chance. Kappa compares majorities, a tie counting half, and is null if one side names the issue
    for no answer or for all. `difference` is the judge's mean score (0..1), or the mean share of its readings (of the
    panel's judges) that name the issue, minus the people's. The 95 % intervals generalise to other tests and, for all
    people together, to other raters, except if there is only one, and the agreement of fewer than five people among
    themselves; they are null if a dimension does not show its share of the error: one test is rated there or, for the
    difference of several people, by one of them; or if nothing varies between tests or raters. `named` counts the
    answers for which the side that names the issue least does so. A value is not `reliable` with few answers, few named
    issues, or fewer than five raters.
    """

    dimension: str
    issue: str | None
    judge: str | None
    rater: str | None
    answers: int
    raters: int
    named: int | None
    agreement: float | None
    low: float | None
    high: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    reliable: bool

    @property
    def has_enough(self) -> bool:
        """Whether there are enough answers, and enough with the issue, to rely on the line."""
        return self.answers >= MIN_ANSWERS and (self.named is None or self.named >= MIN_NAMED)

    def is_marked(self, few: int | None) -> bool:
        """Whether to mark the line as unreliable; where all have `few` raters, a note says so of all of them."""
        return not (self.has_enough if few else self.reliable)

    @property
    def is_low(self) -> bool:
        """Whether the agreement is low; with few answers, where a low value may be chance, its whole interval is."""
        highest = self.agreement if self.has_enough else self.high
        return highest is not None and highest < LOW_ALPHA


@dataclass(frozen=True)
class PeopleShown:
    """The lines that the page shows; `few` is the number of raters if it is small.

    Then no line about all people is reliable, and only those with few answers or few named issues are marked.
    `sentence` says in words what the overall lines show.
    """

    sentence: str
    lines: tuple[PeopleAgreed, ...]
    few: int | None

    @property
    def has_marks(self) -> bool:
        """Whether any line is marked as unreliable."""
        return any(line.is_marked(self.few) for line in self.lines)


def _shown(_: Summary, rows: Sequence[PeopleAgreed]) -> PeopleShown | None:
    """Omit single raters' lines about single issues."""
    lines = tuple(row for row in rows if row.rater is None or row.issue is None)
    return PeopleShown(sentence(rows), lines, few_raters(rows)) if rows else None


def few_raters(rows: Sequence[PeopleAgreed]) -> int | None:
    """Return the number of raters if there are fewer than five wherever people have rated."""
    most = max(row.raters for row in rows)
    return most if most < FEW_RATERS else None


def sentence(rows: Sequence[PeopleAgreed]) -> str:
    """Compare the judges' agreement with people with that of people with each other, in words."""
    among, few = rows[0], few_raters(rows)
    beside = [row for row in rows if row.dimension == among.dimension and row.issue is None and row.rater is None][-1]
    judge = "the panel" if beside.judge == PANEL else str(beside.judge)
    if beside.agreement is None:
        return f"The agreement of {judge} with people is unknown: too few scores, or all are equal."
    whose = "the only rater's scores" if few == 1 else "people's mean scores"
    if among.agreement is None:
        why = "all their scores are equal" if among.answers else "no two rated the same answer"
        return (
            f"The agreement of {judge} with {whose} is {_alpha(beside)}; that of people with each other is unknown: "
            f"{why}."
        )
    remarks = " A mean of several people is easier to agree with than one person."
    if among.is_low:
        remarks += f" Below {LOW_ALPHA}, people cannot check the judges."
    who = "The panel" if beside.judge == PANEL else judge
    people = f"these {few} people" if few else "people"
    for is_clear, more in ((_above(beside, among), "better"), (_above(among, beside), "less")):
        if is_clear:
            return (
                f"{who} agrees {more} with {whose} ({_alpha(beside)}) than {people} agree with each "
                f"other ({_alpha(among)}).{remarks}"
            )
    why = "an interval is unknown" if None in (beside.low, among.low) else "the intervals overlap"
    return (
        f"Whether {judge} agrees better with {whose} ({_alpha(beside)}) than {people} with each other "
        f"({_alpha(among)}) is open: {why}.{remarks}"
    )


def _alpha(row: PeopleAgreed) -> str:
    interval = "" if row.low is None or row.high is None else f", {in_words(row.low, row.high)}"
    return f"alpha {decimal(row.agreement or 0.0, 2)}{interval}"


def _above(row: PeopleAgreed, other: PeopleAgreed) -> bool:
    return row.low is not None and other.high is not None and row.low > other.high


@analysis(PeopleAgreed, order=29, heading="Agreement with people", layout=_shown)
def people(summary: Summary) -> Sequence[PeopleAgreed]:
    """Return the agreement on scores overall and by dimension, then on each issue; nothing without ratings."""
    names, found = people_of(summary)
    if not found:
        return []
    rows = [*_scores(OVERALL, names, found)] if len(found) > 1 else []
    for each in found:
        rows += [*_scores(each.dimension, names, [each]), *_issues(each, names)]
    return rows


def _scores(dimension: str, names: Sequence[str], found: Sequence[RatedDimension]) -> Iterator[PeopleAgreed]:
    judges = list(found[0].scores)
    sides = {judge: [each.scores[judge] for each in found] for judge in judges}
    yield _row((dimension, None, None, None), None, alpha_among(sides[judges[0]]), None)
    for judge, parts in sides.items():
        yield _row((dimension, None, judge, None), None, alpha_with(parts), difference(parts))
        for at in _who_rated(parts):
            own = [part.of([at]) for part in parts if not np.isnan(part.raters[at]).all()]
            yield _row((dimension, None, judge, names[at]), None, alpha_with(own), difference(own))


def _issues(found: RatedDimension, names: Sequence[str]) -> Iterator[PeopleAgreed]:
    for letter, sides in found.issues.items():
        first = next(iter(sides.values()))
        named = [int(np.nansum(row)) for row in first.raters if not np.isnan(row).all()]
        yield _row((found.dimension, letter, None, None), min(named), alpha_among([first]), None)
        for judge, part in sides.items():
            yield _row((found.dimension, letter, judge, None), _named(part), kappa_with(part), difference([part]))
            for at in _who_rated([part]):
                own = part.of([at])
                yield _row((found.dimension, letter, judge, names[at]), _named(own), kappa_with(own), difference([own]))


def _who_rated(parts: Sequence[Rated]) -> list[int]:
    """Return the positions of raters with enough ratings for rows of their own."""
    counts = np.sum([(~np.isnan(part.raters)).sum(axis=1) for part in parts], axis=0)
    return [int(at) for at in np.flatnonzero(counts >= MIN_NAMED)]


def _named(part: Rated) -> int:
    known = part.known()
    return int(min(named_rates(known)) * known.tests.size + _ROUNDING)


def _row(
    what: tuple[str, str | None, str | None, str | None], named: int | None, agreed: Estimate, ahead: Estimate | None
) -> PeopleAgreed:
    single = what[3] is not None
    row = PeopleAgreed(
        *what,
        answers=agreed.answers,
        raters=agreed.raters,
        named=named,
        agreement=agreed.value,
        low=agreed.low,
        high=agreed.high,
        difference=ahead.value if ahead else None,
        difference_low=ahead.low if ahead else None,
        difference_high=ahead.high if ahead else None,
        reliable=single or agreed.raters >= FEW_RATERS,
    )
    return replace(row, reliable=row.reliable and row.has_enough)
