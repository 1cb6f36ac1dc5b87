"""Checks of the tests: too easy, too hard, too few, too similar, or known to a subject."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

import numpy as np

from hab_ray.analysis.evidence.components import between_calls, chance_of_calls
from hab_ray.analysis.intervals import FEW_CALLS
from hab_ray.analysis.marks import OVERALL, PANEL, ItemScores, ScoreSettings
from hab_ray.analysis.pairs import holm
from hab_ray.analysis.power import LEAST_SHOWN, Design
from hab_ray.analysis.signs.finding import Finding, Severity, percent, spoken
from hab_ray.analysis.tables.differences import PairedDifference, designs_of
from hab_ray.catalog.models import Cutoff
from hab_ray.rows import Score

VERY_HIGH, MAX_AT_END = 0.9, 0.75
MAX_CALL_SD, MANY_CALLS, RISK = 0.5, 80, 0.05
_ROUNDING = 1e-9


def too_easy(panel: Sequence[Score]) -> Iterator[Finding]:
    """Report dimensions in which every subject scores very high."""
    for dimension in dict.fromkeys(score.dimension for score in panel if score.dimension != OVERALL):
        means = [s.mean for s in panel if s.dimension == dimension and s.mean is not None]
        if means and min(means) > VERY_HIGH:
            yield Finding(
                "too_easy",
                Severity.MEDIUM,
                f"Every subject scores above {VERY_HIGH} in {spoken(dimension)}",
                "The tests may be too easy, or the validation let through tests that do not show the behaviour.",
                "Read some tests (Transcripts), and raise `validate.floor`.",
                min(means),
            )


def at_the_ends(marks: Sequence[ItemScores]) -> Iterator[Finding]:
    """Report dimensions in which more than three quarters of all scores are 0, or 10, leaving little to compare."""
    for end, name in ((0.0, "0"), (1.0, "10")):
        shares = {}
        for dimension in dict.fromkeys(each.dimension for each in marks):
            own = [each for each in marks if each.dimension == dimension and each.judge == PANEL]
            given = np.concatenate([each.by_test for each in own])
            at_end, scored = (int(np.sum(which)) for which in (np.abs(given - end) < _ROUNDING, ~np.isnan(given)))
            if at_end > MAX_AT_END * scored:
                shares[dimension] = at_end / scored
        if shares:
            listed = ", ".join(f"{spoken(dimension)} ({percent(share)})" for dimension, share in shares.items())
            yield Finding(
                "floor" if end == 0.0 else "ceiling",
                Severity.MEDIUM,
                f"Most scores are {name} in some dimensions",
                f"{listed}. Scores at the end of the scale hide how subjects differ.",
                "Compare the rates of single issues (Why points are lost).",
                max(shares.values()),
            )


def few_calls(settings: ScoreSettings) -> Iterator[Finding]:
    """Report dimensions whose tests come from few generation calls."""
    calls = {dimension: len(set(settings.calls_of(dimension))) for dimension in settings.tests}
    few = {dimension: count for dimension, count in calls.items() if 0 < count < FEW_CALLS}
    if few:
        listed = ", ".join(f"{spoken(dimension)} ({count})" for dimension, count in few.items())
        yield Finding(
            "few_calls",
            Severity.MEDIUM,
            f"Tests of fewer than {FEW_CALLS} generation calls in a dimension",
            f"{listed}. If a call made several tests, these are correlated, and with so few calls an interval may "
            "cover less than its nominal 95 %.",
            "Add tests (docs/upgrading.md says how).",
            min(few.values()),
        )


def varying_calls(marks: Sequence[ItemScores]) -> Iterator[Finding]:
    """Report dimensions with too few generation calls for how much these differ, in logits of a subject's mean.

    Above an SD of .5, coverage falls below the nominal level unless there are many calls (docs/measurement.md).
    """
    apart, chances = {}, []
    for dimension in dict.fromkeys(each.dimension for each in marks):
        own = [each for each in marks if each.dimension == dimension and each.judge == PANEL and each.scored]
        calls = own[0].calls if own else ()
        if 1 < len(set(calls)) < min(MANY_CALLS, len(calls)):
            means = np.array([each.test_means for each in own])
            middle = float(np.nanmean(means))
            sd = between_calls(means, calls) / (middle * (1 - middle)) if 0 < middle < 1 else 0.0
            if sd > MAX_CALL_SD:
                apart[dimension] = sd
                chances.append(chance_of_calls(means, calls))
    listed = {name: sd for (name, sd), p in zip(apart.items(), holm(chances), strict=True) if p <= RISK}
    if listed:
        yield Finding(
            "varying_calls",
            Severity.MEDIUM,
            "Tests of one generation call are very similar",
            f"The SD between calls, in logits, is {', '.join(f'{sd:.2f} ({spoken(d)})' for d, sd in listed.items())}. "
            f"Above {MAX_CALL_SD}, with fewer than {MANY_CALLS} calls, an interval may cover 88 % instead of 95 %.",
            "Add tests (docs/upgrading.md), and give less weight to small differences there.",
            max(listed.values()),
        )


def near_duplicates(alike: Mapping[str, Mapping[str, str]], settings: ScoreSettings) -> Iterator[Finding]:
    """Report dimensions with nearly equal tests; `alike` holds the tests that resemble another, by dimension."""
    tests = {dimension: len(pairs) for dimension, pairs in alike.items() if pairs}
    if tests:
        listed = (f"{spoken(name)} {count} of {len(settings.tests[name])}" for name, count in tests.items())
        first, second = next(pair for pairs in alike.values() for pair in pairs.items())
        yield Finding(
            "near_duplicates",
            Severity.MEDIUM,
            "Some tests are nearly the same",
            f"Tests that share most of their words with another: {', '.join(listed)}, such as {first} and {second}. "
            "Unless one generation call wrote them, they count as independent, so that intervals are too narrow.",
            "Export the tests, remove one of each pair, and give them to a new run (`hab export`, then `tests: FILE`).",
            sum(tests.values()),
        )


def separate_nobody(rows: Sequence[PairedDifference], settings: ScoreSettings) -> Iterator[Finding]:
    """Report that no two subjects differ significantly: in some dimensions, overall, or anywhere."""
    designs = designs_of(rows, settings)
    known = {name: [row for row in rows if row.dimension == name and row.holm is not None] for name in designs}
    alike = [name for name, own in known.items() if own and not any(row.differs for row in own)]
    if not alike:
        return
    severity, title, detail = Severity.LOW, "Some dimensions tell no two subjects apart", ""
    if len(alike) == len(designs) and settings.tests.keys() <= designs.keys():
        everywhere = ", overall or in any dimension" if OVERALL in alike else ""
        severity, title = Severity.HIGH, f"No two subjects differ significantly{everywhere}"
    elif OVERALL in alike:
        severity, title = Severity.MEDIUM, "No two subjects differ significantly overall"
    if severity is not Severity.LOW:
        detail = f"The largest {_largest(known[alike[0]], settings)} of 1. "
    told = "; ".join(_detectable({name: designs[name] for name in alike}, len(settings.tests)))
    yield Finding(
        "separates_nobody",
        severity,
        title,
        f"{detail}{told[0].upper() if detail else told[0]}{told[1:]}.",
        "Do not rank subjects there. `hab plan --long` says what more tests can show.",
        sum(len(known[name]) for name in alike),
    )


def _largest(rows: Sequence[PairedDifference], settings: ScoreSettings) -> str:
    """Return the largest difference in words; means over all tests differ otherwise where a pair lacks some."""
    overall = rows[0].dimension == OVERALL
    tests = sum(map(len, settings.tests.values())) if overall else len(settings.tests[rows[0].dimension])
    shared = "" if all(row.tests == tests for row in rows) else ", over tests where both have a score,"
    largest = max(abs(row.difference or 0.0) for row in rows)
    return f"{'overall ' if overall else ''}difference{shared} is {largest:.3f}"


def _detectable(designs: Mapping[str, Design], number: int) -> Iterator[str]:
    """Yield what the designs can detect: overall, then in dimensions; `number` is that of all dimensions."""
    dimensions = {name: design for name, design in designs.items() if name != OVERALL}
    if OVERALL in designs:
        yield f"overall: {designs[OVERALL].detectable}"
    told = {name: design.detectable for name, design in dimensions.items()}
    ends = sorted(design.smallest for design in dimensions.values())
    if len(ends) > 1 and ends[0] > 0 and ends[-1] < 1:
        least = f"{max(LEAST_SHOWN, ends[0]):.2f} to {max(LEAST_SHOWN, ends[-1]):.2f}"
        told = dict.fromkeys(dimensions, f"differences of {least} or more can be detected")
    for what in dict.fromkeys(told.values()):
        named = [spoken(name) for name, own in told.items() if own == what]
        yield f"{'each dimension' if len(named) == number > 1 else ', '.join(named)}: {what}"


def trained_on(
    cutoffs: Mapping[str, Cutoff | None], made: date | None, names_of_files: Sequence[str]
) -> Iterator[Finding]:
    """Report subjects trained after the tests were made; if that date is unknown, report what is known of each."""
    if made is not None:
        late = {name: cutoff for name, cutoff in cutoffs.items() if cutoff is not None and cutoff.until >= made}
        if late:
            listed = ", ".join(f"{name} until {cutoff.until} ({cutoff.source})" for name, cutoff in late.items())
            yield Finding(
                "trained_on",
                Severity.MEDIUM,
                "Some subjects were trained after the tests were made",
                f"The tests are of {made}; training data: {listed}. They may have seen them if these were published.",
                "Generate new tests (another `seed:`), and compare the subjects over these.",
                len(late),
            )
    elif cutoffs:
        known = [f"{name} until {cutoff.until} ({cutoff.source})" for name, cutoff in cutoffs.items() if cutoff]
        unknown = [name for name, cutoff in cutoffs.items() if not cutoff]
        listed = "; ".join([*known, *([f"unknown: {', '.join(unknown)}"] if unknown else [])])
        yield Finding(
            "trained_on",
            Severity.LOW,
            "Whether subjects were trained on the tests is unknown",
            f"The tests were given ({', '.join(names_of_files)}), and nothing says when they were made. Training data: "
            f"{listed}.",
            "Compare with a run on generated tests, which no subject can have seen.",
            len(unknown),
        )
