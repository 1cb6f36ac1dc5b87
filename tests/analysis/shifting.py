"""Made judges of now and then: scores in tenths whose expected difference is planted."""

from __future__ import annotations

import numpy as np

from hab_ray.analysis.shifts import Compared

PLANTED = 0.06
MAX_ANSWERS = 20


def compared(random: np.random.Generator, tests: int, replicates: int = 1) -> Compared:
    """Tests that differ in difficulty, in how far the judges are apart (.06 on the mean), and in how many answers have.

    Tests with more answers are those on which the judges are further apart: a mean over answers would not be .06.
    """
    cell = Compared()
    for test in range(tests):
        apart = random.uniform(-0.14, 0.26)
        answers = int(random.integers(1, MAX_ANSWERS // 2)) + (MAX_ANSWERS // 2 if apart > PLANTED else 0)
        level = random.uniform(0.35, 0.65)
        for _ in range(answers):
            then = tenth(level + random.uniform(-0.1, 0.1), random)
            now = [tenth(then + apart + random.uniform(-0.1, 0.1), random) for _ in range(replicates)]
            cell.add(f"test-{test}", now, then)
    return cell


def tenth(value: float, random: np.random.Generator) -> float:
    """One of the two tenths beside a value, so that it is expected to be the value."""
    return float(np.floor(value * 10 + random.random())) / 10
