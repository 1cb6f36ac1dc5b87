"""Worker nodes, limiters, lanes and drivers are killed in one sweep: three nodes, with a store in a bucket.

Run: python -m benchmarks.cluster_kills [--tests N] [--kills N]. The same sweep runs undisturbed first. Printed: whether
both end with the same scores, to the byte; what was billed more than once, beside what was in flight at the kills; and
what the kills stranded of the budget, beside the most that the calls in flight can have cost. Issues are planted in
the answers: each of the two stores has a fence code of its own, on which other verdicts would depend. Nodes are
processes of this machine (`ray.cluster_utils`), the bucket is SeaweedFS. A worker node that was killed is replaced.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import yaml
from typer.testing import CliRunner

from benchmarks.campaigns import ROOT, get
from hab_ray.catalog.addresses import outside_address
from hab_ray.catalog.prices import NANO
from hab_ray.cli.main import app
from hab_ray.cli.prepare import Choices, prepare
from hab_ray.cluster.session import QUIET
from hab_ray.location import Location
from hab_ray.planning import make_plan
from hab_ray.rehearse.profile import digest
from hab_ray.rubric import load_rubrics
from hab_ray.storage.folder import open_folder
from hab_ray.storage.spending import online_spending
from hab_simulator import FixedLatency, Planted, PlantedDimension, PlantedIssue, Profile, SimulatorProcess
from tests.ray_cluster import RayCluster
from tests.seaweed import seaweed

WITHIN_S = 600.0
CONCURRENT, LANES, LATENCY_S = 24, 3, 2.0
BUSY = 16
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
            "price": {"input": 0.01, "output": 1},
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
            "subjects": [{"model": "sim/alpha", "params": {"max_tokens": 2000}}],
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
        found = get(self.cluster.job_server, "/api/v0/actors?detail=1&limit=1000")["data"]["result"]["result"]
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


def until(is_true: Callable[[], bool], job: subprocess.Popen[str]) -> None:
    end = time.monotonic() + WITHIN_S
    while not is_true():
        if job.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"the job ended or hangs:\n{job.communicate()[0]}")
        time.sleep(0.1)


@dataclass(frozen=True)
class Kill:
    """What was killed, and how many calls were in flight there.

    Of a node and a lane those are the answers that find nobody; the driver's lanes read some before they end, too.
    """

    what: str
    in_flight: int


class Disturber:
    """Kills, in turn, a worker node, the limiter and the budget's keeper, a lane, and the driver."""

    def __init__(self, scene: Scene, sweep: Path, url: str) -> None:
        self._scene, self._sweep, self._url = scene, sweep, url
        self._nodes = list(scene.cluster.nodes[1:])
        self._before: list[tuple[str, Mapping[str, Any]]] = []
        self.job = scene.submit(sweep)

    def kill(self, turn: int) -> None:
        what = (self._node, self._keepers, self._lane, self._driver)[turn % 4]
        meter = get(self._url, "/_meter")
        self._before.append((what.__name__[1:], meter))
        print(f"  {self._before[-1][0]}, {meter['in_flight']} in flight, {meter['billed']} billed", flush=True)
        what()

    def kills(self) -> list[Kill]:
        """What was killed, once the vendor has answered all calls that were in flight at the last kill."""
        meters = [meter for _, meter in self._before] + [get(self._url, "/_meter")]
        found = []
        for (what, before), after in zip(self._before, meters[1:], strict=True):
            unread = after["unread"] - before["unread"]
            found.append(Kill(what, before["in_flight"] if what == "driver" else unread))
        return found

    def _node(self) -> None:
        self._scene.cluster.kill(self._nodes.pop(0))
        self._nodes.append(self._scene.cluster.add())

    def _keepers(self) -> None:
        for name in ("AccountActor", "BudgetActor"):
            for actor in self._scene.actors(name):
                os.kill(actor["pid"], signal.SIGKILL)

    def _lane(self) -> None:
        os.kill(self._scene.actors("Lane")[0]["pid"], signal.SIGKILL)

    def _driver(self) -> None:
        for process in psutil.process_iter(["cmdline"]):
            if str(self._sweep) in (process.info["cmdline"] or ()) and process.pid != self.job.pid:
                process.kill()
        self.job.communicate(timeout=WITHIN_S)
        self.job = self._scene.submit(self._sweep)


