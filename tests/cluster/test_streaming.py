"""Rows that flow from subject to judge, on a real Ray that a notebook joins."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.conftest import Desk, Vendor, Vendors

RESPONSES = 80
SECONDS = 8


def sweep_of(desk: Desk, sim: Vendor, name: str) -> Path:
    """One subject and one judge on many tests, at a pace that takes a while."""
    limits = {"concurrent": 50, "requests_per_minute": 60 * RESPONSES / SECONDS, "timeout_s": 60}
    settings = {"tests": desk.tests(RESPONSES), "store": "store", "executor": "ray"}
    subjects = {"subjects": ["sim/alpha"], "dimensions": ["encourage_learning"]}
    return desk.sweep(name, sim.url, {"limits": limits}, **settings, **subjects)


def rows(run: Path) -> dict[str, list[dict[str, Any]]]:
    found = [path for view in ("responses", "verdicts") for path in sorted((run / view).rglob("*.parquet"))]
    return {str(path.relative_to(run)): pq.read_table(path).to_pylist() for path in found}


def in_a_notebook(desk: Desk, sweep: Path) -> tuple[int, int]:
    """Run a sweep as a notebook's cell does: its exit status, and how many verdicts there are.

    Ray is joined in another thread than the main one, which alone may have signal handlers.
    """
    cell = (
        f"import asyncio, hab_ray\nasync def cell(): return hab_ray.run({sweep.name!r})\n"
        "run = asyncio.run(cell())\nprint(hab_ray.results.progress(run).end.status, run.verdicts().num_rows)"
    )
    ours: dict[str, Any] = {"cwd": desk.folder, "env": desk.whole_environment}
    done = subprocess.run([sys.executable, "-c", cell], **ours, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    status, verdicts = map(int, done.stdout.split()[-2:])
    return status, verdicts


def test_the_judge_works_beside_its_subject_and_its_rows_are_those_of_a_run_without_streaming(
    cluster_desk: Desk, vendor: Vendors
) -> None:
    sim = vendor(latency={"kind": "fixed", "value_s": 0.3})
    assert in_a_notebook(cluster_desk, sweep_of(cluster_desk, sim, "flowing")) == (0, RESPONSES)
    models = [call["model"] for call in sim.calls()]
    first_verdict = next(n for n, model in enumerate(models) if "judge" in model)
    assert first_verdict < RESPONSES / 2, "the judge waited for most responses"
    assert sim.meter()["billed_more_than_once"]["bodies"] == 0 and len(models) == 2 * RESPONSES
    flowing = rows(cluster_desk.folder / "runs/flowing")
    assert not (cluster_desk.folder / "runs/flowing/pending").exists()
    assert "0 calls sent" in cluster_desk.says("run", sweep_of(cluster_desk, sim, "settled"))
    assert rows(cluster_desk.folder / "runs/settled") == flowing
    verdicts = next(table for name, table in flowing.items() if name.startswith("verdicts"))
    assert [row["test_id"] for row in verdicts] == [f"t{n}" for n in range(RESPONSES)]
