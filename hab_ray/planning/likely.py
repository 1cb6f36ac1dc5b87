"""Simulates the waves of a run with `reserve: likely`, to count its rounds of batches for a budget.

Row costs are not known beforehand. They are drawn from a lognormal distribution around the plan's mean, like the
lengths of answers: most below it, a few far above. The waves are then those of `hab_ray.engine.budget.bound`. Real
costs may take a round or two more or fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from hab_ray.engine.budget.bound import FIRST_WAVE, LEAST_WAVE, CostSample, Wave
from hab_ray.planning.rounds import MAX_ROUNDS, BatchedCalls, Count, StageCosts, rounds_of_calls, stage_by_stage

RELATIVE_SD = 0.7
_SEED = 0


def likely_rounds(stages: Sequence[StageCosts], risk: float) -> Count:
    """Return a function that counts the rounds of these stages for a budget; None if it is not enough.

    `risk` is shared by all stages. A run leaves half of it to later processes and half of the rest to later
    dispatches.
    """
    each = risk / max(1, sum(calls.calls > 0 for stage in stages for calls in stage.batched)) / 4
    cells = [[_Cell(calls, each) for calls in stage.batched if calls.calls] for stage in stages]
    return partial(stage_by_stage, stages, [partial(_rounds, some) for some in cells])


class _Cell:
    """A model's calls at a stage, with simulated costs, in sending order."""

    def __init__(self, calls: BatchedCalls, risk: float) -> None:
        self.calls, self._risk = calls, risk
        self._cap = calls.each[1]
        self._samples: dict[int, CostSample] = {}

    @property
    def is_sampled(self) -> bool:
        """Whether the cell is sent in waves at all."""
        return self.calls.calls > FIRST_WAVE and self.calls.cost > 0

    @cached_property
    def _costs(self) -> NDArray[np.int64]:
        variance = np.log(1 + RELATIVE_SD**2)
        drawn = np.random.default_rng(_SEED).lognormal(-variance / 2, np.sqrt(variance), self.calls.calls)
        costs: NDArray[np.int64] = np.minimum(drawn * (self.calls.cost / drawn.sum()), self._cap).astype(np.int64)
        return costs

    def wave(self, seen: int, free: int) -> Wave | None:
        """Return the largest wave that `free` pays for after `seen` rows, if any."""
        if seen not in self._samples:
            sample = CostSample(self.calls.calls, self._cap, self._risk, self.calls.calls)
            sample.add(self._costs[:seen].tolist())
            self._samples[seen] = sample
        sample, most = self._samples[seen], self.calls.at_once or self.calls.calls
        if seen:
            return sample.largest_wave(free, most)
        waves = (wave for wave in sample.waves() if wave.rows in (sample.to_come, FIRST_WAVE, LEAST_WAVE))
        return next((wave for wave in waves if wave.nanousd <= free and wave.rows <= most), None)

    def cost(self, seen: int, wave: Wave) -> int:
        return int(self._costs[seen : seen + wave.rows].sum())

    def rest(self, seen: int) -> BatchedCalls:
        """Return the remaining calls, which are sent under the hard bound if no wave is affordable."""
        calls, left = self.calls, self.calls.calls - seen
        cost, reserved = calls.each
        return BatchedCalls(left, left * cost, left * reserved, calls.at_once)


def _rounds(cells: Sequence[_Cell], money: int) -> tuple[int, int] | None:
    """Return the rounds of a stage and their cost; None if the money is not enough."""
    seen = {cell: 0 for cell in cells if cell.is_sampled}
    rounds = cost = 0
    while rounds < MAX_ROUNDS and any(count < cell.calls.calls for cell, count in seen.items()):
        free, sent = money - cost, False
        for cell, count in seen.items():
            wave = cell.wave(count, free) if count < cell.calls.calls else None
            if wave:
                free -= wave.nanousd
                cost += cell.cost(count, wave)
                seen[cell], sent = count + wave.rows, True
        if not sent:
            break
        rounds += 1
    rest = rounds_of_calls([cell.rest(seen.get(cell, 0)) for cell in cells], money - cost)
    return rest and (rounds + rest[0], cost + rest[1])
