"""Choosing tests among very many candidates: k-means that begins at centres found on a sample, beside scikit-learn's.

    python benchmarks/selection.py                  1,000,000 x 256 with 5,000 clusters (1 to 2 hours on 2 cores)
    python benchmarks/selection.py --points 50000 --clusters 500

The points are clumps of uneven size. scikit-learn (n_init=1, max_iter=25) has all cores; ours, taken from 50,000
candidates on, has one. Each runs in a process of its own, one after the other, `--rounds` times in turn. The inertia is
computed here, in the same way for both.
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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hab_ray.stages.selection.picking import BLOCK_ROWS, clusters_of_many

Points = NDArray[np.float32]
Centers = NDArray[np.float64]

PASSES = 25
MAX_INERTIA, MAX_BYTES = 1.01, 4_000_000_000
POINTS, NUMBERS, CLUSTERS = 1_000_000, 256, 5_000


@dataclass(frozen=True)
class Cost:
    """Wall and CPU seconds, and the most memory of a process."""

    wall_s: float
    cpu_s: float
    most_bytes: int


def clumps(count: int, clusters: int) -> Points:
    """Points around twice as many centres as clusters, as often as these are weighted."""
    rng = np.random.default_rng(0)
    weights = 1 / np.arange(1, 2 * clusters + 1) ** 0.7
    centers = rng.standard_normal((len(weights), NUMBERS), dtype=np.float32)
    points = np.empty((count, NUMBERS), dtype=np.float32)
    for start in range(0, count, BLOCK_ROWS):
        rows = points[start : start + BLOCK_ROWS]
        rng.standard_normal(dtype=np.float32, out=rows)
        rows *= 0.5
        rows += centers[rng.choice(len(weights), len(rows), p=weights / weights.sum())]
    return points


def by_hab(points: NDArray[np.float64], clusters: int) -> Centers:
    with threadpool_limits(limits=1):
        centers: Centers = clusters_of_many(points, clusters, 0).cluster_centers_
    return centers


def by_sklearn(points: NDArray[np.float64], clusters: int) -> Centers:
    from sklearn.cluster import KMeans

    centers: Centers = (
        KMeans(clusters, n_init=1, max_iter=PASSES, random_state=0, copy_x=False).fit(points).cluster_centers_
    )
    return centers


WAYS: dict[str, Callable[[NDArray[np.float64], int], Centers]] = {"hab_ray": by_hab, "scikit-learn": by_sklearn}


def inertia(points: Points, centers: Centers) -> float:
    """The sum of squared distances to the nearest centres; which those are is found in float32."""
    narrow, total = centers.astype(np.float32), 0.0
    halves = (narrow**2).sum(axis=1) / 2
    for start in range(0, len(points), 4_096):
        rows = points[start : start + 4_096]
        labels = (rows @ narrow.T - halves).argmax(axis=1)
        total += float(((rows.astype(np.float64) - centers[labels]) ** 2).sum())
    return total


def child(way: str, folder: Path, clusters: int) -> None:
    """Run one way in this process, leaving its centres and cost in the folder."""
    points = np.load(folder / "points.npy").astype(np.float64)
    began, cpu = time.perf_counter(), time.process_time()
    centers = WAYS[way](points, clusters)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    np.save(folder / "centers.npy", centers)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    (folder / "cost.json").write_text(json.dumps(asdict(Cost(wall, cpu, most))))


def compare(count: int, clusters: int, rounds: int) -> bool:
    """Run both in turn and print what each takes. Whether ours keeps within the bars."""
    costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "points.npy", clumps(count, clusters))
        print(f"{count:,} x {NUMBERS}, {clusters:,} clusters, {os.cpu_count()} cores")
        for way in [way for _ in range(rounds) for way in WAYS]:
            command = [sys.executable, __file__, "--child", way, "--folder", name, "--clusters", str(clusters)]
            subprocess.run(command, check=True)
            cost = Cost(**json.loads((folder / "cost.json").read_text()))
            costs[way].append(cost)
            found[way] = inertia(np.load(folder / "points.npy", mmap_mode="r"), np.load(folder / "centers.npy"))
            spent = f"wall {cost.wall_s:.1f} s, CPU {cost.cpu_s:.1f} s, {cost.most_bytes / 1e9:.2f} GB"
            print(f"  {way}: {spent}, inertia {found[way]:.6g}", flush=True)
    share = found["hab_ray"] / found["scikit-learn"]
    wall = min(cost.wall_s for cost in costs["hab_ray"]) / min(cost.wall_s for cost in costs["scikit-learn"])
    most = max(cost.most_bytes for cost in costs["hab_ray"])
    print(f"inertia {share:.4f} of scikit-learn's (bar {MAX_INERTIA}), wall {wall:.3f} (bar 1.0), {most / 1e9:.2f} GB")
    return share <= MAX_INERTIA and wall <= 1 and most < MAX_BYTES


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--points", type=int, default=POINTS)
    options.add_argument("--clusters", type=int, default=CLUSTERS)
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        child(given.child, given.folder, given.clusters)
        return 0
    return 0 if compare(given.points, given.clusters, given.rounds) else 1


if __name__ == "__main__":
    raise SystemExit(main())
