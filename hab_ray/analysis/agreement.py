"""How far judges agree: Krippendorff's alpha, Cohen's kappa and Gwet's AC1, with a bootstrap over generation calls.

Each statistic follows from sums, so that a draw of the bootstrap is a product of how often each call was drawn with the
sums of the calls. Tests of one call are alike and are drawn together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.intervals import sums_by
from hab_ray.analysis.marks import PANEL, ItemScores

LITTLE = 0.4
_MAX_DRAWS, _MIN_DRAWS, _CALLS_DRAWN = 1000, 100, 20_000_000
_SEED = 0
_Array = NDArray[np.float64]
Statistic = Callable[[_Array], _Array]


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
    """The agreement of single judges; None where it cannot be told.

    It cannot where fewer than two judges marked the same answers, or where all marks of every dimension are equal.
    """
    sums = [sums_by(unit_sums(values), calls) for values, calls in marks_by_dimension(marks).values()]
    if not sums:
        return None
    often = drawn([len(own) for own in sums])
    whole, each = np.stack([own.sum(axis=0) for own in sums]), [n @ own for n, own in zip(often, sums, strict=True)]
    value, low, high = _interval(alpha(whole[:, None])[0], alpha(np.stack(each)))
    return None if value is None or low is None or high is None else Agreement(value, low, high)


def marks_by_dimension(marks: Iterable[ItemScores]) -> Mapping[str, tuple[_Array, Sequence[Hashable]]]:
    """By dimension with tests the single judges' marks, judges x tests x answers, and each test's generation call."""
    found: dict[str, dict[str, list[ItemScores]]] = defaultdict(lambda: defaultdict(list))
    for one in marks:
        if one.judge != PANEL and one.by_test:
            found[one.dimension][one.judge].append(one)
    joined = {}
    for dimension, by_judge in found.items():
        given = [[np.array(one.by_test, dtype=np.float64) for one in own] for own in by_judge.values()]
        first = next(iter(by_judge.values()))[0]
        calls = first.calls or range(len(first.by_test))
        joined[dimension] = (np.stack([np.concatenate(own, axis=1) for own in given]), calls)
    return joined


def unit_sums(values: _Array) -> _Array:
    """Judges x tests x answers to sums by test: answers, and what `units` says of them."""
    known = ~np.isnan(values)
    given = np.where(known, values, 0.0)
    found = units(known.sum(axis=0), given.sum(axis=0), (given**2).sum(axis=0))
    sums: _Array = np.concatenate([found[..., 1:2] > 0, found], axis=-1).sum(axis=1)
    return sums


def units(count: NDArray[Any], total: _Array, squares: _Array) -> _Array:
    """Of each answer with two values or more: disagreement within it, their number, sum and sum of squares; else 0."""
    within = 2 * (count * squares - total**2) / np.maximum(1, count - 1)
    return np.where((count > 1)[..., None], np.stack([within, count, total, squares], axis=-1), 0.0)


def pair_sums(values: _Array) -> _Array:
    """Two judges x tests x answers to counts by test: answers, named by both, by the first, by the second."""
    both = ~np.isnan(values).any(axis=0)
    first, second = (np.where(both, each, 0.0) for each in values)
    sums: _Array = np.stack([column.sum(axis=1) for column in (both, first * second, first, second)], axis=1)
    return sums.astype(np.float64)


def alpha(sums: _Array) -> _Array:
    """Krippendorff's alpha of `unit_sums`, summed: 1 less disagreement within answers over that of any two values.

    Sums are draws x sums, or dimensions x draws x sums: chance is then taken within each dimension.
    """
    within, by_chance = alpha_terms((sums if sums.ndim == 3 else sums[None])[..., 1:])
    return one_less(within.sum(axis=0), by_chance.sum(axis=0))


def alpha_terms(sums: _Array) -> tuple[_Array, _Array]:
    """Of sums of `units`: disagreement within answers, and that of any two values."""
    within, count, total, squares = np.moveaxis(sums, -1, 0)
    return within, 2 * (count * squares - total**2) / np.maximum(1, count - 1)


def kappa(sums: _Array) -> _Array:
    """Cohen's kappa of `pair_sums`, summed."""
    return one_less(*kappa_terms(sums))


def kappa_terms(sums: _Array) -> tuple[_Array, _Array]:
    """Of sums as `pair_sums` has them: answers on which two differ, and on how many they would by chance."""
    count, both, first, second = np.moveaxis(sums, -1, 0)
    by_chance = first * (count - second) + second * (count - first)
    return first + second - 2 * both, by_chance / np.maximum(1, count)


def ac1(sums: _Array) -> _Array:
    """Gwet's AC1 of `pair_sums`, summed: chance is that of a judge who names the issue as often as both do together."""
    count, both, first, second = sums.T
    named = (first + second) / 2
    by_chance = 2 * named * (count - named)
    return one_less((first + second - 2 * both) * count, count**2 - by_chance)


def one_less(observed: _Array, expected: _Array) -> _Array:
    """1 less the ratio of what differs to what would by chance; nan where nothing would."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: _Array = np.where(expected > 1e-12, 1 - observed / expected, np.nan)
    return found


def bootstrapped(sums: _Array, compute: Statistic, weights: _Array) -> tuple[float | None, float | None, float | None]:
    """A statistic of sums by call and its percentile interval; `weights` are of `drawn`. None: cannot be told."""
    return _interval(compute(sums.sum(axis=0)[None])[0], compute(weights @ sums))


def _interval(value: float, drawn_values: _Array) -> tuple[float | None, float | None, float | None]:
    known = drawn_values[~np.isnan(drawn_values)]
    if np.isnan(value) or not len(known):
        return None if np.isnan(value) else float(value), None, None
    low, high = np.quantile(known, (0.025, 0.975))
    return float(value), float(low), float(high)


def drawn(calls: Sequence[int]) -> list[_Array]:
    """By dimension how often each of so many calls is in each draw of the bootstrap: draws x calls."""
    random = np.random.default_rng(_SEED)
    draws = max(_MIN_DRAWS, min(_MAX_DRAWS, _CALLS_DRAWN // max(1, sum(calls))))
    return [random.multinomial(n, np.full(n, 1 / n), size=draws).astype(np.float64) for n in calls]
