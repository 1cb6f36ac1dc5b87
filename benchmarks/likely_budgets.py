"""How often a likely budget is exceeded, and how many waves it takes: many sweeps with the run's own allocation.

    python -m benchmarks.likely_budgets --sweeps 20000 --risk 1e-2

Each sweep has two stages of two models, 3,000 rows a model, and a budget drawn between the two `--budget` times what it
costs: one that pays for all cannot be exceeded. Rows of a model cost what its kind of population has drawn, at most 16
times the mean. Waves are those of `hab_ray.engine.budget.bound.CostSample`, the largest that the money carries; where
it carries none, the sweep ends. It overshoots if its cost at any moment is more than its budget, and a bound is
exceeded if a batch costs more than it reserved. `--sorted` leaves the order as cheap rows first, which must show.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from hab_ray.engine.budget.bound import FIRST_WAVE, LEAST_WAVE, CostSample

MEAN, CAP, ROWS, CELLS, STAGES = 1_000_000, 16_000_000, 3000, 2, 2
BUDGETS = (0.3, 1.5)
KINDS = ("lognormal .7", "lognormal 1.2", "two-point", "dimensions", "refusals")
Costs = NDArray[np.int64]


def population(kind: str, rng: np.random.Generator, rows: int) -> Costs:
    """What the rows of a model cost, dimension by dimension."""
    if kind == "two-point":
        return np.where(rng.random(rows) < 0.02, CAP, MEAN).astype(np.int64)
    relative_sd = 1.2 if kind == "lognormal 1.2" else 0.7
    variance = np.log(1 + relative_sd**2)
    costs = rng.lognormal(-variance / 2, np.sqrt(variance), rows) * MEAN
    if kind == "dimensions":
        costs *= np.repeat(np.linspace(0.4, 1.6, 6), rows // 6)
    if kind == "refusals":
        costs *= rng.random(rows) < 0.6
    return np.minimum(costs, CAP).astype(np.int64)


@dataclass
class Cell:
    """One stage's rows of one model, in the order in which they go out."""

    costs: Costs
    sample: CostSample
    spent: int = 0
    sent: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, costs: Costs, risk: float) -> Cell:
        """A cell of which nothing is sent."""
        return cls(costs, CostSample(len(costs), CAP, risk, 5000))

    @property
    def is_done(self) -> bool:
        """Whether all rows were seen."""
        return not self.sample.to_come

    def fund(self, free: int) -> int:
        """Send the largest wave that so much money carries; what it reserves."""
        for wave in self.sample.waves():
            is_allowed = self.sample.seen or wave.rows in (self.sample.to_come, FIRST_WAVE, LEAST_WAVE)
            if is_allowed and wave.nanousd <= free:
                self.sent = [(part.rows, part.nanousd) for part in wave.parts]
                return wave.nanousd
        return 0

    def collect(self) -> bool:
        """See what was sent; whether a batch has cost more than it reserved."""
        exceeded = False
        for rows, bound in self.sent:
            costs = self.costs[self.sample.seen : self.sample.seen + rows]
            self.sample.add(costs.tolist())
            self.spent += int(costs.sum())
            exceeded |= int(costs.sum()) > bound
        self.sent = []
        return exceeded


@dataclass(frozen=True)
class Outcome:
    """Whether a sweep overshot, a bound was exceeded, all went out in waves, and the waves of its longer stage."""

    overshot: bool
    exceeded: bool
    completed: bool
    waves: int


def sweep(rng: np.random.Generator, risk: float, ratio: float, is_sorted: bool) -> Outcome:
    """One sweep, stage after stage; the money of all cells is one pot."""
    stages = [[population(str(rng.choice(KINDS)), rng, ROWS) for _ in range(CELLS)] for _ in range(STAGES)]
    if is_sorted:
        stages = [[np.sort(costs) for costs in stage] for stage in stages]
    else:
        stages = [[rng.permutation(costs) for costs in stage] for stage in stages]
    budget = int(ratio * sum(int(costs.sum()) for stage in stages for costs in stage))
    spent, exceeded, most_waves = 0, False, 0
    for stage in stages:
        cells, waves = [Cell.of(costs, risk / (CELLS * STAGES) / 4) for costs in stage], 0
        while not all(cell.is_done for cell in cells):
            free, before = budget - spent, sum(cell.spent for cell in cells)
            for cell in cells:
                free -= cell.fund(free)
            if not any(cell.sent for cell in cells):
                return Outcome(spent > budget, exceeded, False, waves)
            exceeded |= any([cell.collect() for cell in cells])
            spent += sum(cell.spent for cell in cells) - before
            waves += 1
            if spent > budget:
                return Outcome(True, exceeded, False, waves)
        most_waves = max(most_waves, waves)
    return Outcome(False, exceeded, True, most_waves)


def shown(count: int, total: int) -> str:
    """A share with its exact binomial interval."""
    found = binomtest(count, total).proportion_ci(method="exact")
    return f"{count} of {total} ({100 * found.low:.3f}-{100 * found.high:.3f} %)"


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, and print what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweeps", type=int, default=20_000)
    parser.add_argument("--risk", type=float, default=1e-2)
    parser.add_argument("--budget", type=float, nargs=2, default=BUDGETS, metavar=("LOW", "HIGH"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sorted", action="store_true")
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(options.seed)
    low, high = options.budget
    outcomes = [sweep(rng, options.risk, rng.uniform(low, high), options.sorted) for _ in range(options.sweeps)]
    order = "sorted" if options.sorted else "shuffled"
    print(f"risk {options.risk:g}, budgets of {low:g} to {high:g} times the cost, {order}")
    print(f"  overshot: {shown(sum(o.overshot for o in outcomes), len(outcomes))}")
    print(f"  a bound exceeded: {shown(sum(o.exceeded for o in outcomes), len(outcomes))}")
    done = [o for o in outcomes if o.completed]
    waves = Counter(outcome.waves for outcome in done)
    print(f"  all sent in waves: {len(done)}; waves of the longer stage: {dict(sorted(waves.items()))}")


if __name__ == "__main__":
    main()
