"""Step 4, choose diverse tests: PCA to 50 components, k-means, of each cluster the member nearest the centre.

The paper chooses 500 per dimension. Everything runs in float64 on candidates sorted by id; ties go to the smaller id.
The caller gives each dimension one BLAS thread: two threads were measured to change 27 of 500 picks.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hab_ray.config import Select
from hab_ray.rows import Candidate, ChosenTest, Embedded, State
from hab_ray.rubric import Rubric
from hab_ray.stages.base import Computed, ComputeStage, Rows
from hab_ray.stages.forecast import Forecast, Forecasts
from hab_ray.stages.spec import Grain, Part, ResolvedSweep, Source, StageSpec


@dataclass(frozen=True)
class Picks:
    """The chosen rows as (row, cluster), by row, and what a reader should know about the choice."""

    rows: tuple[tuple[int, int], ...]
    note: str


def pick(vectors: NDArray[np.float64], settings: Select) -> Picks:
    """Choose `tests` rows of an (n, d) matrix, as scikit-learn's PCA and KMeans do with the same seed.

    With no more distinct vectors than tests wanted, one row of each distinct vector is taken.
    """
    distinct = _first_of_each(vectors)
    if len(distinct) <= settings.tests:
        note = f"{len(distinct)} distinct candidates for {settings.tests} tests: all are taken"
        return Picks(tuple((row, cluster) for cluster, row in enumerate(distinct)), note)
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.exceptions import ConvergenceWarning

    components = min(settings.components, *vectors.shape)
    points = PCA(n_components=components, random_state=settings.seed).fit_transform(vectors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = KMeans(n_clusters=settings.tests, random_state=settings.seed).fit(points)
    rows = _nearest(points, fitted.cluster_centers_, fitted.labels_)
    few = len(rows) < settings.tests
    return Picks(rows, f"{len(rows)} clusters for {settings.tests} tests: candidates are too alike" if few else "")


def _first_of_each(vectors: NDArray[np.float64]) -> list[int]:
    first: dict[bytes, int] = {}
    for row, vector in enumerate(vectors):
        first.setdefault(vector.tobytes(), row)
    return list(first.values())


def _nearest(
    points: NDArray[np.float64], centers: NDArray[np.float64], labels: NDArray[np.int32]
) -> tuple[tuple[int, int], ...]:
    distances = np.linalg.norm(points - centers[labels], axis=1)
    nearest: dict[int, int] = {}
    for row, cluster in enumerate(labels.tolist()):
        if cluster not in nearest or distances[row] < distances[nearest[cluster]]:
            nearest[cluster] = row
    return tuple(sorted((row, cluster) for cluster, row in nearest.items()))


@dataclass(frozen=True)
class ChooseStage(ComputeStage[ChosenTest]):
    """Chooses the tests of one dimension among its embedded candidates."""

    rubric: Rubric
    settings: Select

    def compute(self, rows: Rows) -> Computed[ChosenTest]:
        """The tests, sorted by id; the note says where there are fewer than wanted."""
        vectors = {e.candidate_id: e.vector for e in rows[Embedded] if e.state is State.OK}
        pool = sorted((c for c in rows[Candidate] if c.id in vectors), key=lambda c: c.id)
        if not pool:
            return Computed([], f"no candidate of {self.rubric.id} came through generation, validation and embedding")
        matrix = np.stack([np.frombuffer(vectors[c.id], dtype="<f4") for c in pool]).astype(np.float64)
        picks = pick(matrix, self.settings)
        return Computed([as_test(self.rubric, pool[row], cluster) for row, cluster in picks.rows], picks.note)

    def forecast_rows(self, rows: Forecasts) -> Forecast[ChosenTest]:
        """As many as are wanted and can be had, like the candidates to come."""
        candidates = rows[Candidate]
        return Forecast(
            to_come=min(self.settings.tests, rows[Embedded].count),
            typical=[as_test(self.rubric, candidate, None) for candidate in candidates.typical],
            longest=[as_test(self.rubric, candidate, None) for candidate in candidates.longest],
        )


def as_test(rubric: Rubric, candidate: Candidate, cluster: int | None) -> ChosenTest:
    """A candidate as the benchmark keeps it."""
    return ChosenTest(
        id=candidate.id,
        dimension=rubric.id,
        prompt=candidate.prompt,
        context=candidate.context,
        system=rubric.system,
        cluster=cluster,
    )


def seed_tests(rubric: Rubric) -> list[ChosenTest]:
    """The rubric's own seed queries as tests, where a sweep asks for `tests: seeds`."""
    return [
        ChosenTest(f"{rubric.id}-seed-{n:03d}", rubric.id, seed.prompt, seed.context or "", rubric.system, None)
        for n, seed in enumerate(rubric.generation.seeds)
    ]


def tests_file(dimension: str) -> str:
    """The view of a dimension's tests, below the run folder; tests that a sweep gives are kept there, too."""
    return f"tests/{dimension}.parquet"


class ChooseSpec(StageSpec):
    """One part per dimension, where the sweep makes its own tests. Tests that were chosen are the run's for good."""

    name = "choose"
    row = ChosenTest
    makes_calls = False
    is_frozen = True

    def parts(self, resolved: ResolvedSweep) -> Iterator[Part]:
        """See StageSpec."""
        if resolved.makes_tests:
            yield from (Part("", dimension) for dimension in resolved.rubrics)

    def file(self, part: Part) -> str:
        """See StageSpec."""
        return tests_file(part.dimension)

    def sources(self, resolved: ResolvedSweep) -> tuple[Source, ...]:
        """See StageSpec."""
        return (Source(Embedded, Grain.ALL), Source(Candidate, Grain.ALL))

    def make(self, resolved: ResolvedSweep, part: Part) -> ChooseStage:
        """See StageSpec."""
        assert resolved.sweep.select is not None
        return ChooseStage(resolved.rubrics[part.dimension], resolved.sweep.select)
