"""How often 95 % intervals cover, and how wide they are beside Student's t: `python -m benchmarks.coverage`.

Marks are tenths, as a judge gives them, drawn so that their mean is as planted: half of the deductions are all or
nothing. Where tests come in calls, each call moves all its tests by a normal step in the logit, of the two sides of a
difference each by its own: a step that both share would cancel. Marks near 1 are those near 0 turned round.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, product
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hab_ray.analysis.intervals import FEW_CALLS, TAIL, interval, student

MEANS, SIZES = (0.02, 0.05, 0.25, 0.45, 0.75, 0.95, 0.98), (12, 30, 150, 500)
SPREADS, MARGIN = (0.0, 0.05, 0.1, 0.2, 0.35, 0.45), 0.05
CALLS = ((4, 30), (4, 150), (10, 30), (10, 150), (10, 500), (20, 150), (20, 500), (80, 150), (80, 500))
_Array = NDArray[np.float64]
_MAX_BET = 0.5
_STEPS = np.random.default_rng(0).normal(size=20_000)


@dataclass(frozen=True)
class Design:
    """A planted mean, how many tests, in how many calls (0: each its own) of what spread, paired or not."""

    mean: float
    tests: int
    calls: int = 0
    spread: float = 0.0
    paired: bool = False


@dataclass(frozen=True)
class Coverage:
    """Shares of intervals that hold the planted mean, and their mean width as a share of Student's t."""

    covered: float
    by_t: float
    by_betting: float
    width: float


def measure(design: Design, repetitions: int, seed: int) -> Coverage:
    """Draw the design so often and look at its intervals."""
    random = np.random.default_rng(seed)
    truth, least = (0.0, -1.0) if design.paired else (design.mean, 0.0)
    hits, widths = np.zeros(3), np.zeros(2)
    for _ in range(repetitions):
        values, calls = _drawn(design, random)
        own, by_t = interval(values, calls, least), student(values, calls)
        assert own.low is not None and own.high is not None
        bet = betting(values, least) if not design.calls else (truth, truth)
        ends = ((own.low, own.high), by_t, bet)
        hits += [low - 1e-12 <= truth <= high + 1e-12 for low, high in ends]
        widths += [own.high - own.low, by_t[1] - by_t[0]]
    covered, by_student, by_betting = (float(each) / repetitions for each in hits)
    return Coverage(covered, by_student, by_betting, float(widths[0] / widths[1]) if widths[1] else float("inf"))


def betting(values: Sequence[float], least: float = 0.0, most: float = 1.0) -> tuple[float, float]:
    """Return the hedged betting interval of the mean of independent values, whose order must be fixed in advance.

    A mean is rejected once a gambler, whose stake on each value depends on earlier values only, has multiplied the
    initial capital by 1/risk: under the true mean that happens with probability `risk` at most.
    """
    x = np.clip((np.asarray(values, dtype=np.float64) - least) / (most - least), 0.0, 1.0)
    counts = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (counts + 1)
    spread = (0.25 + np.cumsum((x - means) ** 2)) / (counts + 1)
    stakes = np.sqrt(2 * log(1 / TAIL) / (len(x) * np.concatenate([[0.25], spread[:-1]])))

    def rejects(mean: float, values: _Array) -> bool:
        """Whether betting on values above `mean` wins enough."""
        bets = np.minimum(stakes, _MAX_BET / max(mean, 1e-12))
        return bool(np.log1p(bets * (values - mean)).cumsum().max() >= -log(TAIL))

    low, high = _largest_rejected(x, rejects), 1 - _largest_rejected(1 - x, rejects)
    return least + low * (most - least), least + high * (most - least)


def _largest_rejected(x: _Array, rejects: Callable[[float, _Array], bool]) -> float:
    low, high = 0.0, float(x.mean())
    if not rejects(0.0, x):
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if rejects(middle, x) else (low, middle)
    return low


