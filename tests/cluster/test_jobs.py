"""`ray job submit` against a cluster with a job server: stopping, continuing, how a job says it ended, and no key."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hab_ray.cli.job import last_line
from hab_ray.cluster.metrics import CALLS, IN_FLIGHT
from hab_ray.errors import Exit
from tests.conftest import Desk, Vendors, until
from tests.ray_cluster import HEADER, KEY, RayCluster

WITHIN_S = 600.0
STATE = ("actors", "jobs", "nodes", "tasks", "workers", "runtime_envs", "placement_groups", "objects")


def sweep(desk: Desk, url: str, concurrent: int) -> Path:
    account = {
        "key_env": "HAB_TEST_KEY",
        "headers_env": {"X-Team": "HAB_TEST_TEAM"},
        "price": {"input": 1, "output": 1},
        "limits": {"concurrent": concurrent},
    }
    places = {"run": str(desk.folder / "run"), "store": str(desk.folder / "store")}
    few = {"dimensions": ["encourage_learning"], "subjects": ["sim/alpha"], "budget_usd": 1.0}
    return desk.sweep("job", url, account, tests="seeds", mode="online", **few, **places)


def submitted(cluster: RayCluster, name: str, path: Path) -> subprocess.Popen[str]:
    """The line of the README, in a name of its own; its client waits for the job."""
    where = ("--submission-id", name, "--working-dir", ".", "--runtime-env", "jobs/runtime_env.yaml")
    return cluster.job("submit", *where, "--", sys.executable, "jobs/sweep.py", path, "--yes")


def api(cluster: RayCluster, path: str) -> str:
    with urllib.request.urlopen(cluster.job_server + path, timeout=30) as answer:
        return str(answer.read().decode())


def job(cluster: RayCluster, name: str) -> Mapping[str, Any]:
    return dict(json.loads(api(cluster, f"/api/jobs/{name}")))


def exported(cluster: RayCluster) -> set[str]:
    """The names of the series with the model's tag at the Prometheus endpoint of the head."""
    with urllib.request.urlopen(cluster.metrics, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {line.split("{")[0] for line in lines if line.startswith("ray_hab_") and 'model="sim/alpha"' in line}


def files(*folders: Path) -> Iterator[Path]:
    yield from (path for folder in folders for path in folder.rglob("*") if path.is_file())


@pytest.mark.timeout(1500)
def test_a_job_is_left_stopped_submitted_again_and_tells_nobody_its_keys(
    job_cluster: RayCluster, desk: Desk, vendor: Vendors
) -> None:
    cluster = job_cluster
    sim = vendor(latency={"kind": "fixed", "value_s": 3.0})
    path = sweep(desk, sim.url, concurrent=1)  # takes a minute: what Ray exports comes after many seconds at times

    client = submitted(cluster, "first", path)
    until(lambda: sim.received("alpha") > 0, within_s=WITHIN_S)
    until(lambda: {CALLS.exported, IN_FLIGHT.exported} <= exported(cluster), within_s=WITHIN_S, every_s=0.5)
    os.killpg(client.pid, signal.SIGINT)
    output, _ = client.communicate(timeout=60)
    assert job(cluster, "first")["status"] == "RUNNING", output

    urllib.request.urlopen(cluster.job_server + "/api/jobs/first/stop", b"", timeout=30).close()  # as `ray job stop`
    until(lambda: job(cluster, "first")["status"] == "STOPPED", within_s=WITHIN_S, every_s=0.2)
    log = json.loads(api(cluster, "/api/jobs/first/logs"))["logs"]
    assert log.splitlines()[-1] == last_line(130) and "Traceback" not in log and "Unhandled" not in log, log
    status = json.loads(desk.hab("status", desk.folder / "run", "--json").stdout)
    assert status["end"] == {"status": 130, "meaning": Exit.INTERRUPTED.meaning} and status["driver"] is None

    sweep(desk, sim.url, concurrent=8)
    again = submitted(cluster, "second", path)
    output, _ = again.communicate(timeout=WITHIN_S)
    assert job(cluster, "second")["status"] == "SUCCEEDED" and again.returncode == 0, output
    assert last_line(0) in output
    meter = sim.meter()
    assert meter["billed_more_than_once"]["bodies"] == 0 and sum(m["billed"] for m in meter["models"]) == 24, meter

    said = [api(cluster, "/api/jobs/"), *(api(cluster, f"/api/v0/{kind}?detail=1&limit=1000") for kind in STATE)]
    said += [api(cluster, f"/api/jobs/{name}/logs") for name in ("first", "second")]
    written = {str(found): found.read_bytes() for found in files(cluster.folder, desk.folder)}
    assert len(written) > 50 and any("dashboard" in name for name in written) and len(said[0]) > 1000
    for secret in (KEY, HEADER):
        assert [name for name, content in written.items() if secret.encode() in content] == []
        assert not any(secret in answer for answer in said)
