"""What a store and a run in a bucket cost: requests and dollars for 1,000 calls, CPU and time against local disk.

    python -m benchmarks.s3_requests batch              the paper's size by batch, on local disk and on S3
    python -m benchmarks.s3_requests online             4,000 calls at 200/s, on S3
    python -m benchmarks.s3_requests outage             the same, S3 dead for 60 s and then slow for 10 % of requests

The S3 server is SeaweedFS on this machine, behind a proxy that counts. What the lease's renewals and the progress file
cost grows with time and not with calls: it is printed by the minute, apart. Prices are AWS's list prices for S3
Standard in us-east. CPU is that of `hab` and all it starts, without the S3 server, the proxy and the simulator.
"""

import argparse
import os
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.batch_sweep import TURNAROUND_S, sweep_file
from benchmarks.campaigns import watched
from benchmarks.flow import profile, write_sweep
from hab_simulator import SimulatorProcess
from tests.s3_proxy import S3Proxy, Seen, s3_proxy
from tests.seaweed import SeaweedFS, seaweed

BUCKET = "hab-benchmark"
LIST_PRICE = {"PUT": 5e-6, "COPY": 5e-6, "LIST": 5e-6, "GET": 4e-7, "HEAD": 4e-7, "DELETE": 0.0}
MAX_PER_1000 = 60.0
MAX_CPU, MAX_WALL, RERUN_S = 1.3, 1.5, 10.0
DEAD_S, SLOW = 60.0, 0.1
LOOK_S = 0.5


def is_fixed(seen: Seen) -> bool:
    """Whether a request belongs to the time that a run takes, and not to its calls."""
    return "/lease" in seen.name or seen.name.endswith("log/progress.json")


def show(seen: list[Seen], calls: int, minutes: float) -> None:
    """Print the requests of a run."""
    by_calls = Counter(one.kind for one in seen if not is_fixed(one))
    fixed = Counter(one.kind for one in seen if is_fixed(one))
    paid = {kind: count for kind, count in by_calls.items() if LIST_PRICE.get(kind, 0)}
    for kind, count in sorted(by_calls.items()):
        dollars = LIST_PRICE.get(kind, 0.0) * count
        print(f"  {kind:<8}{count:8}{1000 * count / calls:10.2f} for 1,000 calls   ${1000 * dollars / calls:.6f}")
    total = 1000 * sum(paid.values()) / calls
    dollars = 1000 * sum(LIST_PRICE[kind] * count for kind, count in paid.items()) / calls
    met = "met" if total <= MAX_PER_1000 else "MISSED"
    print(f"  {'in all, but DELETE, which is free':<40}{total:6.1f} for 1,000 calls, ${dollars:.6f}; bar 60: {met}")
    each = ", ".join(f"{count / minutes:.1f} {kind}" for kind, count in sorted(fixed.items()))
    print(f"  fixed, by the minute: {each}")
    where = Counter((one.kind, "/".join(one.name.split("/")[-4:-1])) for one in seen if not is_fixed(one))
    for (kind, folder), count in where.most_common(12):
        print(f"    {count:6} {kind:<5} {folder}")


def fewer(sweep: Path, tests: int) -> Path:
    """A sweep with its first tests of each dimension alone, so many in all."""
    file = sweep.with_name("tests.parquet")
    rows = pq.read_table(file).to_pylist()
    dimensions = sorted({row["dimension"] for row in rows})
    each = tests // len(dimensions)
    kept = [row for name in dimensions for row in [row for row in rows if row["dimension"] == name][:each]]
    pq.write_table(pa.Table.from_pylist(kept), file)
    return sweep


