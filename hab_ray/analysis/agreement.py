"""Whether the judges of a panel agree: Krippendorff's alpha of their marks, with a plain interval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.marks import PANEL, ItemScores

_MAX_DRAWS, _MIN_DRAWS, _TESTS_DRAWN = 1000, 100, 20_000_000
_SEED = 0
LITTLE = 0.4
# Of the answers to one test that several judges marked: disagreement within them, marks, their sum, that of squares.
_Sums = NDArray[np.float64]


@dataclass(frozen=True)
class Agreement:
    """Interval alpha over all dimensions, chance taken within each; 1 = perfect, 0 = chance. The interval is 95 %."""

    alpha: float
    low: float
    high: float

    @property
    def is_chance(self) -> bool:
        """Whether agreement by chance would look the same."""
        return self.low <= 0

    @property
    def is_little(self) -> bool:
        """Whether judges differ so much that scores of single answers say little."""
        return self.alpha < LITTLE


def agreement(marks: Iterable[ItemScores]) -> Agreement | None:
    """The agreement of single judges, its interval by a bootstrap over tests; None where it cannot be told.

    It cannot where fewer than two judges marked the same answers, or where all marks of every dimension are equal.
    """
    dimensions = _sums_by_dimension(marks)
    alpha = _alpha([sums.sum(axis=0) for sums in dimensions])
    if alpha is None:
        return None
    random = np.random.default_rng(_SEED)
    draws = max(_MIN_DRAWS, min(_MAX_DRAWS, _TESTS_DRAWN // sum(map(len, dimensions))))
    drawn = (_alpha([_resampled(sums, random) for sums in dimensions]) for _ in range(draws))
    low, high = np.quantile([one for one in drawn if one is not None], (0.025, 0.975))
    return Agreement(alpha, float(low), float(high))


def _resampled(sums: _Sums, random: np.random.Generator) -> _Sums:
    chosen: _Sums = sums[random.integers(len(sums), size=len(sums))].sum(axis=0)
    return chosen


def _alpha(dimensions: Sequence[_Sums]) -> float | None:
    """1 minus the disagreement within answers, as a share of that between any two marks of a dimension."""
    observed = sum(within for within, *_ in dimensions)
    by_chance = sum(2 * (count * squares - total**2) / (count - 1) for _, count, total, squares in dimensions)
    return float(1 - observed / by_chance) if by_chance > 1e-12 else None


def _sums_by_dimension(marks: Iterable[ItemScores]) -> list[_Sums]:
    """Sums of each test that has an answer with two marks, by dimension."""
    cells: dict[tuple[str, str], list[ItemScores]] = defaultdict(list)
    for one in marks:
        if one.judge != PANEL:
            cells[one.dimension, one.subject].append(one)
    found: dict[str, dict[int, _Sums]] = defaultdict(lambda: defaultdict(lambda: np.zeros(4)))
    for (dimension, _), judges in cells.items():
        for test, tests in enumerate(zip(*(judge.by_test for judge in judges), strict=True)):
            for answer in zip(*tests, strict=True):
                given = [mark for mark in answer if mark is not None]
                if len(given) > 1:
                    found[dimension][test] += _sums(given)
    return [np.array(list(by_test.values())) for by_test in found.values()]


def _sums(given: Sequence[float]) -> _Sums:
    count, total, squares = len(given), sum(given), sum(mark * mark for mark in given)
    return np.array([2 * (count * squares - total**2) / (count - 1), count, total, squares])
