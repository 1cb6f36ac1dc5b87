"""A driver is stopped (SIGSTOP), another takes its store over, the first is continued: what does it still send?

    python -m benchmarks.lease                  the real times: renewed every 10 s, takeover after 40, stopped for 90
    python -m benchmarks.lease --s3             the same with run and store on a real S3 server
    python -m benchmarks.lease --stops 20       short times, twenty drivers stopped at random moments at full speed

`refused`: seconds until a second driver was told that the first one lives. `taken`: seconds from the stop to the first
request of the second driver. `late`: requests of the first driver after it was continued. `twice`: calls that both
sent, which were in flight, or not in the store yet, when the first was stopped: the online window.
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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random

import yaml

from benchmarks.campaigns import get
from hab_ray.config.sections import LeaseTimes
from hab_ray.errors import Exit
from hab_simulator import Profile, SimulatorProcess
from tests.seaweed import SeaweedFS, seaweed

REAL, SHORT = LeaseTimes(), LeaseTimes(renew_s=0.5, lost_s=1.5, take_s=3)
STOPPED_S = 90.0
PER_S, IN_FLIGHT, LATENCY_S = 100, 400, 1.0
TESTS, FEW_TESTS = 4500, 600
DIMENSION = "ask_clarifying_questions"
STARTS_S, ENDS_S = 400.0, 900.0
MAX_LOOKS_PER_S = 10
BUCKET = "lease"


@dataclass(frozen=True)
class Handover:
    """What one stopped driver and its successor did; times in seconds."""

    refused_s: float
    refusal: int
    taken_s: float
    late: int
    twice: int
    first: int
    second: int

    def row(self, number: int) -> str:
        return (
            f"{number:>3}{self.refused_s:>9.1f}{self.refusal:>6}{self.taken_s:>8.1f}{self.late:>6}{self.twice:>7}"
            f"{self.first:>7}{self.second:>8}"
        )

    @property
    def passed(self) -> bool:
        return self.late == 0 and (self.refusal, self.first, self.second) == (Exit.HELD, Exit.HELD, Exit.COMPLETE)


class Scene:
    """A sweep in a folder, as two machines drive it: the simulator sees each as an account of its own."""

    def __init__(
        self, folder: Path, url: str, times: LeaseTimes, tests: int, place: str, environment: Mapping[str, str]
    ):
        self._folder, self._url, self._environment = folder, url, environment
        prompts = ({"dimension": DIMENSION, "prompt": f"Question {n}: why is the sky blue?"} for n in range(tests))
        (folder / "tests.jsonl").write_text("".join(json.dumps(one) + "\n" for one in prompts))
        for machine in ("first", "second"):
            (folder / f"{machine}.yaml").write_text(yaml.safe_dump(self._sweep(machine, times, place)))

    def _sweep(self, machine: str, times: LeaseTimes, place: str) -> object:
        limits = {"requests_per_minute": PER_S * 60, "concurrent": IN_FLIGHT}
        provider = {
            "kind": "openai",
            "url": f"{self._url}/x/{machine}/v1",
            "price": {"input": 0, "output": 0},
            "limits": limits,
        }
        return {
            "name": "lease",
            "run": f"{place}/run",
            "store": f"{place}/store",
            "shared_filesystem": True,
            "lease": times.model_dump(),
            "dimensions": [DIMENSION],
            "executor": "local",
            "tests": "tests.jsonl",
            "providers": {"sim": provider},
            "subjects": ["sim/alpha"],
            "judges": ["sim/judge"],
        }

    @contextmanager
    def driver(self, machine: str) -> Iterator[subprocess.Popen[bytes]]:
        """A running `hab run`; what it prints goes to a log."""
        command = [sys.executable, "-m", "hab_ray.cli", "run", f"{machine}.yaml", "--yes"]
        with (self._folder / f"{machine}.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self._folder, env=os.environ | self._environment, stdout=log, stderr=log
            )
            try:
                yield process
            finally:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()

    def sent(self, machine: str) -> list[float]:
        """When a machine's requests arrived, by the clock on the wall."""
        arrivals, found = 0, []
        while page := get(self._url, f"/_requests?after={arrivals}"):
            arrivals += len(page)
            found += [one["at"] for one in page if one["account"] == f"x/{machine}"]
        return found

    def twice(self) -> int:
        """Calls that were received more than once."""
        arrivals, bodies = 0, Counter[str]()
        while page := get(self._url, f"/_calls?after={arrivals}"):
            arrivals += len(page)
            bodies.update(one["identity"] for one in page if one["identity"])
        return sum(count > 1 for count in bodies.values())

    def log(self, machine: str) -> str:
        """What a machine's drivers printed."""
        return (self._folder / f"{machine}.log").read_text(errors="replace")


