"""How steadily an online sweep keeps its vendor busy, from the start of `hab run` to its end.

    python benchmarks/flow.py                                4,000 tests, a subject and a judge at 200 calls/s each
    python benchmarks/flow.py --tests 1000 --executor local  2,000 calls in one process, without Ray

Both models belong to one simulated account that answers after one second (lognormal) and allows each 200 calls/s.
A subject's rows are ready from the start, a judge's as its subject answers: its windows have no bar. Calls are read at
the simulator, which numbers them as they arrive. Memory is the PSS of all processes but the simulator's, without
shared memory.
"""

import argparse
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.campaigns import HAB, Watch, get, test_lines
from hab_simulator import Profile, SimulatorProcess

DIMENSION = "encourage_learning"
PER_S = 200.0
MEAN_S, SIGMA = 1.0, 0.5
P99_S = MEAN_S * exp(2.326 * SIGMA - SIGMA**2 / 2)
WINDOW_S, LEAST_SHARE = 2.0, 0.8
FIRST_JUDGE_S, STRETCH, START_S, MAX_MIB = 3.0, 1.15, 5.0, 450.0
LOOK_S = 0.1


@dataclass
class Seen:
    """What was seen of one run. Times are monotonic seconds; `calls` holds when each call was seen, and its model."""

    started: float
    calls: list[tuple[float, str]] = field(default_factory=list)
    durable: float | None = None
    ended: float = 0.0
    most_mib: float = 0.0
    cpu_s: float = 0.0

    def first(self, model: str) -> float:
        return next(at for at, name in self.calls if name == model)


def profile() -> Profile:
    """A vendor that answers after a second and allows so many calls/s a model."""
    models = {"*": {"requests_per_minute": round(PER_S * 60)}}
    latency = {"kind": "lognormal", "mean_s": MEAN_S, "sigma": SIGMA}
    return Profile.model_validate({"latency": latency, "accounts": {"x/sim": {"models": models}}})


def write_sweep(folder: Path, url: str, tests: int, executor: str | None) -> Path:
    """A sweep of so many tests, one subject and one judge at one account."""
    (folder / "tests.jsonl").write_text("".join(test_lines(tests, [DIMENSION])))
    limits = {"requests_per_minute": round(PER_S * 60), "concurrent": 2000, "timeout_s": 60}
    price = {"input": 1.0, "output": 1.0}
    settings: dict[str, Any] = {
        "name": "flow",
        "run": "run",
        "store": "store",
        "mode": "online",
        "tests": "tests.jsonl",
        "dimensions": [DIMENSION],
        "providers": {"sim": {"kind": "openai", "url": f"{url}/x/sim/v1", "limits": limits, "price": price}},
        "subjects": [{"model": "sim/subject", "name": "subject", "params": {"max_tokens": 200}}],
        "judges": [{"model": "sim/judge", "name": "judge", "params": {"max_tokens": 400}}],
    }
    if executor:
        settings["executor"] = executor
    path = folder / "flow.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def run(folder: Path, url: str, sweep: Path) -> Seen:
    """Run a sweep and watch vendor, store and processes."""
    seen, looked = Seen(time.monotonic()), 0.0
    with (folder / "hab.log").open("w") as log:
        process = psutil.Popen([*HAB, "run", "--yes", str(sweep)], cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    watch = Watch(process)
    while process.poll() is None:
        _look_at_calls(seen, url)
        replies = folder / "store/replies"
        if seen.durable is None and replies.exists() and any(replies.glob("*/*")):
            seen.durable = time.monotonic()
        if time.monotonic() - looked > 1.0:
            looked = time.monotonic()
            watch.look()
        time.sleep(LOOK_S)
    seen.ended, seen.cpu_s, seen.most_mib = time.monotonic(), watch.cpu_s, watch.together_mib
    _look_at_calls(seen, url)
    if process.returncode != 0:
        raise SystemExit(f"status {process.returncode}: {(folder / 'hab.log').read_text()[-2000:]}")
    return seen


def _look_at_calls(seen: Seen, url: str) -> None:
    while page := get(url, f"/_calls?after={len(seen.calls)}"):
        now = time.monotonic()
        seen.calls += [(now, call["model"]) for call in page]


def worst_window(times: Sequence[float]) -> tuple[float, float]:
    """The smallest share of a model's limit in any window of `WINDOW_S` from its first call to its last, and when."""
    first, last = times[0], times[-1]
    worst, when = 1.0, 0.0
    counts = Counter(int((at - first) / LOOK_S) for at in times)
    slots = round(WINDOW_S / LOOK_S)
    for slot in range(int((last - first) / LOOK_S) - slots):
        share = sum(counts[slot + n] for n in range(slots)) / (PER_S * WINDOW_S)
        if share < worst:
            worst, when = share, slot * LOOK_S
    return worst, when


def line(what: str, value: float, unit: str, bar: float | None = None, at_least: bool = False) -> str:
    """A figure, and whether it meets its bar."""
    if bar is None:
        return f"{what:<52}{value:10.2f} {unit}"
    met = value >= bar if at_least else value <= bar
    return f"{what:<52}{value:10.2f} {unit:<5} bar {bar:.2f}: {'met' if met else 'MISSED'}"


def show(seen: Seen, executor: str | None) -> None:
    """Print the figures."""
    times = [at for at, _ in seen.calls]
    count, ideal = len(times), len(times) / PER_S
    print(f"{count} calls, {ideal:.1f} s at the limit")
    if seen.durable is not None:
        late = seen.first("judge") - seen.durable
        print(line("first judge call after the first durable response", late, "s", FIRST_JUDGE_S))
    for model, bar in (("subject", LEAST_SHARE), ("judge", None)):
        worst, when = worst_window([at for at, name in seen.calls if name == model])
        print(
            line(f"{model}: worst window of {WINDOW_S:g} s ({when:.1f} s after its first call)", worst, "", bar, True)
        )
    print(line("first call to last", times[-1] - times[0], "s", STRETCH * ideal + P99_S))
    whole = ideal + P99_S + START_S if executor == "local" else None
    print(line("process start to exit", seen.ended - seen.started, "s", whole))
    print(line("start to first call", times[0] - seen.started, "s"))
    print(line("memory of all processes", seen.most_mib, "MiB", MAX_MIB if executor == "local" else None))
    print(line("CPU a call, everything", 1000 * seen.cpu_s / count, "ms"))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, default=4000)
    parser.add_argument("--executor", choices=("auto", "local", "ray"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hab-flow-") as name, SimulatorProcess.start(profile()) as simulator:
        folder = Path(name)
        seen = run(folder, simulator.url, write_sweep(folder, simulator.url, asked.tests, asked.executor))
        show(seen, asked.executor)


if __name__ == "__main__":
    main()
