"""Step 4, select: choose diverse tests by PCA (50 components) and k-means, one per cluster (paper: 500 per dimension).

The test of a cluster is the candidate nearest to its centre; ties go to the smaller id. Below `MANY`
candidates per dimension, PCA and k-means run in float64 on the whole matrix. From that number on, vectors are read in
blocks and never held in memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hab_ray.config.sections import Select
from hab_ray.rows import Candidate, ChosenTest, Embedded, id_of_test
from hab_ray.rubric import Rubric
from hab_ray.stages.base import Computed, ComputeStage, Forecast, Forecasts, Rows
from hab_ray.stages.selection.picking import (
    BLOCK_ROWS,
    Lost,
    Picks,
    VectorBlocks,
    described,
    pick,
    pick_in_blocks,
    usable_vectors,
)

MANY = 50_000


@dataclass(frozen=True)
class SelectStage(ComputeStage[ChosenTest]):
    """Chooses the tests of one dimension among its embedded candidates."""

    rubric: Rubric
    settings: Select
    min_in_blocks: int = MANY
    block_rows: int = BLOCK_ROWS

    def compute(self, rows: Rows) -> Computed[ChosenTest]:
        """Return the tests, sorted by id, with a note if there are fewer than requested or candidates have no vector.

        Raises:
            ConfigError: vectors have different lengths.
        """
        candidates = {c.id: c for c in rows[Candidate]}
        if len(rows[Embedded]) >= self.min_in_blocks:
            return self._in_blocks(candidates, rows[Embedded])
        lost = Lost()
        usable = usable_vectors(rows[Embedded], candidates.keys(), self.settings.embedding, lost)
        vectors = {row.candidate_id: row.vector for row in usable}
        ids = sorted(vectors)
        if not ids:
            return self._no_tests(rows[Candidate], lost)
        matrix = np.stack([np.frombuffer(vectors[id], dtype="<f4") for id in ids]).astype(np.float64)
        return self._chosen(candidates, ids, pick(matrix, self.settings).naming(lost))

    def _in_blocks(self, candidates: Mapping[str, Candidate], embedded: Sequence[Embedded]) -> Computed[ChosenTest]:
        """Do the same for more vectors than fit in memory. They must be sorted by id already."""
        blocks = VectorBlocks(embedded, candidates.keys(), self.settings.embedding, self.block_rows)
        if next(iter(blocks), None) is None:
            return self._no_tests(candidates.values(), blocks.lost)
        picks = pick_in_blocks(blocks, self.settings)  # the last pass leaves `ids` and `lost` complete
        return self._chosen(candidates, blocks.ids, picks.naming(blocks.lost))

    def _chosen(self, candidates: Mapping[str, Candidate], ids: Sequence[str], picks: Picks) -> Computed[ChosenTest]:
        chosen = ((candidates[ids[row]], cluster) for row, cluster in picks.rows)
        tests = [_test(self.rubric, c.prompt, c.context, cluster, c.reply_key or None) for c, cluster in chosen]
        return Computed(sorted(tests, key=lambda test: test.id), picks.note)

    def _no_tests(self, candidates: Iterable[Candidate], lost: Lost) -> Computed[ChosenTest]:
        generated = described(Lost((candidate.state, candidate.reason) for candidate in candidates))
        return Computed(
            [],
            f"no candidate of {self.rubric.id} passed generation, validation and embedding (candidates: "
            f"{generated}; vectors: {described(lost)}). The next start chooses again: set "
            "`accept_substitutes: true` if replies were substituted, or add --retry-failed if calls failed. Otherwise "
            "give the sweep other models and another `run:`; with the same `store:` nothing is paid for twice",
        )

    def forecast_rows(self, rows: Forecasts) -> Forecast[ChosenTest]:
        """Choose the tests if that takes seconds and nothing is to come; else forecast ones like future candidates."""
        made, vectors = rows[Candidate], rows[Embedded]
        if not made.to_come + vectors.to_come and vectors.count < self.min_in_blocks:
            return Forecast(self.compute(Rows({Candidate: made.known, Embedded: vectors.known})).rows)
        alike = ([_test(self.rubric, c.prompt, c.context) for c in some] for some in (made.typical, made.longest))
        return Forecast((), min(self.settings.tests, vectors.count), *alike)


def seed_tests(rubric: Rubric) -> list[ChosenTest]:
    """Return the rubric's seed queries as tests, for sweeps with `tests: seeds`."""
    return [_test(rubric, seed.prompt, seed.context or "") for seed in rubric.seeds]


def _test(rubric: Rubric, prompt: str, context: str, cluster: int | None = None, call: str | None = None) -> ChosenTest:
    id = id_of_test(rubric.id, prompt, context)
    return ChosenTest(id, rubric.id, prompt, context, rubric.system, cluster, call)
