"""The bridge between published verdicts and today's: coverage of its interval, and all of it on made rows at full size.

    python -m benchmarks.bridge                    how often the interval covers a planted shift of .06
    python -m benchmarks.bridge --whole            60,000 made rows: import, plan, run by batch at a simulator, table
    python -m benchmarks.bridge --whole --tests 50

Of each command: seconds, and the largest memory of one process. Ends with status 1 where a command fails, or the
interval covers the shift in less than 93 or more than 97 % of 2,000 repetitions; a figure of 400 has an error of 1.1 %.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import yaml

from hab_ray.analysis.shifts import shifts
from hab_simulator import Profile, SimulatorProcess
from tests.analysis.shifting import PLANTED, compared
from tests.published_rows import write_published, write_wording

REPETITIONS = (400, 2_000)
PROPER = (0.93, 0.97)
SUBJECTS = 20


def coverage(tests: int, repetitions: int, seed: int) -> float:
    """How often the interval of a dimension covers the planted shift."""
    random = np.random.default_rng(seed)
    covered = 0
    for _ in range(repetitions):
        found = next(shifts("now", "then", {"made": compared(random, tests)}))
        covered += found.low is not None and found.high is not None and found.low <= PLANTED <= found.high
    return covered / repetitions


def print_coverage() -> bool:
    """Whether all figures are as they should be."""
    found = {}
    for tests in (20, 75, 100, 500):
        for repetitions in REPETITIONS:
            found[tests, repetitions] = coverage(tests, repetitions, seed=tests)
            print(f"{tests} tests of 1 to 20 answers, {repetitions:,} repetitions: {found[tests, repetitions]:.4f}")
    return all(PROPER[0] <= share <= PROPER[1] for (_, repetitions), share in found.items() if repetitions > 400)


def sweep_file(folder: Path, url: str) -> Path:
    """The full bridge with one judge of a simulator, in our words and with the issues reversed."""
    free = {"input": 0, "output": 0}
    account = {"kind": "openai", "url": f"{url}/x/sim/v1", "batch": {"discount": 0.5}, "price": free}
    sweep = {
        "name": "bridge",
        "responses": "responses.parquet",
        "raters": ["verdicts.parquet", "ratings.parquet"],
        "providers": {"sim": account},
        "judges": ["sim/judge"],
        "variants": {"judges": [{"name": "reversed", "issues": "reversed"}]},
        "mode": "batch",
    }
    path = folder / "bridge.yaml"
    path.write_text(yaml.safe_dump(sweep))
    return path


def ended(folder: Path, *command: object) -> bool:
    """Whether a command of hab ends with 0; prints its last lines, time and memory."""
    started = time.monotonic()
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "hab_ray.cli", *map(str, command)], cwd=folder, stdout=said, stderr=said
        )
        _, status, used = os.wait4(process.pid, 0)
        said.seek(0)
        lines = [line for line in said.read().splitlines() if " s  " not in line]
    print(f"hab {' '.join(map(str, command))}: {time.monotonic() - started:.0f} s, {used.ru_maxrss / 1024:.0f} MiB")
    print("".join(f"    {line}\n" for line in lines[-30:]))
    return os.waitstatus_to_exitcode(status) == 0


def cross(tests: int) -> bool:
    """Whether every command of the bridge ends well on made rows of so many tests a dimension."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = time.monotonic()
        write_published(folder, tests, SUBJECTS, rated=min(150, tests))
        write_wording(folder / "imported_rubrics")
        print(f"made rows: {time.monotonic() - started:.0f} s")
        with SimulatorProcess.start(Profile(folder=folder)) as simulator:
            sweep = sweep_file(folder, simulator.url)
            return all(
                [
                    ended(folder, "import", "responses", "evaluations.parquet"),
                    ended(folder, "import", "verdicts", "evaluations.parquet", "--value", "rater=o3"),
                    ended(folder, "import", "ratings", "annotations.jsonl"),
                    ended(folder, "plan", sweep),
                    ended(folder, "run", sweep, "--yes"),
                    ended(folder, "report", "runs/bridge"),
                ]
            )


def main() -> int:
    """Print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--tests", type=int, default=500)
    asked = parser.parse_args()
    return 0 if (cross(asked.tests) if asked.whole else print_coverage()) else 1


if __name__ == "__main__":
    sys.exit(main())
