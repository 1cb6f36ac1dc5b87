"""CPU a call online and by batch of two commits, in pairs that run at once: has the newer become dearer?

    python benchmarks/cpu_pairs.py cce5b15 HEAD            ten pairs, about 25 minutes on a quiet machine
    python benchmarks/cpu_pairs.py cce5b15 . --pairs 3     `.` is the working tree as it stands
    python benchmarks/cpu_pairs.py . . --modes batch --likely 38.8   old: hard, $1,000; new: likely, $38.80

Each commit is checked out into a temporary folder, and both use this Python's packages. A measurement is one `hab run`
of a sweep, online through Ray or by batch in one process, against a simulator of the newer commit (a rehearsal compares
every row, and more of it with every version); what the same takes with few calls (the median of five) is taken off,
because what starting costs is not the calls'. CPU is user and system time of the driver and all that it starts. Both
run at once, so that what else the machine does slows both. Printed are the medians, the median of the pairs' ratios and
its upper 95 % bound (bootstrap over the pairs); bar 1.02.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import yaml

from benchmarks.campaigns import DIMENSIONS, ROOT, test_lines, watched
from hab_simulator import Profile, SimulatorProcess

BAR = 1.02
DRAWS = 10_000
AMPLE = 1000.0
MAX_S = 400.0
FEW, STARTS = 24, 5
TESTS = 500
SIZES = {"online": 12_000, "batch": 48_000}
TURNAROUND = {"turnaround": {"kind": "fixed", "value_s": 2}}


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A temporary worktree of a commit, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="hab-checkout-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


@dataclass(frozen=True)
class Side:
    """One of the two commits, and the sweep's `budget:`."""

    name: str
    tree: Path
    budget: Mapping[str, Any] | None = None


def sweep_file(folder: Path, mode: str, calls: int, url: str, budget: Mapping[str, Any] | None) -> Path:
    """A sweep of so many calls, half of them subjects', half a judge's; 500 tests a dimension as in the paper."""
    rows = calls // 2 // len(DIMENSIONS)
    (folder / "tests.jsonl").write_text("".join(test_lines(min(TESTS, rows))))
    path = folder / "pair.yaml"
    provider = {
        "kind": "openai",
        "url": f"{url}/x/sim/v1",
        "price": {"input": 1, "output": 2},
        "limits": {"concurrent": 64},
        "batch": {"discount": 0.5},
        "batches": {"poll_s": 0.5, "still_s": 0},
    }
    settings = {
        "name": "pair",
        "mode": mode,
        "executor": "ray" if mode == "online" else "local",
        "dimensions": list(DIMENSIONS),
        "tests": "tests.jsonl",
        "providers": {"sim": provider},
        "subjects": [f"sim/subject{number}" for number in range(max(1, rows // TESTS))],
        "judges": ["sim/judge"],
    }
    path.write_text(yaml.safe_dump(settings | ({"budget": budget} if budget else {})))
    return path


def cpu_s(side: Side, mode: str, calls: int) -> float:
    """CPU seconds of a run of so many calls."""
    with (
        tempfile.TemporaryDirectory(prefix="hab-pair-") as name,
        SimulatorProcess.start(Profile.model_validate({"batch": TURNAROUND, "speed": 1.0}), timeout_s=30.0) as vendor,
    ):
        sweep = sweep_file(Path(name), mode, calls, vendor.url, side.budget)
        used = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        used |= {"PYTHONPATH": str(side.tree), "RAY_AUTH_MODE": "disabled"}
        ended = watched(["run", str(sweep), "--yes"], used, Path(name), MAX_S)
        if ended.status != 0:
            raise SystemExit(f"{side.name} {mode}: status {ended.status}: {ended.printed[-2000:]}")
        return ended.cpu_s


def at_once(sides: Sequence[Side], mode: str, calls: int) -> tuple[float, ...]:
    """CPU seconds of each side's run of so many calls, all at the same time."""
    with ThreadPoolExecutor(len(sides)) as pool:
        return tuple(pool.map(lambda side: cpu_s(side, mode, calls), sides))


def ms_a_call(taken: float, started: float, mode: str) -> float:
    """CPU milliseconds a call, without what starting costs."""
    return 1000 * (taken - started) / (SIZES[mode] - FEW)


def upper_bound(ratios: Sequence[float], random: Random) -> float:
    """The upper 95 % bound of the median of ratios, by bootstrap."""
    medians = sorted(median(random.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    return medians[int(0.95 * DRAWS)]


def measure(old: Side, new: Side, mode: str, pairs: int, random: Random) -> bool:
    """Print the pairs of one mode; whether the bar is met."""
    found: list[tuple[float, float]] = []
    started = [median(taken) for taken in zip(*(at_once((old, new), mode, FEW) for _ in range(STARTS)), strict=True)]
    print(f"{mode}, starting: {started[0]:.2f} s before, {started[1]:.2f} s after", flush=True)
    for number in range(pairs):
        taken = at_once((old, new), mode, SIZES[mode])
        before, after = (ms_a_call(one, start, mode) for one, start in zip(taken, started, strict=True))
        found.append((before, after))
        print(f"  {mode} {number + 1:>2}: {before:.3f} ms, {after:.3f} ms", flush=True)
    ratios = [after / before for before, after in found]
    bound = upper_bound(ratios, random)
    print(
        f"{mode}: {median(before for before, _ in found):.3f} ms a call before, "
        f"{median(after for _, after in found):.3f} ms after; ratio {median(ratios):.3f}, "
        f"upper 95 % bound {bound:.3f}   bar {BAR:g}: {'met' if bound <= BAR else 'MISSED'}",
        flush=True,
    )
    return bound <= BAR


def _side(stack: ExitStack, role: str, commit: str, budget: Mapping[str, Any] | None) -> Side:
    return Side(f"{role} ({commit})", ROOT if commit == "." else stack.enter_context(checkout(commit)), budget)


def main() -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--modes", nargs="+", choices=sorted(SIZES), default=sorted(SIZES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--likely", type=float, metavar="DOLLARS")
    asked = parser.parse_args()
    hard = likely = None
    if asked.likely is not None:
        hard, likely = {"usd": AMPLE}, {"usd": asked.likely, "reserve": "likely"}
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}")
    with ExitStack() as stack:
        old, new = _side(stack, "old", asked.old, hard), _side(stack, "new", asked.new, likely)
        met = [measure(old, new, mode, asked.pairs, Random(f"{asked.seed}/{mode}")) for mode in asked.modes]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
