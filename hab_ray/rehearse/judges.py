"""How judges of a rehearsal agree and what they are partial to, made anew from the rows and compared.

Agreement is counted pair of values by pair of values, as its definitions have it, and so are slopes. Of intervals that
a bootstrap or a sandwich gives only the order of the ends is looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from math import log2
from statistics import mean
from typing import NamedTuple

from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.agreement import Agreed, agreed
from hab_ray.analysis.tables.trust.preferences import LENGTH, Preference, preferences
from hab_ray.rehearse.claims import marks_by_answer, named_by_answer
from hab_ray.rehearse.figures import same

Values = Sequence[Mapping[str, Fraction]]
Chance = Callable[[Fraction, Fraction], Fraction]
_LEAST_SPREAD = 1e-9


class _Key(NamedTuple):
    dimension: str
    issue: str | None
    judges: str
    statistic: str


def wrong_agreement(summary: Summary) -> Iterator[str]:
    """Values of agreement that are others than the rows', or that are missing, and intervals with swapped ends."""
    run, found = summary.run, {_Key(r.dimension, r.issue, r.judges, r.statistic): r for r in agreed(summary)}
    if len(run.panel) < 2:
        yield from (f"{key} agrees with nobody" for key in found)
        return
    everybody = ", ".join(run.panel)
    for dimension in (name for name, tests in summary.settings.tests.items() if tests):
        scores = _scores(summary, dimension)
        yield from _wrong(found.pop(_Key(dimension, None, everybody, "alpha"), None), scores, _alpha(scores))
        named = _named(summary, dimension)
        for letter in summary.rubrics[dimension].issue_letters():
            own = [{judge: each[letter] for judge, each in by_judge.items()} for by_judge in named]
            yield from _wrong(found.pop(_Key(dimension, letter, everybody, "alpha"), None), own, _alpha(own))
            for pair in combinations(run.panel, 2):
                both = [(own[pair[0]], own[pair[1]]) for own in own if pair[0] in own and pair[1] in own]
                for statistic, value in (("kappa", _kappa(both)), ("ac1", _ac1(both))):
                    row = found.pop(_Key(dimension, letter, ", ".join(pair), statistic), None)
                    yield from _wrong(row, both, value)
    yield from (f"there is an agreement of {key} that nobody can have" for key in found)


def _wrong(row: Agreed | None, values: Sequence[object], wanted: Fraction | None) -> Iterator[str]:
    if row is None:
        yield "the table of agreement lacks a row"
        return
    what = f"{row.statistic} of {row.judges} in {row.dimension}, {row.issue or 'scores'},"
    if not same(row.value, wanted):
        yield f"{what} is {row.value}, and must be {None if wanted is None else float(wanted)}"
    if row.low is not None and row.high is not None and row.low > row.high:
        yield f"{what} has the interval {row.low} to {row.high}"


def _scores(summary: Summary, dimension: str) -> Values:
    """The marks of every answer by judge."""
    found: dict[tuple[str, str, int], dict[str, Fraction]] = defaultdict(dict)
    for subject in summary.run.subjects:
        for judge in summary.run.panel:
            for (test, sample), mark in marks_by_answer(summary, subject, dimension, [judge]).items():
                if mark is not None:
                    found[subject, test, sample][judge] = mark
    return list(found.values())


def _named(summary: Summary, dimension: str) -> Sequence[Mapping[str, Mapping[str, Fraction]]]:
    """Of every answer by judge whether each issue is named, by at least half of its readings."""
    found: dict[tuple[str, str, int], dict[str, dict[str, Fraction]]] = defaultdict(dict)
    for subject in summary.run.subjects:
        for judge in summary.run.panel:
            for (test, sample), shares in named_by_answer(summary, subject, dimension, [judge]).items():
                named = {letter: Fraction(share >= Fraction(1, 2)) for letter, share in shares.items()}
                found[subject, test, sample][judge] = named
    return list(found.values())


def _alpha(answers: Values) -> Fraction | None:
    """1 less the mean squared difference within answers over that of any two values."""
    given = [list(own.values()) for own in answers if len(own) > 1]
    pooled = [value for own in given for value in own]
    observed = sum(
        (sum(((a - b) ** 2 for a, b in permutations(own, 2)), Fraction(0)) / (len(own) - 1) for own in given),
        Fraction(0),
    )
    counts: dict[Fraction, int] = defaultdict(int)
    for value in pooled:
        counts[value] += 1
    expected = sum((n * m * (a - b) ** 2 for a, n in counts.items() for b, m in counts.items()), Fraction(0))
    return 1 - observed * (len(pooled) - 1) / expected if expected else None


def _kappa(pairs: Sequence[tuple[Fraction, Fraction]]) -> Fraction | None:
    """Cohen's: what two judges agree beyond what their own rates would give."""
    return _beyond_chance(pairs, lambda one, other: one * other + (1 - one) * (1 - other))


def _ac1(pairs: Sequence[tuple[Fraction, Fraction]]) -> Fraction | None:
    """Gwet's: beyond what two judges would who name an issue as often as both do together."""
    return _beyond_chance(pairs, lambda one, other: (one + other) * (1 - (one + other) / 2))


def _beyond_chance(pairs: Sequence[tuple[Fraction, Fraction]], by_chance: Chance) -> Fraction | None:
    if not pairs:
        return None
    rates = [mean(side) for side in zip(*pairs, strict=True)]
    expected = by_chance(*rates)
    alike = Fraction(sum(one == other for one, other in pairs), len(pairs))
    return None if expected == 1 else (alike - expected) / (1 - expected)


def wrong_preferences(summary: Summary) -> Iterator[str]:
    """Differences between judges in the slope on length that are others than the rows', or missing; swapped ends."""
    rows = preferences(summary)
    for row in rows:
        if row.low is not None and row.high is not None and not row.low <= (row.value or 0.0) <= row.high:
            yield f"preference {row.kind} of {row.judge} in {row.dimension} has the interval {row.low} to {row.high}"
    lengths = {(row.judge, row.others, row.dimension): row for row in rows if row.kind == LENGTH}
    dimensions = tuple(summary.settings.tests)
    for one, other in combinations(summary.run.panel, 2):
        for name, over in ((OVERALL, dimensions), *((each, (each,)) for each in dimensions)):
            yield from _wrong_slope(lengths.pop((one, other, name), None), _slope(summary, one, other, over))
    yield from (f"there is a slope of {key} that nobody can have" for key in lengths)


def _wrong_slope(row: Preference | None, wanted: float | None) -> Iterator[str]:
    found = row.value if row else None
    if not same(found, wanted):
        yield f"a judge's slope on length is {found}, and must be {wanted}"


def _slope(summary: Summary, one: str, other: str, dimensions: Sequence[str]) -> float | None:
    """How much more a judge gives to answers twice as long of the same subject: over all pairs of answers of each."""
    above = below = 0.0
    for dimension in dimensions:
        for subject in summary.run.subjects:
            first, second = (marks_by_answer(summary, subject, dimension, [judge]) for judge in (one, other))
            rows = summary.run.responses(subject, dimension, columns=["test_id", "sample", "text"]).to_pylist()
            lengths = {(row["test_id"], row["sample"]): len(row["text"]) for row in rows}
            points = [
                (log2(lengths[answer]), float(mark - second_mark))
                for answer, mark in first.items()
                if mark is not None and (second_mark := second[answer]) is not None and lengths[answer]
            ]
            for (x, a), (y, b) in combinations(points, 2):
                above += (x - y) * (a - b) / len(points)
                below += (x - y) ** 2 / len(points)
    return above / below if below > _LEAST_SPREAD else None
