"""How often a correction tells anybody apart where none differs, and how near a planted alpha is recovered.

    python -m benchmarks.null_sweeps            2,000 sweeps of each design, 200 panels of 3,000 answers

A null sweep has exchangeable subjects: tenths, as judges give them, around a level that a test's subjects share, and
that the tests of one generation call share in part. Each is tested as a run is, by sign-flips by call and Holm over all
pairs.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, false_discovery_control

from hab_ray.analysis.agreement import agreement
from hab_ray.analysis.intervals import sums_by
from hab_ray.analysis.marks import ItemScores
from hab_ray.analysis.pairs import holm
from hab_ray.analysis.power import LEVEL
from hab_ray.analysis.rates import RatesBeside
from hab_ray.analysis.signflips import p_beside_mean, p_of_mean

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """So many subjects and tests in each of some dimensions; each generation call makes `per_call` tests."""

    subjects: int
    tests: int
    per_call: int
    dimensions: int = 1


DESIGNS = (Design(4, 50, 1), Design(4, 50, 3), Design(4, 50, 1, 6), Design(8, 150, 3), Design(20, 150, 1))
RATES = (0.03, 0.05, 0.1, 0.2, 0.3, 0.5)


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
        found.append(p_of_mean(sums, [design.tests] * len(sums)))
    return min(holm(found)) <= LEVEL


def finds_any_rate(design: Design, random: np.random.Generator) -> bool:
    """Whether Benjamini and Hochberg find any subject's rate of any of six issues unusual, two answers in 100 lost."""
    drawn = []
    for rate in RATES:
        calls = np.repeat(random.normal(size=-(-design.tests // design.per_call)), design.per_call)[: design.tests]
        likely = random.beta(2 * rate, 2 * (1 - rate), design.tests).clip(1e-9)
        logits = np.log(likely / (1 - likely).clip(1e-9)) + 0.6 * calls
        drawn.append((random.random((design.subjects, design.tests)) < 1 / (1 + np.exp(-logits))).astype(np.float64))
    named = np.stack(drawn, axis=-1)
    named[random.random(named.shape[:2]) < 0.02] = np.nan
    calls_of = [str(test // design.per_call) for test in range(design.tests)]
    compared = [RatesBeside(subject, named, calls_of) for subject in range(design.subjects)]
    return bool(
        false_discovery_control([each.p(at) or 0.0 for each in compared for at in range(len(RATES))]).min() <= LEVEL
    )


def finds_any_judge(marks: _Array) -> bool:
    """Whether Holm tells any two judges apart, or any from the panel; marks are judges x tests."""
    tests, beside = marks.shape[1], marks - marks.mean(axis=0)
    pairs = [p_of_mean([one - other], [tests]) for one, other in combinations(marks, 2)]
    return min(holm([*pairs, *(p_beside_mean(own, [beside], [tests]) for own in range(len(marks)))])) <= LEVEL


def alike_judges(judges: int, random: np.random.Generator) -> _Array:
    """Marks of judges who all find a fault in one of 20 answers, each in others."""
    return (random.random((judges, 50)) > 0.05).astype(np.float64)


def unsteady_judge(judges: int, random: np.random.Generator) -> _Array:
    """Marks of judges with the same mean, the first of whom varies six times as much as the others."""
    spread = np.array([0.3] + [0.05] * (judges - 1))[:, None]
    return np.clip(0.5 + spread * random.normal(size=(judges, 50)), 0.0, 1.0).round(1)


def planted_alphas(panels: int, answers: int) -> Iterator[tuple[float, float]]:
    """The alpha of three judges whose marks share that part of their variance, and what is found of it."""
    for alpha in (0.3, 0.7):
        random = np.random.default_rng(7)
        for _ in range(panels):
            truth = random.normal(size=answers)
            given = [alpha**0.5 * truth + (1 - alpha) ** 0.5 * random.normal(size=answers) for _ in range(3)]
            found, _, _ = agreement(ItemScores("s", "d", f"j{at}", own[:, None], 0) for at, own in enumerate(given))
            assert found is not None
            yield alpha, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=2000)
    parser.add_argument("--rates", type=int, default=600)
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
    random, design = np.random.default_rng(7), Design(20, 150, 3)
    wrong = sum(finds_any_rate(design, random) for _ in range(asked.rates))
    ends = binomtest(wrong, asked.rates).proportion_ci()
    print(f"\nrates of six issues of {design.subjects} subjects, {design.tests} tests in calls of {design.per_call}:")
    print(
        f"{100 * wrong / asked.rates:.2f} % ({100 * ends.low:.2f} to {100 * ends.high:.2f}) of {asked.rates} sweeps",
        flush=True,
    )
    for draw, judges in product((alike_judges, unsteady_judge), (3, 5)):
        random = np.random.default_rng(11)
        wrong = sum(finds_any_judge(draw(judges, random)) for _ in range(asked.rates))
        ends = binomtest(wrong, asked.rates).proportion_ci()
        print(
            f"{draw.__name__}, {judges} judges and the panel: {100 * wrong / asked.rates:.2f} % "
            f"({100 * ends.low:.2f} to {100 * ends.high:.2f}) of {asked.rates} sweeps",
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