def disturbed(scene: Scene, sweep: Path, url: str, tests: int, kills: int) -> list[Kill]:
    """Run a sweep through its kills, spread evenly over its calls; what they were."""
    disturber = Disturber(scene, sweep, url)

    def is_due(turn: int) -> bool:
        now = get(url, "/_meter")
        return bool(now["billed"] >= (turn + 1) * 2 * tests // (kills + 1) and now["in_flight"] >= BUSY)

    for turn in range(kills):
        until(partial(is_due, turn), disturber.job)
        until(lambda: len(scene.actors("Lane")) == LANES, disturber.job)
        disturber.kill(turn)
    output, _ = disturber.job.communicate(timeout=WITHIN_S)
    if disturber.job.returncode:
        raise SystemExit(f"the sweep did not complete:\n{output}")
    return disturber.kills()


def dearest_call(sweep: Path) -> int:
    """The most that one call of a sweep can cost, in nano-dollars."""
    work, _ = prepare(sweep, Choices(), datetime.now(UTC))
    return max(line.dearest for line in make_plan(work).lines)


def money_of(name: str) -> Mapping[str, int]:
    """`hab budget show RUN --json`."""
    shown = CliRunner().invoke(app, ["budget", "show", f"s3://{BUCKET}/{name}/run", "--json"])
    return dict(json.loads(shown.stdout))


def print_drivers(kills: Sequence[Kill], bound: int) -> None:
    """Print what each driver's life stranded beside what was in flight at its kills, the last of which is its own."""
    store = open_folder(Location(f"s3://{BUCKET}/disturbed/store"))
    left = list(kills)
    for epoch in sorted(int(name.rpartition("/")[2].removesuffix(".json")) for name in store.list("budget")):
        end = next((number for number, kill in enumerate(left) if kill.what == "driver"), len(left)) + 1
        in_flight, left = sum(kill.in_flight for kill in left[:end]), left[end:]
        money = online_spending(store, [epoch], released_up_to=0)
        print(
            f"  driver {epoch}: {in_flight} calls in flight at kills, {money.stranded / bound:.0f} stranded",
            end=", ",
        )
        print(f"{money.lost / bound:.0f} unanswered, counted by the most that a call can cost")


def strands_too_much(kills: Sequence[Kill], bound: int) -> bool:
    """Print what the kills stranded beside what was in flight; whether that is more than 1.5 times as much."""
    print(*(f"  {kill.what}: {kill.in_flight}" for kill in kills), sep="\n")
    print_drivers(kills, bound)
    quiet, money = money_of("quiet"), money_of("disturbed")
    at_stake = sum(kill.in_flight for kill in kills) * bound
    stranded = money["stranded"] + money["unanswered"]
    used = money["paid"] + stranded
    print(f"in flight at the kills: {at_stake / bound:.0f} calls, at most ${at_stake / NANO:.4f}")
    print(f"stranded or unanswered: ${stranded / NANO:.4f}, {stranded / at_stake:.2f} times as much")
    print(f"counts as spent: ${used / NANO:.4f}; undisturbed: ${quiet['paid'] / NANO:.4f}")
    return used > quiet["paid"] + 1.5 * at_stake


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, default=600)
    parser.add_argument("--kills", type=int, default=12)
    options = parser.parse_args()
    tests = options.tests
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
            sweep = scene.sweep("disturbed", simulator.url, tests)
            bound = dearest_call(sweep)
            kills = disturbed(scene, sweep, simulator.url, tests, options.kills)
            repeats = get(simulator.url, "/_meter")["billed"] - 2 * tests
        same = scene.scores("quiet") == scene.scores("disturbed")
        print(f"scores: {'the same, to the byte' if same else 'DIFFERENT'}")
        print(f"billed again: {repeats} of {2 * tests} calls")
        excessive = strands_too_much(kills, bound)
    if not same or excessive:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
