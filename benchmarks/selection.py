"""Choosing tests among very many candidates, and among as many as the paper had.

    python benchmarks/selection.py                  1,000,000 x 256 with 5,000 clusters (1 to 2 hours on 2 cores)
    python benchmarks/selection.py --small          100,000 x 256 with 1,000 clusters
    python benchmarks/selection.py --points 50000 --clusters 500
    python benchmarks/selection.py --paper          6 x 2,000 x 1,536 with 500 clusters: CPU of PCA and k-means

The first three compare k-means that begins at centres found on a sample, as from 50,000 candidates on, with
scikit-learn's own seeding (n_init=1, max_iter=25) and, where `faiss-cpu` is installed, with FAISS (25 iterations on
all points). Each runs in a process of its own, one after the other, `--rounds` times in turn, with all cores, ours
with one. The inertia is computed here, in the same way for each. `--shape` chooses what the points are like: clumps of
uneven size (the default), clumps of even size, or a smooth surface. With `--paper` the dimensions are chosen in tasks
of Ray, whose start with all imports in its workers is printed apart, and by scikit-learn in one process, one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hab_ray.cluster.session import ray_session
from hab_ray.config.sections import Select
from hab_ray.stages.selection.picking import BLOCK_ROWS, clusters_of_many, pick

Points = NDArray[np.float32]
Centers = NDArray[np.float64]

PASSES = 25
MAX_INERTIA, MAX_BYTES = 1.01, 4_000_000_000
DIMENSIONS, CANDIDATES, NUMBERS, TESTS = 6, 2_000, 1_536, 500


@dataclass(frozen=True)
class Size:
    """So many points of so many numbers, in so many clusters."""

    points: int
    numbers: int
    clusters: int


FULL, SMALL = Size(1_000_000, 256, 5_000), Size(100_000, 256, 1_000)
PROGRAM = Path(__file__).resolve()


@dataclass(frozen=True)
class Cost:
    """Wall and CPU seconds, and the most memory of a process and its children."""

    wall_s: float
    cpu_s: float
    most_bytes: int


def clumps(size: Size, weights: NDArray[np.float64]) -> Points:
    """Points around so many centres, as often as these are weighted."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((len(weights), size.numbers), dtype=np.float32)
    points = np.empty((size.points, size.numbers), dtype=np.float32)
    for start in range(0, size.points, BLOCK_ROWS):
        rows = points[start : start + BLOCK_ROWS]
        rng.standard_normal(dtype=np.float32, out=rows)
        rows *= 0.5
        rows += centers[rng.choice(len(weights), len(rows), p=weights / weights.sum())]
    return points


def uneven(size: Size) -> Points:
    return clumps(size, 1 / np.arange(1, 2 * size.clusters + 1) ** 0.7)


def even(size: Size) -> Points:
    return clumps(size, np.ones(size.clusters))


def smooth(size: Size) -> Points:
    """Points on a bent surface of 16 dimensions, a little off it."""
    rng = np.random.default_rng(0)
    onto = rng.standard_normal((16, size.numbers), dtype=np.float32) / 2
    points = np.empty((size.points, size.numbers), dtype=np.float32)
    for start in range(0, size.points, BLOCK_ROWS):
        rows = points[start : start + BLOCK_ROWS]
        rng.standard_normal(dtype=np.float32, out=rows)
        rows *= 0.1
        rows += np.tanh(rng.standard_normal((len(rows), 16), dtype=np.float32) @ onto)
    return points


SHAPES: dict[str, Callable[[Size], Points]] = {"uneven": uneven, "even": even, "smooth": smooth}


def by_hab(points: Points, clusters: int) -> Centers:
    wide = points.astype(np.float64)
    del points
    with threadpool_limits(limits=1):
        centers: Centers = clusters_of_many(wide, clusters, 0).cluster_centers_
    return centers


def by_sklearn(points: Points, clusters: int) -> Centers:
    from sklearn.cluster import KMeans

    wide = points.astype(np.float64)
    del points
    fitted = KMeans(clusters, n_init=1, max_iter=PASSES, random_state=0, copy_x=False).fit(wide)
    print(f"    {fitted.n_iter_} passes; its own figure of the inertia: {fitted.inertia_:.6g}")
    centers: Centers = fitted.cluster_centers_
    return centers


def by_faiss(points: Points, clusters: int) -> Centers:
    import faiss

    fitted = faiss.Kmeans(points.shape[1], clusters, niter=PASSES, seed=1, max_points_per_centroid=len(points))
    fitted.train(points)
    return np.asarray(fitted.centroids, dtype=np.float64)


WAYS: dict[str, Callable[[Points, int], Centers]] = {
    "hab_ray": by_hab,
    "scikit-learn": by_sklearn,
    "FAISS": by_faiss,
}


def inertia(points: Points, centers: Centers) -> float:
    """The sum of squared distances to the nearest centres; which those are is found in float32."""
    narrow, total = centers.astype(np.float32), 0.0
    halves = (narrow**2).sum(axis=1) / 2
    for start in range(0, len(points), 4_096):
        rows = points[start : start + 4_096]
        labels = (rows @ narrow.T - halves).argmax(axis=1)
        total += float(((rows.astype(np.float64) - centers[labels]) ** 2).sum())
    return total


@contextmanager
def watched_memory() -> Any:
    """Yields a list that will hold the most bytes (PSS) that this process and its children took, seen every second."""
    from threading import Event, Thread

    most, done = [0], Event()

    def watch() -> None:
        while not done.wait(1):
            most[0] = max(most[0], sum(map(pss, [psutil.Process(), *psutil.Process().children(recursive=True)])))

    thread = Thread(target=watch, daemon=True)
    thread.start()
    yield most
    done.set()
    thread.join()


def pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0


def tree_cpu() -> float:
    """CPU seconds of this process and of all below it, those that have ended included."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def child(way: str, folder: Path, clusters: int) -> None:
    """Run one way in this process, leaving its centres and cost in the folder."""
    points: Points = np.load(folder / "points.npy")
    with watched_memory() as most:
        began, cpu = time.perf_counter(), tree_cpu()
        centers = WAYS[way](points, clusters)
        wall, cpu = time.perf_counter() - began, tree_cpu() - cpu
    np.save(folder / "centers.npy", centers)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    (folder / "cost.json").write_text(json.dumps(asdict(Cost(wall, cpu, max(most[0], own)))))


def compare(size: Size, shape: str, ways: Sequence[str], rounds: int) -> bool:
    """Run the ways in turn and print what each takes. Whether ours keeps within the bars."""
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "points.npy", SHAPES[shape](size))
        print(f"{size.points:,} x {size.numbers} ({shape}), {size.clusters:,} clusters, {os.cpu_count()} cores")
        for way in [way for _ in range(rounds) for way in ways]:
            print(f"  {way}", flush=True)
            command = [sys.executable, str(PROGRAM), "--child", way, "--folder", name, "--clusters", str(size.clusters)]
            subprocess.run(command, check=True)
            costs[way].append(Cost(**json.loads((folder / "cost.json").read_text())))
            found[way] = inertia(np.load(folder / "points.npy", mmap_mode="r"), np.load(folder / "centers.npy"))
            print_cost(costs[way][-1], found[way])
    return "scikit-learn" in ways and within(costs, found)


def print_cost(cost: Cost, found: float) -> None:
    memory = f"{cost.most_bytes / 1e9:.2f} GB"
    print(f"    wall {cost.wall_s:.1f} s, CPU {cost.cpu_s:.1f} s, {memory}, inertia {found:.6g}", flush=True)


def within(costs: dict[str, list[Cost]], found: dict[str, float]) -> bool:
    share = found["hab_ray"] / found["scikit-learn"]
    wall = min(cost.wall_s for cost in costs["hab_ray"]) / min(cost.wall_s for cost in costs["scikit-learn"])
    most = max(cost.most_bytes for cost in costs["hab_ray"])
    print(f"inertia {share:.4f} of scikit-learn's (bar {MAX_INERTIA}), wall {wall:.3f} (bar 1.0), {most / 1e9:.2f} GB")
    return share <= MAX_INERTIA and wall <= 1 and most < MAX_BYTES


def embeddings(seed: int) -> Points:
    """Vectors of length one in clumps."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((100, NUMBERS), dtype=np.float32)
    vectors = centers[rng.integers(100, size=CANDIDATES)] + rng.standard_normal((CANDIDATES, NUMBERS), dtype=np.float32)
    unit: Points = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def chosen(seed: int) -> int:
    with threadpool_limits(limits=1):
        return len(pick(embeddings(seed).astype(np.float64), Select(embedding="m", tests=TESTS)).rows)


def imported() -> int:
    """Import what choosing needs; the seconds let a second worker start beside."""
    import sklearn.cluster
    import sklearn.decomposition

    time.sleep(2)
    return len(sklearn.cluster.__all__) + len(sklearn.decomposition.__all__)


def chosen_directly(seed: int) -> int:
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA

    with threadpool_limits(limits=1):
        points = PCA(50, random_state=42).fit_transform(embeddings(seed).astype(np.float64))
        return len(KMeans(TESTS, random_state=42).fit(points).cluster_centers_)


def paper(way: str) -> None:
    """Choose all dimensions and print the CPU that took."""
    cpu = tree_cpu()
    if way == "scikit-learn":
        imported()
        cpu = tree_cpu()
        counts = [chosen_directly(seed) for seed in range(DIMENSIONS)]
        print(f"  {way}: CPU {tree_cpu() - cpu:.1f} s, {sum(counts)} tests", flush=True)
        return
    with ray_session():
        import ray

        ray.get([ray.remote(num_cpus=1)(imported).remote() for _ in range(os.cpu_count() or 1)])
        started = tree_cpu()
        tasks: list[Any] = [ray.remote(num_cpus=1)(chosen).remote(seed) for seed in range(DIMENSIONS)]
        tests = sum(ray.get(tasks))
        chose = tree_cpu() - started
    print(f"  {way}: CPU {chose:.1f} s, {tests} tests, and {started - cpu:.1f} s for Ray's start", flush=True)


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--small", action="store_true")
    options.add_argument("--points", type=int)
    options.add_argument("--paper", action="store_true")
    options.add_argument("--shape", choices=list(SHAPES), default="uneven")
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--child", help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--clusters", type=int)
    given = options.parse_args()
    if given.child and given.folder:
        child(given.child, given.folder, given.clusters)
        return 0
    if given.paper and given.child:
        paper(given.child)
        return 0
    if given.paper:
        print(f"{DIMENSIONS} x {CANDIDATES:,} x {NUMBERS:,}, {TESTS} clusters, one BLAS thread")
        for way in [way for _ in range(given.rounds) for way in ("scikit-learn", "hab_ray on Ray")]:
            subprocess.run([sys.executable, str(PROGRAM), "--paper", "--child", way], check=True)
        return 0
    ways = ["hab_ray", "scikit-learn", *(["FAISS"] if find_spec("faiss") else [])]
    usual = SMALL if given.small else FULL
    size = Size(given.points or usual.points, usual.numbers, given.clusters or usual.clusters)
    return 0 if compare(size, given.shape, ways, given.rounds) else 1


if __name__ == "__main__":
    raise SystemExit(main())
