"""Agreement of judges: Krippendorff's interval alpha, and when it may be chance."""

from itertools import product
from random import Random

import krippendorff
import numpy as np
import pytest

from hab_ray.analysis.agreement import agreement
from hab_ray.analysis.marks import PANEL, ItemScores


def marks(dimension: str, *judges: list[float | None]) -> list[ItemScores]:
    """One subject's marks by each judge, a test each; and a panel's, which is no judge."""
    named = {f"j{number}": given for number, given in enumerate(judges)} | {PANEL: list(judges[0])}
    return [
        ItemScores("s", dimension, judge, np.array(given, dtype=float)[:, None], 0) for judge, given in named.items()
    ]


def drawn(seed: int, noise: float, tests: int = 60, judges: int = 3) -> list[list[float | None]]:
    random = Random(seed)
    truth = [random.random() for _ in range(tests)]
    return [[random.random() if random.random() < noise else mark for mark in truth] for _ in range(judges)]


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
def test_alpha_is_krippendorffs(noise: float) -> None:
    given = drawn(1, noise)
    given[0][3] = given[1][3] = given[2][5] = None
    alpha, low, high = agreement(marks("d1", *given))
    assert alpha is not None
    expected = krippendorff.alpha(np.array(given, dtype=float), level_of_measurement="interval")
    assert alpha == pytest.approx(expected)
    if noise:
        assert low is not None and high is not None and low <= alpha <= high
    else:
        assert (low, high) == (None, None), "perfect agreement does not show its error"


def test_chance_is_said_only_where_the_interval_includes_it() -> None:
    by_chance = [agreement(marks("d1", *drawn(seed, 1.0)))[1] for seed in range(40)]
    agreeing = [agreement(marks("d1", *drawn(seed, 0.2)))[1] for seed in range(40)]
    assert sum(low is not None and low <= 0 for low in by_chance) >= 36
    assert not any(low is None or low <= 0 for low in agreeing)


def test_dimensions_of_different_difficulty_are_no_agreement() -> None:
    random = Random(2)
    easy: list[list[float | None]] = [[0.9 + random.random() / 10 for _ in range(50)] for _ in range(2)]
    hard: list[list[float | None]] = [[random.random() / 10 for _ in range(50)] for _ in range(2)]
    alpha, low, _ = agreement([*marks("d1", *easy), *marks("d2", *hard)])
    assert alpha is not None and low is not None and low <= 0 and alpha < 0.5


def test_nothing_is_said_of_one_judge_or_of_marks_that_are_all_equal() -> None:
    assert agreement(marks("d1", [0.1, 0.9]))[0] is None
    assert agreement([])[0] is None
    equal: tuple[list[float | None], ...] = ([0.5, 0.5], [0.5, None])
    for first, second in product(equal, repeat=2):
        assert agreement(marks("d1", first, second))[0] is None
