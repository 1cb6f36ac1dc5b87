"""How often intervals of people's agreement cover: `python -m benchmarks.people`.

Of judges' agreement, too, by the bootstrap over tests. People's severity is normal around 0, their scores are tenths
around an answer's quality, and a judge is a little milder. Each repetition draws other answers and other people. What
is covered is the value that no end of answers and raters would have; alpha beside all raters depends on their number,
so that its value is the mean of many draws of it.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from hab_ray.analysis.agreement import Statistic, alpha, bootstrapped, drawn, kappa, pair_sums, unit_sums
from hab_ray.analysis.rating.statistics import Estimate, Rated, alpha_among, alpha_with, difference

NOISE, MILDER = 0.2, 0.05
_Array = NDArray[np.float64]


@dataclass(frozen=True)
class RaterDesign:
    """How many people rate how many answers, each to a test of its own, and the SD of their severity."""

    raters: int
    answers: int
    severity: float


@dataclass(frozen=True)
class RaterCoverage:
    """Shares of intervals that hold the truth; `by_test` is of differences clustered by test alone."""

    difference: float
    among: float
    beside: float
    by_test: float


def measure(design: RaterDesign, repetitions: int, seed: int = 1) -> RaterCoverage:
    """Draw the design so often and look at its intervals."""
    random, truth = np.random.default_rng(seed), _truth(design)
    hits = np.zeros(4)
    for _ in range(repetitions):
        part = _drawn(design, random)
        found = (difference([part]), alpha_among([part]), alpha_with([part]))
        held = [_holds(each, true) for each, true in zip(found, truth, strict=True)]
        steps = part.judge - part.raters.mean(axis=0)
        hits += [*held, abs(steps.mean() - truth[0]) <= 1.96 * steps.std(ddof=1) / sqrt(design.answers)]
    shares = (float(each) / repetitions for each in hits)
    return RaterCoverage(*shares)


def _holds(found: Estimate, truth: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


def _drawn(design: RaterDesign, random: np.random.Generator) -> Rated:
    quality = random.uniform(0.2, 0.8, size=design.answers)
    severity = random.normal(scale=design.severity, size=(design.raters, 1))
    shape = design.raters, design.answers
    people = _tenths(quality - severity + random.normal(scale=NOISE, size=shape))
    judge = _tenths(quality + MILDER + random.normal(scale=NOISE, size=design.answers))
    return Rated(people, judge, np.arange(design.answers))


def _tenths(values: _Array) -> _Array:
    found: _Array = np.round(np.clip(values, 0, 1) * 10) / 10
    return found


@cache
def _truth(design: RaterDesign) -> tuple[float, float, float]:
    """The difference, alpha of any number of people, and alpha of the judge beside the mean of so many."""
    random = np.random.default_rng(0)
    each_once = [_drawn(RaterDesign(design.raters, 1, design.severity), random) for _ in range(20_000)]
    people = np.concatenate([each.raters for each in each_once], axis=1)
    judge = np.concatenate([each.judge for each in each_once])
    among = alpha(unit_sums(people[:, :, None]).sum(axis=0)[None])[0]
    beside = [alpha_with([_drawn(design, random)]).value or 0.0 for _ in range(300)]
    return float((judge - people).mean()), float(among), float(np.mean(beside))


def judges_alpha(answers: int, noise: float, repetitions: int) -> tuple[float, float]:
    """The alpha of three judges with this noise, and how often its bootstrap interval holds it."""
    random = np.random.default_rng(2)

    def sums(rows: int) -> _Array:
        quality = random.choice([0.0, 0.3, 0.6, 1.0], size=rows)
        given = _tenths(quality + random.normal(scale=noise, size=(3, rows)))
        found: _Array = unit_sums(given[:, :, None])
        return found

    return _covered(sums, alpha, answers, repetitions)


def judges_kappa(answers: int, prevalence: float, repetitions: int) -> tuple[float, float]:
    """The kappa of two judges who err on a fifth of what is named, and how often its bootstrap interval holds it."""
    random = np.random.default_rng(3)

    def sums(rows: int) -> _Array:
        true = random.random(rows) < prevalence
        wrong = np.where(true, 0.2, 0.2 * prevalence / (1 - prevalence))
        given = (true != (random.random((2, rows)) < wrong)).astype(np.float64)
        found: _Array = pair_sums(given[:, :, None])
        return found

    return _covered(sums, kappa, answers, repetitions)


def _covered(sums: Callable[[int], _Array], compute: Statistic, answers: int, repetitions: int) -> tuple[float, float]:
    truth = float(compute(sums(400_000).sum(axis=0)[None])[0])
    (weights,), hits = drawn([answers]), 0
    for _ in range(repetitions):
        _, low, high = bootstrapped(sums(answers), compute, weights)
        hits += low is not None and high is not None and low <= truth <= high
    return truth, hits / repetitions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1000)
    repetitions = parser.parse_args().repetitions
    print("| people | answers | SD of severity | difference | by test alone | alpha of people | alpha beside people |")
    print("|---|---|---|---|---|---|---|")
    for raters, answers, severity in product((3, 5, 10), (25, 150), (0.0, 0.05, 0.1)):
        found = measure(RaterDesign(raters, answers, severity), repetitions)
        shown = (found.difference, found.by_test, found.among, found.beside)
        print(f"| {raters} | {answers} | {severity} | {' | '.join(f'{each:.3f}' for each in shown)} |", flush=True)
    print("\n| answers | alpha of three judges | covered |\n|---|---|---|")
    for answers, noise in product((25, 150, 500, 3000), (0.6, 0.3, 0.12)):
        truth, covered = judges_alpha(answers, noise, repetitions)
        print(f"| {answers} | {truth:.2f} | {covered:.3f} |", flush=True)
    print("\n| answers | prevalence | kappa of two judges | covered |\n|---|---|---|---|")
    for answers, prevalence in product((50, 150, 500), (0.02, 0.05, 0.1, 0.2, 0.5)):
        truth, covered = judges_kappa(answers, prevalence, repetitions)
        print(f"| {answers} | {prevalence} | {truth:.2f} | {covered:.3f} |", flush=True)


if __name__ == "__main__":
    main()
