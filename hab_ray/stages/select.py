"""Select diverse tests: embeddings, PCA to 50 components, k-means, of each cluster the member nearest the centre.

Everything runs in float64 on candidates sorted by id, ties go to the smaller id. The caller gives each
dimension one BLAS thread: two threads were measured to change 27 of 500 picks.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hab_ray.calls import EmbedCall, Outcome
from hab_ray.catalog import Model
from hab_ray.config import Select
from hab_ray.rows import Candidate, ChosenTest, Embedded, State
from hab_ray.rubric import Rubric
from hab_ray.stages.base import Unusable, usable


@dataclass(frozen=True)
class EmbedStage:
    """Embeds the candidates of one dimension that came through validation."""

    model: Model
    accept_substitutes: bool = False

    def requests(self, tasks: Iterable[Candidate]) -> Iterator[tuple[str, EmbedCall]]:
        """See Stage."""
        for task in tasks:
            yield (
                task.id,
                EmbedCall(self.model.entry.provider, self.model.name, self.model.as_of, task.prompt),
            )

    def parse(self, task: Candidate, outcome: Outcome) -> Embedded:
        """The candidate's vector, or why it has none."""
        blank = Embedded(task.id, task.dimension, State.OK, b"", "", outcome.key)
        reply = usable(self.model, outcome, self.accept_substitutes)
        if isinstance(reply, Unusable):
            return replace(blank, state=reply.state, reason=reply.reason)
        if not _is_finite(reply.vector):
            return replace(blank, state=State.UNREADABLE, reason="the vector is not one of finite float32 numbers")
        return replace(blank, vector=reply.vector)


def _is_finite(vector: bytes) -> bool:
    return len(vector) % 4 == 0 and bool(np.isfinite(np.frombuffer(vector, dtype="<f4")).all())


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


def choose(
    rubric: Rubric, candidates: Sequence[Candidate], embedded: Sequence[Embedded], settings: Select
) -> tuple[list[ChosenTest], str]:
    """The tests of one dimension, sorted by id, and a note where fewer were there than wanted."""
    vectors = {e.candidate_id: e.vector for e in embedded if e.state is State.OK}
    pool = sorted((c for c in candidates if c.id in vectors), key=lambda c: c.id)
    if not pool:
        return [], f"no candidate of {rubric.id} came through generation, validation and embedding"
    matrix = np.stack([np.frombuffer(vectors[c.id], dtype="<f4") for c in pool]).astype(np.float64)
    picks = pick(matrix, settings)
    return [as_test(rubric, pool[row], cluster) for row, cluster in picks.rows], picks.note


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
