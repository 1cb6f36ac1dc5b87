"""Whole sweeps with likely budgets close to or below their cost; `benchmarks/likely_budgets.py` draws 20,000."""

import numpy as np

from benchmarks.likely_budgets import BUDGETS, Outcome, sweep


def outcomes(sweeps: int, risk: float, is_sorted: bool) -> list[Outcome]:
    rng = np.random.default_rng(3)
    return [sweep(rng, risk, rng.uniform(*BUDGETS), is_sorted) for _ in range(sweeps)]


def test_no_more_sweeps_overshoot_than_the_risk_allows() -> None:
    drawn = outcomes(120, 1e-2, is_sorted=False)
    assert sum(one.overshot for one in drawn) <= 5, "1.2 on average; more than 5 happen once in 600 such tests"
    assert 0 < sum(one.completed for one in drawn) < len(drawn), "budgets must end some sweeps and not others"


def test_sweeps_in_an_order_that_is_not_shuffled_do() -> None:
    assert sum(one.overshot for one in outcomes(40, 1e-2, is_sorted=True)) > 5