def _drawn(design: Design, random: np.random.Generator) -> tuple[list[float], list[int]]:
    calls = np.sort(random.integers(design.calls, size=design.tests)) if design.calls else np.arange(design.tests)
    values = _side(design, calls, random)
    if design.paired:
        values = values - _side(design, calls, random)
    return values.tolist(), calls.tolist()


def _side(design: Design, calls: NDArray[np.int64], random: np.random.Generator) -> _Array:
    """A subject's marks of all tests."""
    moved = random.normal(scale=design.spread, size=int(calls.max()) + 1)[calls]
    return _tenths(1 / (1 + np.exp(-(_centre(design.mean, design.spread) + moved))), random)


def _tenths(expected: _Array, random: np.random.Generator) -> _Array:
    """Marks with these expectations: half of the tests are all or nothing, the others ten draws each."""
    whole = (random.random(len(expected)) < expected).astype(np.float64)
    tenths = random.binomial(10, expected) / 10
    found: _Array = np.where(random.random(len(expected)) < 0.5, whole, tenths)
    return found


@cache
def _centre(mean: float, spread: float) -> float:
    """The logit at which marks have this mean when calls move it."""
    low, high = -12.0, 12.0
    for _ in range(50):
        middle = (low + high) / 2
        is_below = (1 / (1 + np.exp(-(middle + spread * _STEPS)))).mean() < mean
        low, high = (middle, high) if is_below else (low, middle)
    return (low + high) / 2


def spread_out(tests: int, sd: float) -> tuple[list[float], range]:
    """Return differences with the mean 0 and this SD, spread as normal ones, and their calls."""
    steps = ndtri((np.arange(tests) + 0.5) / tests)
    return (sd * steps / steps.std(ddof=1)).clip(-1, 1).tolist(), range(tests)


def widening(tests: int, sd: float) -> float:
    """Return how many times as wide as Student's t the interval of such a difference is."""
    of_both, by_t = interval(*spread_out(tests, sd), -1.0), student(*spread_out(tests, sd))
    return ((of_both.high or 1) - (of_both.low or -1)) / (by_t[1] - by_t[0])


def needed_for_equal(sd: float, share: float) -> int:
    """Return how many tests show two equal means as equal within MARGIN in this share of runs (0: in the luckiest)."""
    off = float(ndtri((1 + share) / 2)) * sd
    return next(n for n in count(20) if (interval(*spread_out(n, sd), -1.0).high or 1) + off / sqrt(n) <= MARGIN)


def _designs() -> Iterator[Design]:
    for paired in (False, True):
        yield from (Design(mean, n, paired=paired) for mean in MEANS for n in SIZES)
    for paired, spread in product((False, True), (0.5, 1.0)):
        for mean, (calls, tests) in product(MEANS[: len(MEANS) // 2 + 1], CALLS):
            yield Design(mean, tests, calls, spread, paired)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=2000)
    options = parser.parse_args()
    print("| of | mean | tests | calls | logit sd | covered | by t alone | by betting | width / t |")
    print("|---|---|---|---|---|---|---|---|---|")
    for design in _designs():
        found = measure(design, options.repetitions, seed=1)
        what = "difference" if design.paired else "mean"
        few = " (flagged)" if 0 < design.calls < FEW_CALLS else ""
        bet = "-" if design.calls else f"{found.by_betting:.3f}"
        print(
            f"| {what} | {design.mean} | {design.tests} | {design.calls or design.tests}{few} | {design.spread} "
            f"| {found.covered:.3f} | {found.by_t:.3f} | {bet} | {found.width:.2f} |",
            flush=True,
        )
    print("\n| SD of differences | width / t, 30 tests | 50 | 150 | 500 | tests for equal | in four of five runs |")
    print("|---|---|---|---|---|---|---|")
    for sd in SPREADS:
        widths = " | ".join(f"{widening(tests, sd):.2f}" if sd else "-" for tests in (30, 50, 150, 500))
        print(f"| {sd} | {widths} | {needed_for_equal(sd, 0.0)} | {needed_for_equal(sd, 0.8)} |", flush=True)


if __name__ == "__main__":
    main()
