"""A worker node, the limiter and the driver are killed in one sweep: three nodes, with a store in a bucket.

Run: python -m benchmarks.cluster_kills [--tests N]. The same sweep runs undisturbed first. Printed: whether both end
with the same scores, to the byte; and what was billed more than once, beside what was in flight at the kills. Issues
are planted in the answers: each of the two stores has a fence code of its own, on which other verdicts would depend.
Nodes are processes of this machine (`ray.cluster_utils`), the bucket is SeaweedFS.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from hab_ray.addresses import outside_address
from hab_ray.cluster.session import QUIET
from hab_ray.location import Location
from hab_ray.rehearse.profile import digest
from hab_ray.rubric import load_rubrics
from hab_ray.simulator import FixedLatency, Planted, PlantedDimension, PlantedIssue, Profile, SimulatorProcess
from hab_ray.storage.folder import open_folder
from tests.ray_cluster import RayCluster
from tests.seaweed import seaweed

ROOT = Path(__file__).parent.parent
WITHIN_S = 600.0
CONCURRENT, LANES, LATENCY_S = 24, 3, 1.0
BUCKET = "hab-benchmark"
DIMENSION = "encourage_learning"


@dataclass(frozen=True)
class Scene:
    """What a sweep runs on."""

    cluster: RayCluster
    folder: Path
    environment: Mapping[str, str]

    def sweep(self, name: str, url: str, tests: int) -> Path:
        """The sweep file of a run of this name."""
        given = self.folder / "tests.jsonl"
        rows = ({"id": f"t{n}", "dimension": DIMENSION, "prompt": prompt(n)} for n in range(tests))
        given.write_text("".join(json.dumps(row) + "\n" for row in rows))
        account = {
            "kind": "openai",
            "url": f"{url}/x/sim/v1",
            "limits": {"concurrent": CONCURRENT, "timeout_s": 60},
            "price": {"input": 1, "output": 1},
            "lanes": LANES,
        }
        sweep = {
            "name": name,
            "run": f"s3://{BUCKET}/{name}/run",
            "store": f"s3://{BUCKET}/{name}/store",
            "tests": str(given),
            "mode": "online",
            "dimensions": [DIMENSION],
            "providers": {"sim": account},
            "subjects": ["sim/alpha"],
            "judges": ["sim/judge"],
            "budget_usd": 50.0,
            "lease": {"renew_s": 1, "lost_s": 4, "take_s": 8},
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(sweep))
        return path

    def submit(self, sweep: Path) -> subprocess.Popen[str]:
        """Submit it, without --working-dir: nodes of one machine would unpack it into one folder, over one another."""
        where = ("--runtime-env", "jobs/runtime_env.yaml")
        return self.cluster.job("submit", *where, "--", sys.executable, ROOT / "jobs/sweep.py", sweep, "--yes")

    def actors(self, name: str) -> list[dict[str, Any]]:
        """The actors of this class that live."""
        with urllib.request.urlopen(
            f"{self.cluster.job_server}/api/v0/actors?detail=1&limit=1000", timeout=30
        ) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]["result"]
        return [actor for actor in found if actor["class_name"] == name and actor["state"] == "ALIVE"]

    def scores(self, name: str) -> bytes:
        """The scores of a run, as they are stored."""
        return open_folder(Location(f"s3://{BUCKET}/{name}/run")).get("scores.parquet")


def prompt(number: int) -> str:
    return f"How do I solve task {number}?"


def played(tests: int) -> Profile:
    """A vendor whose answers show planted issues, at the address by which other nodes reach this machine."""
    host = outside_address()
    if host is None:
        raise SystemExit("this machine has no address but 127.0.0.1, by which its other nodes could reach it")
    issues = load_rubrics()[DIMENSION].judging.issues
    drawn = tuple(PlantedIssue.drawn(0, DIMENSION, issue.letter, issue.deduction) for issue in issues)
    prompts = {digest(prompt(number)): DIMENSION for number in range(tests)}
    return Profile(
        latency=FixedLatency(value_s=LATENCY_S),
        host=host,
        planted=Planted(dimensions={DIMENSION: PlantedDimension(issues=drawn)}, prompts=prompts),
    )


@dataclass(frozen=True)
class Meter:
    """What a vendor has counted."""

    url: str

    def read(self) -> Mapping[str, Any]:
        with urllib.request.urlopen(f"{self.url}/_meter") as answer:
            return dict(json.load(answer))


def until(is_true: Callable[[], bool], job: subprocess.Popen[str]) -> None:
    end = time.monotonic() + WITHIN_S
    while not is_true():
        if job.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"the job ended or hangs:\n{job.communicate()[0]}")
        time.sleep(0.1)


def disturbed(scene: Scene, sweep: Path, meter: Meter, tests: int) -> list[int]:
    """Run a sweep through three kills; how many calls were in flight at each."""
    in_flight = []

    def billed(count: int) -> Callable[[], bool]:
        return lambda: meter.read()["billed"] >= count

    def noted(what: str) -> None:
        in_flight.append(meter.read()["in_flight"])
        print(f"  {what} at {meter.read()['billed']} billed calls, {in_flight[-1]} in flight", flush=True)

    job = scene.submit(sweep)
    until(billed(tests // 3), job)
    noted("a worker node is killed")
    scene.cluster.kill(scene.cluster.nodes[1])
    until(billed(2 * tests // 3), job)
    (limiter,) = scene.actors("AccountActor")
    noted("the limiter is killed" + (", with its node" if limiter["node_id"] == scene.cluster.nodes[2] else ""))
    if limiter["node_id"] == scene.cluster.nodes[2]:
        scene.cluster.kill(scene.cluster.nodes[2])
    else:
        os.kill(limiter["pid"], signal.SIGKILL)
    until(billed(tests), job)
    noted("the driver is killed")
    for process in psutil.process_iter(["cmdline"]):
        if process.info["cmdline"] and str(sweep) in process.info["cmdline"] and process.pid != job.pid:
            process.kill()
    output, _ = job.communicate(timeout=WITHIN_S)
    again = scene.submit(sweep)
    output, _ = again.communicate(timeout=WITHIN_S)
    if again.returncode:
        raise SystemExit(f"the sweep did not complete:\n{output}")
    return in_flight


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, default=300)
    tests = parser.parse_args().tests
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(seaweed(folder / "s3"))
        server.new_bucket(BUCKET)
        os.environ |= server.environment()
        cluster = RayCluster.start(3, {**os.environ, **QUIET})
        stack.callback(cluster.stop)
        scene = Scene(cluster, folder, server.environment())
        profile = played(tests)
        with SimulatorProcess.start(profile) as simulator:
            output, _ = (job := scene.submit(scene.sweep("quiet", simulator.url, tests))).communicate(timeout=WITHIN_S)
            if job.returncode:
                raise SystemExit(f"the undisturbed sweep did not complete:\n{output}")
        with SimulatorProcess.start(profile) as simulator:
            meter = Meter(simulator.url)
            in_flight = disturbed(scene, scene.sweep("disturbed", simulator.url, tests), meter, tests)
            repeats = meter.read()["billed"] - 2 * tests
        same = scene.scores("quiet") == scene.scores("disturbed")
    print(f"scores: {'the same, to the byte' if same else 'DIFFERENT'}")
    at_stake = f"{sum(in_flight)} in flight at the kills, and up to 5 s of replies unwritten at each"
    print(f"billed again: {repeats} of {2 * tests} calls; {at_stake}")
    if not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
