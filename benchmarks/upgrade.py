"""Makes tests/fixtures/format0: runs and stores as they were before stores named their format.

    python benchmarks/upgrade.py            make all of them again from that commit's code (about two minutes)

Each folder holds the sweep file, run and store as `hab run` left them, and `left.json`, what was true then:

    finished       two subjects and a judge online, complete
    interrupted    the same, ended by Ctrl-C in the middle: some files are complete, some are not
    batches        by batch: one subject answered and judged, the other's batch open at its vendor; then kill -9

The numbers that the vendor gives to batches follow from its seed, so a new simulator has the open batch again once the
same batches are made there in the same order: see `tests/test_upgrade.py`.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from benchmarks.checkouts import ROOT, TRUST_BEGAN, checkout, simulator, start_hab
from hab_ray.rubric import load_rubrics

FIXTURES = ROOT / "tests/fixtures/format0"
DIMENSIONS = ["correct_misinformation", "encourage_learning"]
TESTS = 7 * len(DIMENSIONS)
CALLS = 2 * 2 * TESTS
PRICE = {"input": 1.0, "output": 4.0}
ANY_MODEL = {"*": {"price": PRICE, "batch_price": PRICE}}
OPENAI, ANTHROPIC = "x/sim", "anthropic"
LONG_S, NEVER_S = 300.0, 1e9
_AFTER = TESTS + 19
_POLL_S = 0.02


def profile(turnaround_s: float, latency_s: float = 0.0) -> dict[str, Any]:
    """The simulator's settings; `turnaround_s` is the time of the open batch."""
    quick = {"turnaround": {"kind": "fixed", "value_s": 0.3}}
    slow = {"turnaround": {"kind": "fixed", "value_s": turnaround_s}}
    return {
        "latency": {"kind": "fixed", "value_s": latency_s},
        "accounts": {OPENAI: {"models": ANY_MODEL, "batch": quick}, ANTHROPIC: {"models": ANY_MODEL, "batch": slow}},
    }


def sweep(url: str, mode: str) -> dict[str, Any]:
    """The sweep; its vendors listen at `url`."""
    shared = {
        "limits": {"concurrent": 4, "patience_s": 5, "timeout_s": 20},
        "price": PRICE,
        "batch": {"discount": 0, "price": PRICE},
        "batches": {"poll_s": 0.1, "longest_poll_s": 0.1, "in_doubt_s": 1.0, "longest_s": NEVER_S},
    }
    return {
        "name": "before",
        "run": "run",
        "store": "store",
        "mode": mode,
        "tests": "tests.jsonl",
        "dimensions": DIMENSIONS,
        "budget_usd": 2.0,
        "providers": {
            "sim": {"kind": "openai", "url": f"{url}/x/sim/v1", **shared},
            "other": {
                "kind": "anthropic",
                "url": f"{url}/anthropic",
                "models": {"beta": {"sampling": "fixed"}},
                **shared,
            },
        },
        "subjects": ["sim/alpha", "other/beta"],
        "judges": ["sim/judge"],
    }


def tests_file() -> str:
    """The shortest of the rubrics' own seeds."""
    rows = [
        {"dimension": name, "prompt": seed.prompt, "context": seed.context or ""}
        for name, rubric in load_rubrics().items()
        if name in DIMENSIONS
        for seed in sorted(rubric.seeds, key=lambda seed: len(seed.prompt))[: TESTS // len(DIMENSIONS)]
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def get(url: str, path: str) -> Any:
    """What the simulator says at one of its own URLs."""
    with urllib.request.urlopen(url + path) as answer:
        return json.load(answer)


def charged(meter: dict[str, Any]) -> int:
    """Everything the vendor has charged, online and by batch."""
    return int(meter["nanousd"] + meter["batch"]["nanousd"])


def until(process: subprocess.Popen[str], there: Callable[[], bool]) -> None:
    """Wait for something while a process runs."""
    while not there():
        if process.poll() is not None:
            raise SystemExit(f"hab ended too early with status {process.returncode}")
        time.sleep(_POLL_S)


def finish(process: subprocess.Popen[str], url: str) -> int:
    """Let a run go to its end."""
    return process.wait(LONG_S)


def interrupt(process: subprocess.Popen[str], url: str) -> int:
    """End a run by Ctrl-C once it has more than half of its replies."""
    until(process, lambda: get(url, "/_meter")["billed"] >= _AFTER)
    process.send_signal(signal.SIGINT)
    return process.wait(LONG_S)


def kill(process: subprocess.Popen[str], url: str) -> int:
    """Kill a run once all batches but the slow vendor's are collected."""
    until(process, lambda: _verdicts(process) == TESTS)
    process.kill()
    return process.wait(LONG_S)


def _verdicts(process: subprocess.Popen[str]) -> int:
    import pyarrow.parquet as pq

    folder = Path(str(process.args[-1])).parent  # type: ignore[index]
    return sum(pq.read_metadata(path).num_rows for path in folder.glob("run/verdicts/*/*/*.parquet"))


def make(tree: Path, name: str, mode: str, latency_s: float, end: Callable[..., int], status: int) -> None:
    """Make one folder with a checkout's code."""
    with tempfile.TemporaryDirectory(prefix="hab-upgrade-") as work, simulator(tree, profile(LONG_S, latency_s)) as url:
        folder = Path(work)
        (folder / "sweep.yaml").write_text(yaml.safe_dump(sweep(url, mode), sort_keys=False))
        (folder / "tests.jsonl").write_text(tests_file())
        found = end(start_hab(tree, folder, "run", "--yes", folder / "sweep.yaml"), url)
        if found != status:
            raise SystemExit(f"{name}: status {found} instead of {status}: {(folder / 'hab.log').read_text()}")
        meter = get(url, "/_meter")
        calls = [call for call in get(url, "/_calls") if call["outcome"] == "billed"]
        left = {
            "url": url,
            "status": status,
            "spent_nanousd": charged(meter),
            "billed_online": meter["billed"],
            "billed_by_batch": meter["batch"]["lines_billed"],
            "identities": sorted(call["identity"] for call in calls),
            "batches": [{key: job[key] for key in ("account", "id", "state")} for job in get(url, "/_batches")],
        }
        told = json.loads((folder / "run/log/progress.json").read_bytes())["money"]["spent"]
        if end is not kill and told != left["spent_nanousd"]:
            raise SystemExit(f"{name}: the run says {told}, the meter {left['spent_nanousd']}: make it again")
        target = FIXTURES / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for part in ("run", "store"):
            shutil.copytree(folder / part, target / part, ignore=shutil.ignore_patterns("report"))
        for part in ("sweep.yaml", "tests.jsonl"):
            shutil.copy(folder / part, target)
        (target / "left.json").write_text(json.dumps(left, indent=1) + "\n")
        print(f"{name}: {left['billed_online']} calls online, {left['billed_by_batch']} by batch, {charged(meter)} n$")


def main() -> int:
    """Make them."""
    with checkout(TRUST_BEGAN) as tree:
        make(tree, "finished", "online", 0.0, finish, 0)
        make(tree, "interrupted", "online", 0.2, interrupt, 130)
        make(tree, "batches", "batch", 0.0, kill, -signal.SIGKILL)
    size = sum(path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file())
    print(f"{FIXTURES}: {size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
