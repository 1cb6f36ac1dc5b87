"""A whole sweep by batch against the simulator: time, CPU and memory of our processes, money, and the truth recovered.

    python benchmarks/batch_sweep.py                 3,000 tests, 20 subjects, one judge: 120,000 calls, batches of 60 s
    python benchmarks/batch_sweep.py --times 10      ten times the tests
    python benchmarks/batch_sweep.py --nightmare     with jobs/nightmare.yaml; the scores must be the same

CPU is user and system time of the driver and all it starts but the simulator. Memory is the largest PSS without shared
memory of one process. The span runs from the first intent in the ledger to the last harvest.
"""

import argparse
import json
import tempfile
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.campaigns import ROOT, watched

TURNAROUND_S = 60


def sweep_file(folder: Path, times: int) -> Path:
    """The shipped sweep with its tests as often as wanted, each time under another wording."""
    settings = yaml.safe_load((ROOT / "jobs/rehearsal.yaml").read_text())
    rows = pq.read_table(ROOT / "jobs/rehearsal-tests.parquet").to_pylist()
    many = [
        {**row, "id": f"{row['id']}-{n}", "prompt": f"{row['prompt']}\n(Wording {n}.)"}
        for n in range(times)
        for row in rows
    ]
    tests = folder / "tests.parquet"
    pq.write_table(pa.Table.from_pylist(many), tests)
    path = folder / "rehearsal.yaml"
    path.write_text(yaml.safe_dump(settings | {"tests": str(tests)}))
    return path


def span_s(ledger: Path) -> float:
    """Seconds from the first event of a ledger to the last."""
    moments = [datetime.fromisoformat(json.loads(path.read_text())["at"]) for path in ledger.rglob("*.json")]
    return (max(moments) - min(moments)).total_seconds()


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--nightmare", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = folder / "run"
        command = [
            "rehearse",
            str(sweep_file(folder, asked.times)),
            "--turnaround",
            str(TURNAROUND_S),
            "--run",
            str(run),
        ]
        ended = watched([*command, *(["--faults", "jobs/nightmare.yaml"] if asked.nightmare else [])])
        cpu = ended.cpu_s
        calls = asked.times * 3000 * 20 * 2
        print("\n".join(line for line in ended.printed.splitlines() if " s  " not in line))
        print(f"{calls:,} calls, {ended.wall_s:.0f} s in all")
        span = span_s(run / "store/ledger")
        print(f"first intent to last harvest: {span:.1f} s of two turnarounds of {TURNAROUND_S} s")
        print(f"CPU of driver and what it starts: {cpu:.0f} s, {1000 * cpu / calls:.2f} ms a call")
        driver = json.loads((run / "log/progress.json").read_text())["driver_cpu_s"]
        print(f"CPU of the driver outside executors: {driver:.1f} s, {1000 * driver / calls:.4f} ms a call")
        print(f"largest memory of a process: {ended.most_mib:.0f} MiB PSS without shared memory")


if __name__ == "__main__":
    main()