def until(what: Callable[[], bool], longest_s: float, told: Callable[[], str]) -> None:
    """Wait for something."""
    give_up = time.monotonic() + longest_s
    while not what():
        if time.monotonic() > give_up:
            raise SystemExit(f"it did not happen:\n{told()}")
        time.sleep(1 / MAX_LOOKS_PER_S)


def handover(scene: Scene, spend_s: float, stopped_s: float) -> Handover:
    """The first driver spends, a second is refused, the first is stopped, succeeded and continued."""
    with scene.driver("first") as first:
        until(lambda: bool(scene.sent("first")), STARTS_S, lambda: scene.log("first"))
        begun = time.monotonic()
        with scene.driver("second") as refused:
            refusal = refused.wait(STARTS_S)
        refused_s = time.monotonic() - begun
        time.sleep(spend_s)
        first.send_signal(signal.SIGSTOP)
        stopped_at = time.time()
        with scene.driver("second") as second:
            until(lambda: bool(scene.sent("second")), STARTS_S, lambda: scene.log("second"))
            taken_s = min(scene.sent("second")) - stopped_at
            time.sleep(max(0.0, stopped_at + stopped_s - time.time()))
            continued_at = time.time()
            first.send_signal(signal.SIGCONT)
            statuses = first.wait(ENDS_S), second.wait(ENDS_S)
    late = sum(at > continued_at for at in scene.sent("first"))
    return Handover(refused_s, refusal, taken_s, late, scene.twice(), *statuses)


@contextmanager
def s3_server() -> Iterator[SeaweedFS]:
    """An S3 server with a bucket."""
    with tempfile.TemporaryDirectory(prefix="hab-lease-s3-") as folder, seaweed(Path(folder)) as server:
        server.new_bucket(BUCKET)
        yield server


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--stops", type=int, default=0)
    asked = parser.parse_args()
    times, tests = (SHORT, FEW_TESTS) if asked.stops else (REAL, TESTS)
    profile = Profile.model_validate({"latency": {"kind": "fixed", "value_s": LATENCY_S}})
    print(f"renewed every {times.renew_s:g} s, stale after {times.lost_s:g} s, taken over after {times.take_s:g} s")
    print("  #  refused  exit   taken  late  twice  first  second", flush=True)
    found = []
    with s3_server() if asked.s3 else nullcontext() as server:
        for number in range(1, max(1, asked.stops) + 1):
            random = Random(number)
            with tempfile.TemporaryDirectory(prefix="hab-lease-") as folder, SimulatorProcess.start(profile) as sim:
                place = f"s3://{BUCKET}/{number}" if server else f"{folder}/shared"
                environment = server.environment() if server else {}
                scene = Scene(Path(folder), sim.url, times, tests, place, environment)
                one = handover(scene, random.uniform(0.5, 1.5), 0.0 if asked.stops else STOPPED_S)
                found.append(one)
                print(one.row(number), flush=True)
                if not one.passed:
                    print(scene.log("first"), scene.log("second"))
    failed = sum(not one.passed for one in found)
    print(f"{'FAIL' if failed else 'PASS'}: {failed} of {len(found)} were not as they must be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
