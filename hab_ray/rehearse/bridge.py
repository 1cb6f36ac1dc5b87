"""Checks the comparison of judges with an earlier study's, recomputed from planted verdicts and rating files.

It checks shifts with their intervals, shares of equal scores, kappas and score maps as the report groups them. The
intervals of maps come from random draws, so only their presence is checked.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from fractions import Fraction
from itertools import product
from statistics import mean
from typing import NamedTuple

from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.summary import Summary
from hab_ray.analysis.tables.trust.bridge import bridge
from hab_ray.given.ratings import Rating, is_of_given, test_of, tests_by_text
from hab_ray.rehearse.figures import NOTHING, Checked, Figures, Item, Lines, Numbers, figures_of, mean_of, unequal
from hab_ray.rehearse.profile import digest
from hab_ray.rehearse.truth import Expected, Truth, given_mark, is_left_out
from hab_ray.rows import Rater, Response, State
from hab_ray.work import Work, given_ratings, given_rows
from hab_simulator import TrueAnswer

_TOP = 10
# Scores are stored with nine digits; an interval over two tests is thirteen times as wide as their spread.
_ROUNDING = 1e-7


class _AnswerId(NamedTuple):
    subject: str
    dimension: str
    test: str
    sample: int


@dataclass
class _Cell:
    """Scores (0..10) that a judge and an earlier study's judge gave the same answers in a dimension.

    `pairs` maps tests to pairs of the judge's mean score of an answer and the earlier score (None if unknown), `calls`
    to the generation call, or to the test itself if none is named.
    """

    calls: Mapping[str, str]
    pairs: dict[str, list[tuple[Fraction, Fraction | None]]] = field(default_factory=dict)
    readings: int = 0
    equal: int = 0
    no_answer: int = 0
    failed_then: int = 0
    failed_now: int = 0
    issues: dict[str, Counter[tuple[bool, bool]]] = field(default_factory=dict)

    def by_test(self) -> dict[str, list[tuple[Fraction, Fraction]]]:
        """Return the pairs of answers that both judges scored, by test."""
        both = {test: [(now, then) for now, then in pairs if then is not None] for test, pairs in self.pairs.items()}
        return {test: pairs for test, pairs in both.items() if pairs}


_Line = tuple[tuple[str, ...], Numbers]
_Cells = Mapping[tuple[str, str], Mapping[str, _Cell]]


def compare_bridge(work: Work, summary: Summary, truth: Truth) -> Checked:
    """Compare shifts, kappas and score maps with those computed from planted and earlier verdicts."""
    if work.sweep.responses is None or not work.sweep.raters:
        return NOTHING
    cells = _cells(work, truth)
    links = bridge(summary)
    shifts: Lines = {(of.rater, each.judge, each.dimension): astuple(each)[3:] for of in links for each in of.shifts}
    issues: Lines = {
        (of.rater, judge, *cell): astuple(each)[4:]
        for of in links
        for cell, own in of.kappas.items()
        for judge, each in zip(of.judges, own, strict=True)
        if each
    }
    maps: Lines = {
        (of.rater, each.judge, _level(each.score)): (each.answers, each.mapped, each.low is not None)
        for of in links
        for each in of.maps
    }
    checks = (("the shift", shifts, _shifts), ("kappa", issues, _kappas), ("the map", maps, _maps))
    lines, wrong = 0, list[str]()
    for name, shown, compute in checks:
        expected = {key: line for judges, own in cells.items() for key, line in compute(*judges, own)}
        lines += len(expected)
        wrong += unequal(name, shown, expected, _ROUNDING)
    return Checked(lines, tuple(wrong))


def _cells(work: Work, truth: Truth) -> _Cells:
    """Return the cells by dimension, for each pair of earlier judge and judge."""
    given, rubrics = given_rows(work), work.rubrics
    ids = {dimension: tests_by_text(tests) for dimension, tests in given.tests.items()}
    rows = {_AnswerId(s, d, row.test_id, row.sample): row for (s, d), found in given.responses.items() for row in found}
    earlier: dict[str, dict[_AnswerId, Rating]] = {}
    for rating in given_ratings(work).ratings:
        test = test_of(rating, ids.get(rating.dimension, {})) or ""
        answer = _AnswerId(rating.subject, rating.dimension, test, rating.sample)
        if rating.kind is Rater.PUBLISHED and answer in rows and is_of_given(rating, rows[answer]):
            earlier.setdefault(rating.rater, {})[answer] = rating
    calls = {dimension: {test.id: test.call or test.id for test in tests} for dimension, tests in given.tests.items()}
    prompts = {(dimension, test.id): test.prompt for dimension, tests in given.tests.items() for test in tests}
    cells: dict[tuple[str, str], dict[str, _Cell]] = {}
    for (rater, then), (judge, dimension) in product(earlier.items(), truth.wordings):
        parts = {(answer.subject, answer.dimension) for answer in then}
        for subject in given.subjects:
            own = given.responses.get((subject, dimension), ())
            is_read = judge in truth.panel or any(row.state is State.OK for row in own)
            if (subject, dimension) not in parts or not is_read:
                continue
            cell = cells.setdefault((rater, judge), {}).setdefault(dimension, _Cell(calls[dimension]))
            for row in own:
                true = None if is_left_out(work, row) else _given_answer(truth, row, prompts[dimension, row.test_id])
                said = None if true is None else [e for e in truth.expected(judge, true) if e.score is not None]
                before = then.get(_AnswerId(subject, dimension, row.test_id, row.sample))
                _add(cell, row.test_id, said, before, rubrics[dimension].issue_letters())
    return {who: {name: own[name] for name in rubrics if name in own} for who, own in cells.items()}


def _given_answer(truth: Truth, row: Response, prompt: str) -> TrueAnswer | None:
    """Return the planted answer of a row; None if the row is not an answer."""
    found = truth.answers.get((row.subject, row.dimension), {}).get(digest(prompt), ()) if row.state is State.OK else ()
    mark = given_mark(row, prompt)
    return next((answer for answer in found if answer.mark == mark), None)


def _add(cell: _Cell, test: str, said: list[Expected] | None, then: Rating | None, letters: Sequence[str]) -> None:
    """Add one answer; `said` are the judge's readable verdicts, None if the row is not an answer."""
    before = None if then is None or then.score is None else Fraction(then.score)
    if then is not None and said is None:
        cell.no_answer += 1
    elif then is not None and before is None:
        cell.failed_then += 1
    elif then is not None and not said:
        cell.failed_now += 1
    if not said:
        return
    scores = [Fraction(each.score or 0) for each in said]
    cell.pairs.setdefault(test, []).append((mean(scores), before))
    if then is None or before is None:
        return
    cell.readings += len(scores)
    cell.equal += sum(score == before for score in scores)
    for letter, each in product(letters, said if then.issues is not None else ()):
        named = letter in (each.letters or ()), letter in (then.issues or ())
        cell.issues.setdefault(letter, Counter())[named] += 1


