"""A sweep on three nodes with run and store in a bucket, through `ray job submit`, and the death of one of them."""

import json
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import hab_ray
from hab_ray.catalog.addresses import outside_address
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from tests.conftest import Desk, Vendors, until
from tests.ray_cluster import RayCluster

ROOT = Path(__file__).parent.parent.parent
WITHIN_S = 600.0
TESTS, LANES, CONCURRENT = 120, 3, 24
ON_EVERY_NODE = {
    "mode": "online",
    "dimensions": ["encourage_learning"],
    "subjects": ["sim/alpha"],
    "lease": {"renew_s": 1, "lost_s": 4, "take_s": 8},
}


def address() -> str:
    """An address of this machine that is not the loopback's: a lane for that one would stay on the driver's node."""
    found = outside_address()
    assert found, "this machine has no address but the loopback's"
    return found


def sweep(desk: Desk, url: str, bucket: str) -> Path:
    limits, price = {"concurrent": CONCURRENT, "timeout_s": 60}, {"input": 1, "output": 1}
    places = {"run": f"{bucket}/run", "store": f"{bucket}/store", "tests": desk.tests(TESTS), "budget_usd": 5.0}
    return desk.sweep("three", url, {"limits": limits, "price": price, "lanes": LANES}, **ON_EVERY_NODE, **places)


def lanes(cluster: RayCluster) -> dict[str, str]:
    """The nodes of all lanes that live, by the beginning of the lane's id."""
    with urllib.request.urlopen(f"{cluster.job_server}/api/v0/actors?detail=1&limit=1000", timeout=30) as answer:
        actors: list[dict[str, Any]] = json.load(answer)["data"]["result"]["result"]
    living = [actor for actor in actors if actor["class_name"] == "Lane" and actor["state"] == "ALIVE"]
    return {actor["actor_id"][:16]: actor["node_id"] for actor in living}


@pytest.mark.timeout(1500)
def test_every_node_answers_calls_and_one_may_die(
    job_cluster: RayCluster, desk: Desk, vendor: Vendors, bucket: str
) -> None:
    cluster, added = job_cluster, [job_cluster.add() for _ in range(2)]
    sim = vendor(latency={"kind": "fixed", "value_s": 1.0}, host=address())
    path = sweep(desk, sim.url, bucket)
    store = open_folder(Location(f"{bucket}/store"))
    # Without --working-dir: nodes of one machine share the folder into which each of them unpacks it, over one another.
    job = cluster.job("submit", "--", sys.executable, ROOT / "jobs/sweep.py", path, "--yes")

    def nodes_with_replies() -> set[str]:
        written = store.list("replies")
        return {node for lane, node in lanes(cluster).items() if any(lane in name for name in written)}

    until(lambda: nodes_with_replies() == {*cluster.nodes, *added}, job, WITHIN_S, every_s=0.3)
    assert not any(name.endswith(".parquet") for name in store.list("replies")), "too late to kill a node"
    cluster.kill(added[0])
    output, _ = job.communicate(timeout=WITHIN_S)
    assert job.returncode == 0, output
    cluster.kill(added[1])

    meter = sim.meter()
    # A call takes a second: what was in flight, and two seconds of replies.
    assert meter["billed_more_than_once"]["bodies"] <= meter["billed"] - 2 * TESTS <= 3 * CONCURRENT, meter
    run = hab_ray.open_run(f"{bucket}/run")
    assert Counter(run.responses().column("state").to_pylist()) == {"ok": TESTS}
    assert Counter(run.verdicts().column("state").to_pylist()) == {"ok": TESTS}
    status = json.loads(desk.hab("status", f"{bucket}/run", "--json").stdout)
    assert status["end"]["status"] == 0 and status["driver"] is None
