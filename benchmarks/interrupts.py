"""Runs that are interrupted at random moments, some models online and some by batch: what begins after the signal?

    python benchmarks/interrupts.py                       20 runs, about ten minutes
    python benchmarks/interrupts.py --runs 3 --seed 7

In turns: Ctrl-C as a terminal sends it (SIGINT to the whole process group), SIGTERM to the driver alone, Ctrl-C twice.
When a request begins is what the simulator saw. Of requests only those are counted that can cost something: POST, but
not the cancelling of a batch. The runs are driven by `executor: local` and `executor: ray` in turn. Every fourth is
interrupted soon after its first batch, while Ray still starts, the others when calls are open. Every fifth run is given
again and must end complete without waiting for the store.

`late`: requests begun more than 0.5 s after the first signal. `last`: when the last one began, in seconds after it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from random import Random

from benchmarks.campaigns import BATCHED, MODELS, ONLINE, Modes, Session, Shape, called, get, running, sent, until, wait
from hab_simulator import Profile, SimulatorProcess

GRACE_S, MAX_S, SECOND_S, HANGS_S = 0.5, 25.0, 3.0, 90.0
STARTS_S, FINISHES_S = 120.0, 240.0
WINDOW_S = 8.0
LATENCIES_S = (1.0, 3.0, 10.0)
STRAYS_S = 3.0
EVERY = 5
EARLY = 4
EXECUTORS = ("ray", "local")
SHAPE = Shape(Modes(alpha="online", beta="batch", judge="online"), tests=12, rows=3, enqueued_tokens=1500, concurrent=4)


class RouteKey(StrEnum):
    """How a run is interrupted."""

    GROUP = "Ctrl-C"
    DRIVER = "SIGTERM"
    TWICE = "Ctrl-C twice"


TURNS = (RouteKey.GROUP, RouteKey.DRIVER, RouteKey.GROUP, RouteKey.TWICE, RouteKey.GROUP)


@dataclass(frozen=True)
class Interrupted:
    """What one interrupted run did; times are seconds after the first signal, `ended` after the last."""

    number: int
    executor: str
    way: RouteKey
    open_calls: int
    late: int
    last: float
    ended: float | None
    status: int | None
    released: bool
    finished: int | None

    @property
    def bar(self) -> float:
        return SECOND_S if self.way is RouteKey.TWICE else MAX_S

    def row(self) -> str:
        ended = "never" if self.ended is None else f"{self.ended:.2f}"
        again = "" if self.finished is None else str(self.finished)
        return (
            f"{self.number:>3}  {self.executor:<7}{self.way:<13}{self.open_calls:>5}{self.late:>6}{self.last:>8.2f}"
            f"{ended:>8}{'-' if self.status is None else self.status:>7}  {'yes' if self.released else 'NO':<9}{again}"
        )


def profile(latency_s: float) -> Profile:
    """Vendors whose calls take their time, and whose batches come one after another."""
    batched = {"models": MODELS, "batch": {"turnaround": {"kind": "fixed", "value_s": 1.0}}}
    return Profile.model_validate(
        {
            "latency": {"kind": "lognormal", "mean_s": latency_s, "sigma": 1.0},
            "accounts": {ONLINE: {"models": MODELS}, BATCHED: batched},
        }
    )


def begun(url: str) -> list[float]:
    """When each request began that can cost something, by the clock on the wall."""
    arrivals, found = 0, []
    while page := get(url, f"/_requests?after={arrivals}"):
        arrivals += len(page)
        found += [one["at"] for one in page if one["method"] == "POST" and "cancel" not in one["path"]]
    return found


def send(way: RouteKey, process: subprocess.Popen[str], random: Random) -> tuple[float, float]:
    """Interrupt a run; when the first and the last signal were sent."""
    first = time.time()
    if way is RouteKey.DRIVER:
        process.send_signal(signal.SIGTERM)
        return first, first
    os.killpg(process.pid, signal.SIGINT)
    if way is RouteKey.GROUP:
        return first, first
    time.sleep(random.uniform(0.2, 3.0))
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    return first, time.time()


def interrupted(number: int, way: RouteKey, random: Random) -> Interrupted:
    """One run, interrupted; every so often given once more until it ends."""
    again = number % EVERY == 0
    latency_s = LATENCIES_S[0] if again else random.choice(LATENCIES_S)
    shape = replace(SHAPE, executor=EXECUTORS[number % len(EXECUTORS)])
    with (
        tempfile.TemporaryDirectory(prefix="hab-interrupt-") as folder,
        SimulatorProcess.start(profile(latency_s), timeout_s=STARTS_S) as simulator,
    ):
        session = Session(Path(folder), simulator.url)
        session.write(shape, budget_usd=None)
        with running(session) as process:
            if not until(session, process, sent if number % EARLY == 0 else called, STARTS_S):
                raise SystemExit(f"run {number} sent nothing: {session.log()}")
            time.sleep(random.uniform(0.0, WINDOW_S))
            open_calls = session.meter()["in_flight"]
            first, last = send(way, process, random)
            status = wait(process, HANGS_S)
            ended = time.time() - last if status is not None else None
            time.sleep(STRAYS_S)
            after = [at - first for at in begun(simulator.url)]
            released = session.is_released()
        finished = None
        if again:
            with running(session) as process:
                finished = wait(process, FINISHES_S)
        late = sum(at > GRACE_S for at in after)
        return Interrupted(number, shape.executor, way, open_calls, late, max(after), ended, status, released, finished)


def rules(found: Sequence[Interrupted]) -> Iterable[tuple[str, int]]:
    """Each rule, and how many runs broke it."""
    yield f"no request begun later than {GRACE_S} s after the signal", sum(one.late > 0 for one in found)
    once = [one for one in found if one.way is not RouteKey.TWICE]
    twice = [one for one in found if one.way is RouteKey.TWICE]
    for group, bar, what in ((once, MAX_S, "one signal"), (twice, SECOND_S, "the second signal")):
        slow = sum(one.ended is None or one.ended > bar for one in group)
        yield f"ended within {bar:g} s of {what} ({len(group)} runs)", slow
    yield "exit status 130", sum(one.status != 130 for one in found)
    yield "the lease is released", sum(not one.released for one in found)
    yield "the same command ends complete (every fifth run)", sum(one.finished not in (None, 0) for one in found)


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print("run  where  signal         open  late    last   ended status  released  again", flush=True)
    found = []
    for number in range(1, asked.runs + 1):
        one = interrupted(number, TURNS[(number - 1) % len(TURNS)], Random(f"{asked.seed}/{number}"))
        found.append(one)
        print(one.row(), flush=True)
    broken = list(rules(found))
    for rule, count in broken:
        print(f"{'FAIL' if count else 'PASS'}: {rule}{f': {count} runs broke it' if count else ''}")
    return 1 if any(count for _, count in broken) else 0


if __name__ == "__main__":
    sys.exit(main())
