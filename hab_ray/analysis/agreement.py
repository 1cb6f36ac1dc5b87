"""Agreement between judges: Krippendorff's alpha, Cohen's kappa and Gwet's AC1, with a bootstrap over generation calls.

Each statistic is a function of sums, so a bootstrap draw is the product of the calls' weights and the calls' sums.
Tests from one call are correlated and are therefore resampled together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.intervals import Array, sums_by
from hab_ray.analysis.marks import PANEL, ItemScores
from hab_ray.visible import decimal

LOW_ALPHA = 0.4
_MAX_DRAWS, _MIN_DRAWS, _CALLS_DRAWN = 1000, 100, 20_000_000
_SEED, _ROUNDING = 0, 1e-9
_NONE: Array = np.empty(0)
_Estimate = tuple[float | None, float | None, float | None]
Statistic = Callable[[Array], Array]
Disagreement = Callable[[NDArray[Any], Array, Array], Array]


class LowAgreement(StrEnum):
    """What a low agreement amounts to: above chance or not, and whether that is sure."""

    LITTLE = "agree little"
    PERHAPS_LITTLE = "may agree little"
    LITTLE_OR_CHANCE = "agree little or no better than chance"
    CHANCE = "agree no better than chance"
    PERHAPS_CHANCE = "may agree no better than chance"

    @classmethod
    def of(cls, low: float, high: float, reliable: bool) -> LowAgreement:
        """Classify a low agreement by the ends of its 95 % interval; it is sure if all of a reliable one is low."""
        if reliable and high <= 0:
            return cls.CHANCE
        if reliable and high < LOW_ALPHA:
            return cls.LITTLE if low > 0 else cls.LITTLE_OR_CHANCE
        return cls.PERHAPS_LITTLE if low > 0 else cls.PERHAPS_CHANCE


def in_words(low: float, high: float) -> str:
    """Describe the interval of an agreement, with the digits that the tables show."""
    return f"95 % interval {decimal(low, 2)} to {decimal(high, 2)}"


def agreement(marks: Iterable[ItemScores]) -> _Estimate:
    """Return the single judges' interval alpha over all dimensions with its 95 % interval; chance is within each.

    The three are None if no two judges marked the same answers, or if all marks are equal within every dimension; the
    interval is None if a dimension has a single generation call, whose share of the error is unknown.
    """
    sums = [sums_by(unit_sums(values), calls) for values, calls in marks_by_dimension(marks).values()]
    if not sums:
        return None, None, None
    weights = drawn([len(of_calls) for of_calls in sums])
    total = np.stack([of_calls.sum(axis=0) for of_calls in sums])
    resampled = np.stack([each @ of_calls for each, of_calls in zip(weights, sums, strict=True)])
    varies = all(len(of_calls) > 1 for of_calls in sums)
    return _interval(alpha(total[:, None])[0], alpha(resampled) if varies else _NONE)


def marks_by_dimension(marks: Iterable[ItemScores]) -> Mapping[str, tuple[Array, Sequence[Hashable]]]:
    """Return each dimension's marks (judges x tests x answers, without the panel's) and each test's generation call."""
    found: dict[str, dict[str, list[ItemScores]]] = defaultdict(lambda: defaultdict(list))
    for one in marks:
        if one.judge != PANEL and len(one.by_test):
            found[one.dimension][one.judge].append(one)
    joined = {}
    for dimension, by_judge in found.items():
        arrays = [np.concatenate([one.by_test for one in scores], axis=1) for scores in by_judge.values()]
        first = next(iter(by_judge.values()))[0]
        joined[dimension] = (np.stack(arrays), first.test_calls)
    return joined


def squared_difference(count: NDArray[Any], total: Array, squares: Array) -> Array:
    """Return the sum of (a - b)^2 over all ordered pairs of so many values, by the values' number less one."""
    apart: Array = 2 * (count * squares - total**2) / np.maximum(1, count - 1)
    return apart


def nominal_difference(count: NDArray[Any], total: Array, squares: Array) -> Array:
    """Return the same of a + b - 2ab: whether only one of two names an issue, where a half stands for drawing lots."""
    apart: Array = 2 * (total - (total**2 - squares) / np.maximum(1, count - 1))
    return apart


def unit_sums(values: Array, disagreement: Disagreement = squared_difference) -> Array:
    """Sum judges x tests x answers by test: the number of answers with two marks or more, then the terms of `units`."""
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    terms = units(known.sum(axis=0), filled.sum(axis=0), (filled**2).sum(axis=0), disagreement)
    sums: Array = np.concatenate([terms[..., 1:2] > 0, terms], axis=-1).sum(axis=1)
    return sums


