"""What it costs a run on S3 that a hundred people look at it: calls a second with and without them, requests a look.

    python -m benchmarks.pollers                          100 pollers, each every 5 s, three pairs of runs
    python -m benchmarks.pollers --pairs 1 --pollers 10

The pollers are threads of one process that read what `hab status` shows, through a proxy that counts their requests.
The run's calls are read at the simulator, which allows 200 a second. The S3 server is SeaweedFS on this machine; all
share its cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.campaigns import get
from benchmarks.flow import PER_S, write_sweep
from benchmarks.s3_requests import BUCKET, ROOT, simulator
from hab_ray.cli.status import read_status
from hab_ray.errors import ConfigError
from hab_ray.location import Location
from tests.s3_proxy import S3Proxy, s3_proxy
from tests.seaweed import SeaweedFS, seaweed

EVERY_S, LOOK_S = 5.0, 0.1
MOST_REQUESTS, LEAST_SHARE = 3.0, 0.95


@dataclass(frozen=True)
class Looks:
    """What the pollers of one run saw: how often they looked, the longest look in seconds, requests in all.

    `early` looks came before the driver's first report, when a status is counted from the run's files.
    """

    early: int
    count: int
    longest_s: float
    requests: int


def poll(run: Location, pollers: int) -> None:
    """Look at a run from so many threads until standard input ends, then print how often and the longest look."""
    early: list[tuple[float, float]] = []
    taken: list[tuple[float, float]] = []
    over = threading.Event()

    def look(number: int) -> None:
        over.wait(EVERY_S * number / pollers)
        while not over.is_set():
            began = time.monotonic()
            with suppress(ConfigError):  # there is no run yet
                is_counted = read_status(run).is_counted
                (early if is_counted else taken).append((began, time.monotonic() - began))
            over.wait(max(0.0, EVERY_S - (time.monotonic() - began)))

    threads = [threading.Thread(target=look, args=(number,)) for number in range(pollers)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()
    last = max((began + seconds for began, seconds in early), default=0.0)
    usual = [(began, seconds) for began, seconds in taken if began > last]
    first, longest_s = min(began for began, _ in usual), max(seconds for _, seconds in usual)
    print(json.dumps({"early": len(early), "count": len(usual), "longest_s": longest_s, "first": first}))


@contextmanager
def polled(run: str, server: SeaweedFS, proxy: S3Proxy, pollers: int) -> Iterator[list[Looks]]:
    """While so many pollers look at a run; the list holds what they saw once they have ended."""
    command = [sys.executable, "-m", "benchmarks.pollers", "--poll", run, "--pollers", str(pollers)]
    environment = dict(os.environ) | server.environment(proxy.endpoint)
    seen: list[Looks] = []
    proxy.seen.clear()
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield seen
        printed, _ = process.communicate("")
    told = json.loads(printed)
    requests = sum(one.at >= told["first"] for one in proxy.seen)
    seen.append(Looks(told["early"], told["count"], told["longest_s"], requests))


def rate(server: SeaweedFS, folder: Path, name: str, tests: int, proxy: S3Proxy, pollers: int) -> float:
    """Calls a second of a run between its first tenth and its last, while it is looked at."""
    folder.mkdir()
    place = f"s3://{BUCKET}/{name}"
    looking: AbstractContextManager[list[Looks]] = (
        polled(f"{place}/run", server, proxy, pollers) if pollers else nullcontext([])
    )
    with simulator() as vendor, looking as looks:
        sweep = write_sweep(folder, vendor.url, tests, "local")
        environment = dict(os.environ) | server.environment() | {"HAB_CACHE": str(folder / "cache")}
        command = [sys.executable, "-m", "hab_ray.cli", "run", "--yes", str(sweep)]
        command += ["--run", f"{place}/run", "--store", f"{place}/store"]
        with (folder / "hab.log").open("w") as log:
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
            calls = watch(process, vendor.url)
    if process.returncode != 0:
        raise SystemExit(f"status {process.returncode}: {(folder / 'hab.log').read_text()[-2000:]}")
    for seen in looks:
        show(seen, pollers)
    tenth = len(calls) // 10
    return (len(calls) - 2 * tenth) / (calls[-tenth - 1] - calls[tenth])


def watch(process: subprocess.Popen[bytes], url: str) -> list[float]:
    """When calls arrive until a run ends, to the tenth of a second."""
    seen: list[float] = []
    while process.poll() is None:
        time.sleep(LOOK_S)
        while page := get(url, f"/_calls?after={len(seen)}"):
            seen += [time.monotonic()] * len(page)
    return seen


def show(looks: Looks, pollers: int) -> None:
    """Print what the pollers saw."""
    each = looks.requests / max(1, looks.count)
    met = "met" if each <= MOST_REQUESTS else "MISSED"
    print(
        f"  {pollers} pollers looked {looks.count:,} times, at most {looks.longest_s:.2f} s long, {each:.2f} requests "
        f"each (bar {MOST_REQUESTS:g}): {met}; {looks.early} looks before the driver's first report",
        flush=True,
    )


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pollers", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--tests", type=int, default=4000, help="Tests; each is two calls.")
    parser.add_argument("--poll", type=Location.of, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.poll is not None:
        poll(asked.poll, asked.pollers)
        return 0
    with tempfile.TemporaryDirectory(prefix="hab-pollers-") as name, seaweed(Path(name) / "seaweed") as server:
        server.new_bucket(BUCKET)
        shares = []
        with s3_proxy(server.ports[-1]) as proxy:
            for pair in range(asked.pairs):
                alone, looked = (
                    rate(server, Path(name) / f"{pair}-{n}", f"{pair}-{n}", asked.tests, proxy, n)
                    for n in (0, asked.pollers)
                )
                shares.append(looked / alone)
                print(
                    f"{alone:.1f} calls/s alone, {looked:.1f} looked at, of {PER_S:g} a model: {shares[-1]:.3f}",
                    flush=True,
                )
    share = statistics.median(shares)
    print(f"median {share:.3f} (bar {LEAST_SHARE:g}): {'met' if share >= LEAST_SHARE else 'MISSED'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
