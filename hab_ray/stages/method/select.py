"""Step 4, select diverse tests: PCA to 50 components, k-means, of each cluster the member nearest the centre.

The paper chooses 500 per dimension. Candidates are sorted by id and ties go to the smaller id. Below `MANY` candidates
of a dimension everything runs in float64 in one process, to which the caller gives one BLAS thread: two threads were
measured to change 27 of 500 picks. From there on vectors are read in blocks and never held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hab_ray.config.sections import Select
from hab_ray.rows import Candidate, ChosenTest, Embedded, State, id_of_test
from hab_ray.rubric import Rubric
from hab_ray.stages.base import Computed, ComputeStage, Forecast, Forecasts, Rows
from hab_ray.stages.selection.picking import BLOCK_ROWS, Picks, VectorBlocks, pick, pick_in_blocks

MANY = 50_000


@dataclass(frozen=True)
class SelectStage(ComputeStage[ChosenTest]):
    """Chooses the tests of one dimension among its embedded candidates; from `many` of them on, in blocks."""

    rubric: Rubric
    settings: Select
    many: int = MANY
    block_rows: int = BLOCK_ROWS

    def compute(self, rows: Rows) -> Computed[ChosenTest]:
        """The tests, sorted by id; the note says where there are fewer than wanted."""
        candidates = {c.id: c for c in rows[Candidate]}
        if len(rows[Embedded]) >= self.many:
            return self._in_blocks(candidates, rows[Embedded])
        vectors = {e.candidate_id: e.vector for e in rows[Embedded] if e.state is State.OK}
        ids = sorted(id for id in candidates if id in vectors)
        if not ids:
            return self._none()
        matrix = np.stack([np.frombuffer(vectors[id], dtype="<f4") for id in ids]).astype(np.float64)
        return self._chosen(candidates, ids, pick(matrix, self.settings))

    def _in_blocks(self, candidates: Mapping[str, Candidate], embedded: Sequence[Embedded]) -> Computed[ChosenTest]:
        """As `compute`, for vectors too many to hold: they are read in their order, by id, and never sorted."""
        blocks = VectorBlocks(embedded, candidates.keys(), self.block_rows)
        if next(iter(blocks), None) is None:
            return self._none()
        picks = pick_in_blocks(blocks, self.settings)
        return self._chosen(candidates, blocks.ids, picks)

    def _chosen(self, candidates: Mapping[str, Candidate], ids: Sequence[str], picks: Picks) -> Computed[ChosenTest]:
        chosen = ((candidates[ids[row]], cluster) for row, cluster in picks.rows)
        tests = [_test(self.rubric, c.prompt, c.context, cluster) for c, cluster in chosen]
        return Computed(sorted(tests, key=lambda test: test.id), picks.note)

    def _none(self) -> Computed[ChosenTest]:
        return Computed([], f"no candidate of {self.rubric.id} came through generation, validation and embedding")

    def forecast_rows(self, rows: Forecasts) -> Forecast[ChosenTest]:
        """As many as are wanted and can be had, like the candidates to come."""
        candidates = rows[Candidate]
        return Forecast(
            to_come=min(self.settings.tests, rows[Embedded].count),
            typical=[_test(self.rubric, c.prompt, c.context) for c in candidates.typical],
            longest=[_test(self.rubric, c.prompt, c.context) for c in candidates.longest],
        )


def seed_tests(rubric: Rubric) -> list[ChosenTest]:
    """The rubric's own seed queries as tests, where a sweep asks for `tests: seeds`."""
    return [_test(rubric, seed.prompt, seed.context or "") for seed in rubric.seeds]


def _test(rubric: Rubric, prompt: str, context: str, cluster: int | None = None) -> ChosenTest:
    return ChosenTest(id_of_test(rubric.id, prompt, context), rubric.id, prompt, context, rubric.system, cluster)