def _shifts(rater: str, judge: str, cells: Mapping[str, _Cell]) -> Iterator[_Line]:
    parts, sides = [], []
    for dimension, cell in cells.items():
        means = {test: [mean(side) / _TOP for side in zip(*own, strict=True)] for test, own in cell.by_test().items()}
        items = [Item(now - then, len(cell.by_test()[test]), cell.calls[test]) for test, (now, then) in means.items()]
        parts.append(figures_of(items, -1))
        sides.append(tuple(mean(side) for side in zip(*means.values(), strict=True)) if means else None)
        yield (rater, judge, dimension), _line([cell], parts[-1], sides[-1])
    if len(cells) > 1:
        whole = [side for side in sides if side]
        both = tuple(mean(side) for side in zip(*whole, strict=True)) if len(whole) == len(sides) else None
        yield (rater, judge, OVERALL), _line(list(cells.values()), mean_of(parts), both)


def _line(cells: Sequence[_Cell], shift: Figures, sides: Sequence[Fraction] | None) -> Numbers:
    """Return the figures of a line in the order of `Shift`."""
    now, then = (float(side) for side in sides) if sides else (None, None)
    readings = sum(cell.readings for cell in cells)
    return (
        sum(len(cell.by_test()) for cell in cells),
        sum(len(own) for cell in cells for own in cell.by_test().values()),
        now,
        then,
        shift.mean,
        shift.low,
        shift.high,
        readings,
        sum(cell.equal for cell in cells) / readings if readings else None,
        sum(cell.no_answer for cell in cells),
        sum(cell.failed_then for cell in cells),
        sum(cell.failed_now for cell in cells),
    )


def _kappas(rater: str, judge: str, cells: Mapping[str, _Cell]) -> Iterator[_Line]:
    for dimension, cell in cells.items():
        for letter, counts in cell.issues.items():
            total = counts.total()
            now, then = counts[True, True] + counts[True, False], counts[True, True] + counts[False, True]
            agree = Fraction(counts[True, True] + counts[False, False], total)
            chance = Fraction(now * then + (total - now) * (total - then), total**2)
            kappa = None if chance == 1 else float((agree - chance) / (1 - chance))
            yield (rater, judge, dimension, letter), (total, now, then, kappa)


def _maps(rater: str, judge: str, cells: Mapping[str, _Cell]) -> Iterator[_Line]:
    pairs = [pair for cell in cells.values() for own in cell.pairs.values() for pair in own]
    scored = Counter(now for now, _ in pairs)
    then: dict[Fraction, list[Fraction]] = {}
    for now, before in pairs:
        if before is not None:
            then.setdefault(now, []).append(before)
    if not then:
        return
    fit = _rising(sorted(then.items()))
    mapped = {level: _between(fit, level) for level in sorted(scored)}
    has_ends = all(len({cell.calls[test] for test in cell.pairs}) > 1 for cell in cells.values() if cell.pairs)
    for level, value in mapped.items():
        yield (rater, judge, _level(float(level / _TOP))), (scored[level], float(value / _TOP), has_ends)
    middle = mean(mapped[level] for level in scored.elements())
    yield (rater, judge, _level(None)), (scored.total(), float(middle / _TOP), has_ends)


def _rising(by_level: Sequence[tuple[Fraction, Sequence[Fraction]]]) -> list[tuple[Fraction, Fraction]]:
    """Return the isotonic (nondecreasing) least-squares fit, by pooling adjacent violators."""
    pools: list[tuple[list[Fraction], list[Fraction]]] = []
    for level, values in by_level:
        pools.append(([level], list(values)))
        while len(pools) > 1 and mean(pools[-2][1]) >= mean(pools[-1][1]):
            levels, pooled = pools.pop()
            pools[-1] = pools[-1][0] + levels, pools[-1][1] + pooled
    return [(level, mean(values)) for levels, values in pools for level in levels]


def _between(fit: Sequence[tuple[Fraction, Fraction]], level: Fraction) -> Fraction:
    """Interpolate a fit linearly at a level; outside its range, return the nearest value."""
    below = [point for point in fit if point[0] <= level]
    above = [point for point in fit if point[0] >= level]
    if not below or not above:
        return (above or below[::-1])[0][1]
    (low, one), (high, other) = below[-1], above[0]
    return one if low == high else one + (other - one) * (level - low) / (high - low)


def _level(score: float | None) -> str:
    return "mean" if score is None else f"{score:.6f}"
