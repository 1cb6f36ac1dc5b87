"""The bound on the cost of remaining rows, tested on populations of known costs."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from statistics import median

import numpy as np
import pytest
from numpy.typing import NDArray

from hab_ray.engine.budget.bound import FIRST_WAVE, LEAST_WAVE, CostSample

CAP = 16_000_000
MEAN = CAP // 16
Costs = NDArray[np.int64]
Population = Callable[[np.random.Generator, int], Costs]


def lognormal(sd: float, rng: np.random.Generator, rows: int) -> Costs:
    """Costs with this relative standard deviation, as answers of models have them."""
    variance = np.log(1 + sd**2)
    return np.minimum(rng.lognormal(-variance / 2, np.sqrt(variance), rows) * MEAN, CAP).astype(np.int64)


def rare(rng: np.random.Generator, rows: int) -> Costs:
    """One row in a hundred costs the maximum, sixteen times as much as the others."""
    return np.where(rng.random(rows) < 0.01, CAP, CAP // 16)


def refused(rng: np.random.Generator, rows: int) -> Costs:
    """Half of the rows cost nothing; the means of six dimensions differ up to fourfold."""
    return (lognormal(0.7, rng, rows) * np.linspace(0.4, 1.6, 6)[np.arange(rows) * 6 // rows]).astype(np.int64) * (
        rng.random(rows) < 0.5
    )


POPULATIONS: Mapping[str, Population] = {
    "narrow": partial(lognormal, 0.7),
    "rare": rare,
    "refused": refused,
}


def is_exceeded(costs: Costs, risk: float) -> bool:
    """Whether any batch of any wave costs more than its bound, at any look."""
    sample = CostSample(len(costs), CAP, risk, largest=400)
    for seen, end in pairwise((0, *sample.ends)):
        sample.add(costs[seen:end].tolist())
        for wave in sample.waves():
            start = end
            for part in wave.parts:
                if part.nanousd < costs[start : start + part.rows].sum():
                    return True
                start += part.rows
    return False


@pytest.mark.parametrize("name", POPULATIONS)
def test_no_more_bounds_are_exceeded_than_the_risk_allows(name: str) -> None:
    rng = np.random.default_rng(7)
    exceeded = sum(is_exceeded(rng.permutation(POPULATIONS[name](rng, 1500)), 0.2) for _ in range(30))
    assert exceeded <= 11, "6 are allowed on average; 12 or more happen once in a hundred such tests"


def test_an_order_that_is_not_shuffled_exceeds_it() -> None:
    """Rows sorted by dimension, cheapest first, are no random sample, and the test above would fail on them."""
    rng = np.random.default_rng(7)
    costs = np.concatenate([lognormal(0.7, rng, 750) // 4, lognormal(0.7, rng, 750)])
    assert is_exceeded(costs, 1e-6) and not is_exceeded(rng.permutation(costs), 1e-6)


@pytest.mark.parametrize(("seen", "narrow", "wide"), [(200, 1.85, 1.87), (400, 1.43, 1.49), (1000, 1.18, 1.25)])
def test_it_is_near_what_the_rows_cost(seen: int, narrow: float, wide: float) -> None:
    """The risk is 1e-4 per batch; medians are compared, because the mean of a sample varies too."""
    rng, rows = np.random.default_rng(5), 100_000
    risk = 1e-4 * CostSample(rows, CAP, 0.5, rows).batches
    for sd, most in ((0.7, narrow), (1.2, wide)):
        ratios = []
        for _ in range(60):
            sample = CostSample(rows, CAP, risk, rows)
            sample.ends = (seen, rows)
            sample.add(lognormal(sd, rng, seen).tolist())
            ratios.append(sample.bound(rows - seen) / (rows - seen) / MEAN)
        assert 1 < median(ratios) <= most


def test_without_a_sample_and_without_luck_it_is_the_cap() -> None:
    sample = CostSample(500, CAP, 1e-6, 500)
    assert sample.bound(500) == 500 * CAP
    sample.add([CAP] * 200)
    assert sample.bound(300) == 300 * CAP
    with pytest.raises(ValueError, match="no wave may end there"):
        sample.add([0])
        sample.bound(299)


def test_waves_end_at_few_places_none_of_them_near_another() -> None:
    for rows in (1, 99, 200, 299, 300, 5000, 60_000):
        ends = CostSample(rows, CAP, 1e-6, rows).ends
        assert ends[-1] == rows and (rows < FIRST_WAVE + LEAST_WAVE or {LEAST_WAVE, FIRST_WAVE} <= {*ends})
        assert all(after - before >= LEAST_WAVE for before, after in pairwise(ends)) and len(ends) < 30


def test_costs_that_cannot_be_are_refused() -> None:
    sample = CostSample(3, CAP, 1e-6, 3)
    for costs in ([CAP + 1], [-1], [0, 0, 0, 0]):
        with pytest.raises(ValueError, match="cannot be costs of rows of the population"):
            sample.add(costs)
    with pytest.raises(ValueError, match=r"at risk 0\.0"):
        CostSample(3, CAP, 0.0, 3)
