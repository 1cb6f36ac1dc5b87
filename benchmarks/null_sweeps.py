"""How often Holm's correction tells any pair apart where none differs, and how near a planted alpha is recovered.

    python -m benchmarks.null_sweeps            2,000 sweeps of each design, 200 panels of 3,000 answers

A null sweep has exchangeable subjects: tenths, as judges give them, around a level that a test's subjects share, and
that the tests of one generation call share in part. Each is tested as a run is, by sign-flips by call and Holm over all
pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from hab_ray.analysis.agreement import agreement
from hab_ray.analysis.intervals import sums_by
from hab_ray.analysis.marks import ItemScores
from hab_ray.analysis.pairs import holm
from hab_ray.analysis.power import LEVEL
from hab_ray.analysis.signflips import p_of_mean, p_value

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """So many subjects and tests in each of some dimensions; each generation call makes `per_call` tests."""

    subjects: int
    tests: int
    per_call: int
    dimensions: int = 1


DESIGNS = (Design(4, 50, 1), Design(4, 50, 3), Design(4, 50, 1, 6), Design(8, 150, 3), Design(20, 150, 1))


def marks(design: Design, random: np.random.Generator) -> _Array:
    """Subjects x tests."""
    calls = np.repeat(random.normal(size=-(-design.tests // design.per_call)), design.per_call)[: design.tests]
    level = 1 / (1 + np.exp(-(0.2 + 0.5 * calls + random.normal(size=design.tests))))
    drawn: _Array = random.binomial(10, random.beta(2 * level, 2 * (1 - level), (design.subjects, design.tests))) / 10
    return drawn


def finds_any(design: Design, random: np.random.Generator) -> bool:
    """Whether one null sweep tells any two subjects apart: in its dimension, or overall where there are several."""
    drawn = [marks(design, random) for _ in range(design.dimensions)]
    calls = (np.arange(design.tests) // design.per_call).tolist()
    found = []
    for one, other in combinations(range(design.subjects), 2):
        sums = [sums_by(own[one] - own[other], calls) for own in drawn]
        found.append(p_value(sums[0]) if len(sums) == 1 else p_of_mean([each / design.tests for each in sums]))
    return min(holm(found)) <= LEVEL


def planted_alphas(panels: int, answers: int) -> Iterator[tuple[float, float]]:
    """The alpha of three judges whose marks share that part of their variance, and what is found of it."""
    for alpha in (0.3, 0.7):
        random = np.random.default_rng(7)
        for _ in range(panels):
            truth = random.normal(size=answers)
            given = [alpha**0.5 * truth + (1 - alpha) ** 0.5 * random.normal(size=answers) for _ in range(3)]
            found = agreement(
                ItemScores("s", "d", f"j{at}", tuple((mark,) for mark in own.tolist()), 0)
                for at, own in enumerate(given)
            )
            assert found is not None
            yield alpha, found.alpha


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=2000)
    parser.add_argument("--panels", type=int, default=200)
    asked = parser.parse_args()
    print("subjects  tests  per call  dimensions  sweeps  family-wise error   95 % interval")
    for design in DESIGNS:
        random = np.random.default_rng(20)
        wrong = sum(finds_any(design, random) for _ in range(asked.sweeps))
        ends = binomtest(wrong, asked.sweeps).proportion_ci()
        shape = f"{design.subjects:8} {design.tests:6} {design.per_call:9} {design.dimensions:11} {asked.sweeps:7}"
        print(
            f"{shape} {100 * wrong / asked.sweeps:16.2f} %   {100 * ends.low:.2f} to {100 * ends.high:.2f} %",
            flush=True,
        )
    print("\nplanted alpha  panels of 3,000 answers  mean found  SD  within .02")
    found = list(planted_alphas(asked.panels, 3000))
    for alpha in dict.fromkeys(planted for planted, _ in found):
        own = np.array([value for planted, value in found if planted == alpha])
        near = float((np.abs(own - alpha) <= 0.02).mean())
        print(f"{alpha:13} {len(own):24} {own.mean():11.4f} {own.std():.4f} {100 * near:9.1f} %")


if __name__ == "__main__":
    main()