def units(count: NDArray[Any], total: Array, squares: Array, disagreement: Disagreement = squared_difference) -> Array:
    """Return alpha's terms for each answer: disagreement within it, and its values' count, sum and sum of squares.

    All are 0 for an answer with fewer than two values.
    """
    within = disagreement(count, total, squares)
    return np.where((count > 1)[..., None], np.stack([within, count, total, squares], axis=-1), 0.0)


def pair_sums(values: Array) -> Array:
    """Count, by test, the answers two judges read and those with an issue named by both, the first, the second."""
    both = ~np.isnan(values).any(axis=0)
    first, second = (np.where(both, each, 0.0) for each in values)
    sums: Array = np.stack([column.sum(axis=1) for column in (both, first * second, first, second)], axis=1)
    return sums.astype(np.float64)


def majority(shares: Array) -> Array:
    """Return 1 for more than half of the readings, 0 for less, and a half for a tie."""
    return (1 + np.sign(np.round(shares - 0.5, 9))) / 2


def alpha(sums: Array) -> Array:
    """Return Krippendorff's alpha from totals of `unit_sums`: 1 less observed over expected disagreement.

    The totals are draws x sums, or dimensions x draws x sums; chance is then taken within each dimension.
    """
    within, by_chance = alpha_terms((sums if sums.ndim == 3 else sums[None])[..., 1:])
    return chance_corrected(within.sum(axis=0), by_chance.sum(axis=0))


def nominal_alpha(sums: Array) -> Array:
    """Return Krippendorff's alpha of an issue from totals (draws x sums) of `unit_sums` by `nominal_difference`."""
    return chance_corrected(*alpha_terms(sums[..., 1:], nominal_difference))


def alpha_terms(sums: Array, disagreement: Disagreement = squared_difference) -> tuple[Array, Array]:
    """Return the disagreement observed within answers and the one expected by chance, from totals of `units`."""
    within, count, total, squares = np.moveaxis(sums, -1, 0)
    return within, disagreement(count, total, squares)


def kappa(sums: Array) -> Array:
    """Return Cohen's kappa from totals of `pair_sums`."""
    return chance_corrected(*kappa_terms(sums))


def kappa_terms(sums: Array) -> tuple[Array, Array]:
    """Return how many answers two judges differ on and how many they would by chance, from totals of `pair_sums`."""
    count, both, first, second = np.moveaxis(sums, -1, 0)
    by_chance = first * (count - second) + second * (count - first)
    return first + second - 2 * both, by_chance / np.maximum(1, count)


def ac1(sums: Array) -> Array:
    """Return Gwet's AC1 from totals of `pair_sums`; chance is a judge who names the issue at the pair's mean rate."""
    count, both, first, second = sums.T
    named = (first + second) / 2
    by_chance = 2 * named * (count - named)
    return chance_corrected((first + second - 2 * both) * count, count**2 - by_chance)


def chance_corrected(observed: Array, expected: Array) -> Array:
    """Return 1 less observed over expected disagreement; nan where none is expected."""
    with np.errstate(invalid="ignore", divide="ignore"):
        corrected: Array = np.where(expected > 1e-12, 1 - observed / expected, np.nan)
    return corrected


def bootstrapped(sums: Array, compute: Statistic, weights: Array) -> _Estimate:
    """Return a statistic of sums by call and its percentile interval, given the `weights` of `drawn`.

    Each of the three is None where the statistic is undefined. A single call has no interval, nor has a value that no
    draw changes: it does not show its error.
    """
    return _interval(compute(sums.sum(axis=0)[None])[0], compute(weights @ sums) if len(sums) > 1 else _NONE)


def _interval(value: float, resampled: Array) -> _Estimate:
    known = resampled[~np.isnan(resampled)]
    if np.isnan(value) or not len(known) or np.ptp(known) < _ROUNDING:
        return None if np.isnan(value) else float(value), None, None
    low, high = np.quantile(known, (0.025, 0.975))
    return float(value), float(low), float(high)


def drawn(calls: Sequence[int]) -> list[Array]:
    """Return bootstrap weights (draws x calls) for dimensions with these numbers of calls."""
    random = np.random.default_rng(_SEED)
    draws = max(_MIN_DRAWS, min(_MAX_DRAWS, _CALLS_DRAWN // max(1, sum(calls))))
    return [random.multinomial(n, np.full(n, 1 / n), size=draws).astype(np.float64) for n in calls]