def batch(server: SeaweedFS, proxy: S3Proxy, folder: Path, tests: int) -> None:
    """The paper's size by batch on local disk, on S3, and again on S3."""
    calls = tests * 20 * 2
    sweep = str(fewer(sweep_file(folder, 1), tests))
    command = ["rehearse", sweep, "--turnaround", str(TURNAROUND_S), "--run"]
    environment = dict(os.environ) | server.environment(proxy.endpoint) | {"HAB_CACHE": str(folder / "cache")}
    disk = watched([*command, str(folder / "run")], environment)
    print(f"local disk: status {disk.status}, CPU {disk.cpu_s:.0f} s, {disk.wall_s:.0f} s")
    s3 = watched([*command, f"s3://{BUCKET}/run"], environment)
    print(f"S3: status {s3.status}, CPU {s3.cpu_s:.0f} s, {s3.wall_s:.0f} s")
    print("\n".join(s3.printed.splitlines()[-4:]))
    for what, ratio, bar in (
        ("CPU", s3.cpu_s / disk.cpu_s, MAX_CPU),
        ("wall", s3.wall_s / disk.wall_s, MAX_WALL),
    ):
        print(f"{what}: {ratio:.2f} times local disk's; bar {bar}: {'met' if ratio <= bar else 'MISSED'}")
    show(proxy.seen, calls, s3.wall_s / 60)


def online_sweep(
    proxy: S3Proxy, server: SeaweedFS, folder: Path, tests: int, url: str
) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment of an online sweep whose run and store are on S3."""
    sweep = write_sweep(folder, url, tests, "local")
    text = sweep.read_text().replace("tests: tests.jsonl", f"tests: {folder / 'tests.jsonl'}")
    sweep.write_text(text)
    environment = dict(os.environ) | server.environment(proxy.endpoint) | {"HAB_CACHE": str(folder / "cache")}
    places = ["--run", f"s3://{BUCKET}/flow/run", "--store", f"s3://{BUCKET}/flow/store"]
    return ["run", str(sweep), "--yes", *places], environment


def online(server: SeaweedFS, proxy: S3Proxy, folder: Path, tests: int) -> None:
    """Two calls a test, at 200/s for each model, then the same command again."""
    with SimulatorProcess.start(profile()) as vendor:
        arguments, environment = online_sweep(proxy, server, folder, tests, vendor.url)
        first = watched(arguments, environment)
        print(f"status {first.status}, CPU {first.cpu_s:.0f} s, {first.wall_s:.0f} s for {2 * tests:,} calls")
        show(proxy.seen, 2 * tests, first.wall_s / 60)
        proxy.seen.clear()
        again = watched(arguments, environment)
        parts = sum(one.kind == "GET" and "/part-" in one.name for one in proxy.seen)
        met = "met" if again.wall_s < RERUN_S and not parts else "MISSED"
        print(f"again: {again.wall_s:.1f} s, {dict(proxy.counts())}, {parts} GETs of a part; bar {RERUN_S:g} s: {met}")


def outage(server: SeaweedFS, proxy: S3Proxy, folder: Path, tests: int) -> None:
    """S3 dies in the middle for `DEAD_S`, then asks a share of requests to slow down."""
    with SimulatorProcess.start(profile()) as vendor:
        arguments, environment = online_sweep(proxy, server, folder, tests, vendor.url)

        def trouble() -> None:
            while not any("/replies/" in one.name for one in list(proxy.seen)):
                time.sleep(LOOK_S)
            proxy.trouble.dead = True
            time.sleep(DEAD_S)
            proxy.trouble.slow, proxy.trouble.dead = SLOW, False

        threading.Thread(target=trouble, daemon=True).start()
        ended = watched(arguments, environment)
        said = [line for line in ended.printed.splitlines() if "waits" in line or "answers again" in line]
        print(f"status {ended.status}, {ended.wall_s:.0f} s; the log said:")
        print("\n".join(f"  {line}" for line in said[:6]))
        proxy.trouble.slow = 0.0
        again = watched(arguments, environment)
        lost = [line for line in again.printed.splitlines() if "calls sent" in line]
        print(f"again: status {again.status}, {' '.join(lost)} (0 if nothing was lost)")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    scenes = {"batch": batch, "online": online, "outage": outage}
    parser.add_argument("scene", choices=scenes)
    parser.add_argument("--tests", type=int, help="Tests; 3,000 by batch and 2,000 online, unless given.")
    asked = parser.parse_args()
    tests = asked.tests or (3000 if asked.scene == "batch" else 2000)
    with tempfile.TemporaryDirectory(prefix="hab-s3-") as name, seaweed(Path(name) / "seaweed") as server:
        server.new_bucket(BUCKET)
        with s3_proxy(server.ports[-1]) as proxy:
            scenes[asked.scene](server, proxy, Path(name), tests)


if __name__ == "__main__":
    main()
