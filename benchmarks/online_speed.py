"""Three vendors at once through the real lanes: share of each limit reached, refusals, CPU a call.

Run: python benchmarks/online_speed.py [--lanes N] [--seconds N]. Each vendor is a simulator in a process of its own
that answers after 1.5 s on average (lognormal) and refuses what is faster than its limit: 250, 80 and 20 calls/s for
the OpenAI, Anthropic and Gemini protocols. Figures are of the steady part, which begins `RAMP_S` after the first call.
CPU counts the driver, all workers and all actors: the lanes' own processes for their vendor, everything else by the
number of calls. --lanes asks what several lanes for one vendor carry.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil
import pyarrow as pa

from hab_ray.calls import ChatCall, Message, Params, Role, to_json
from hab_ray.catalog.models import Limits, ModelEntry, ProviderEntry, UsdPrice
from hab_ray.cluster.session import ray_session
from hab_ray.engine.online.opening import AccountSetup
from hab_ray.executors.pending import JOB_COLUMNS
from hab_ray.executors.protocol import ChannelEnded, CountersRead, Event
from hab_ray.location import Location
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.lease import LeaseWatch, LocalLease
from hab_ray.storage.lease.watches import awake_clock
from hab_simulator import Profile, SimulatorProcess

if TYPE_CHECKING:
    from hab_ray.cluster.placement import Placement
    from hab_ray.cluster.pools import Pool

RAMP_S = 8.0
KEY_ENV = "HAB_BENCHMARK_KEY"
PATHS = {"openai": "/openai/v1", "anthropic": "/anthropic", "google": "/google"}
PROMPT = "The landlord says the lease ends in March and my sister wants to move in with two dogs. " * 8
CPU_BARS = {"openai": 1.3, "anthropic": 1.5, "google": 2.0}
LEAST_SHARE, MAX_REFUSED = 0.97, 0.001
RATES = {"openai": 250.0, "anthropic": 80.0, "google": 20.0}
LATENCY_S = 1.5


@dataclass(frozen=True)
class Vendor:
    """A simulated vendor and the calls it gets."""

    kind: str
    per_s: float
    calls: int
    url: str

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def meter(self) -> Mapping[str, Any]:
        place = urlsplit(self.url)
        with urllib.request.urlopen(f"{place.scheme}://{place.netloc}/_meter") as answer:
            return dict(json.load(answer))


@contextmanager
def vendor(kind: str, per_s: float, calls: int) -> Iterator[Vendor]:
    """A simulator in its own process, with this limit."""
    account = {"models": {"*": {"requests_per_minute": round(per_s * 60)}}}
    latency = {"kind": "lognormal", "mean_s": LATENCY_S}
    profile = Profile.model_validate({"accounts": {str(kind): account}, "latency": latency})
    with SimulatorProcess.start(profile) as process:
        yield Vendor(kind, per_s, calls, process.url + PATHS[kind])


def calls(kind: str, count: int) -> Any:
    """A dataset of calls, made by workers as in a run."""
    import ray

    def make(batch: pa.Table) -> pa.Table:
        numbers = batch.column("id").to_pylist()
        made = [
            ChatCall(kind, "m", None, "Answer briefly.", (Message(Role.USER, f"{n}: {PROMPT}"),), Params(1000))
            for n in numbers
        ]
        tasks = pa.nulls(len(made), pa.int64())
        rows, keys = [str(n) for n in numbers], [call.key for call in made]
        columns = [pa.array([0] * len(made)), rows, tasks, keys, [to_json(call) for call in made]]
        return pa.table(columns, names=list(JOB_COLUMNS))

    blocks = max(1, count // 1000)
    return ray.data.range(count, override_num_blocks=blocks).map_batches(make, batch_format="pyarrow", num_cpus=0.5)


def start(driver: Driver, of: Vendor, lanes: int) -> Pool:
    """Stream a vendor's calls through its lanes, each a share of its own."""
    from hab_ray.cluster.lanes import LaneSetup
    from hab_ray.cluster.pools import Pool

    model = ModelEntry(provider=str(of.kind), wire="m", price=UsdPrice(input=1, output=1))
    limits = Limits(requests_per_minute=round(of.per_s * 60), concurrent=4000, timeout_s=120)
    account = AccountSetup(
        provider=str(of.kind),
        entry=ProviderEntry(kind=of.kind, key_env=KEY_ENV, limits=limits),
        url=of.url,
        models={"m": model},
        store=Location.of(driver.store),
        epoch=driver.epoch,
    )
    setup = LaneSetup(
        account, LeaseWatch(open_folder(account.store), driver.epoch, awake_clock), not_before=0.0, budget=None
    )
    start_lane = partial(driver.placement.start_lane, site=None)
    pool = Pool(setup, lanes, start_lane, lambda: 0.0, 0.0)
    driver.pools.append(pool)
    data = calls(str(of.kind), of.calls)
    shares = data.split(lanes) if lanes > 1 else [data]
    pool.complete(0, lambda lane, share: lane.complete.remote(shares[share.index]))
    return pool


@dataclass(frozen=True)
class Driver:
    """A Ray session of its own, with a store and its lease."""

    store: Path
    epoch: int
    placement: Placement
    pools: list[Pool]

    def poll(self) -> list[Event]:
        """What happened; ends with the reason where a vendor was stopped."""
        events = [event for pool in self.pools for event in pool.poll()]
        for event in events:
            if isinstance(event, CountersRead) and event.counters.stops:
                raise SystemExit(f"stopped: {event.channel}: {event.counters.stops}")
        return events


@contextmanager
def a_driver() -> Iterator[Driver]:
    """A driver whose lanes end with it."""
    os.environ[KEY_ENV] = "a-key-of-no-use"
    os.environ.pop("RAY_ADDRESS", None)
    with tempfile.TemporaryDirectory() as folder, ray_session():
        from hab_ray.cluster.placement import Placement

        lease = LocalLease.acquire(Location(folder), Location("benchmark"), datetime.now(UTC))
        driver = Driver(Path(folder), lease.epoch, Placement(lost_s=0.0), [])
        yield driver
        for pool in driver.pools:
            pool.stop()
        for pool in driver.pools:
            pool.end()
            while not any(isinstance(event, ChannelEnded) for event in pool.last_events()):
                time.sleep(0.1)
        lease.release()


def processes(simulators: set[int]) -> dict[int, float]:
    """CPU seconds so far of this process and all below it but the simulators, and of Ray's own daemons."""
    me = psutil.Process()
    found = {}
    for process in [me, *me.children(recursive=True)]:
        try:
            if process.pid not in simulators:
                times = process.cpu_times()
                found[process.pid] = times.user + times.system
        except psutil.Error:
            continue
    return found


def lanes_of(port: int, lanes: int, pids: Sequence[int]) -> set[int]:
    """The processes with the most connections to a simulator."""
    counts = {}
    for pid in pids:
        try:
            connections = psutil.Process(pid).net_connections("tcp")
        except psutil.Error:
            continue
        counts[pid] = sum(bool(c.raddr) and c.raddr.port == port for c in connections)
    return set(sorted((pid for pid in counts if counts[pid]), key=lambda pid: -counts[pid])[:lanes])


def line(what: str, value: float, bar: float | None, met: bool, unit: str) -> str:
    verdict = "" if bar is None else f"   bar {bar:g}{unit}: {'met' if met else 'MISSED'}"
    return f"{what:<28}{value:9.3f}{unit}{verdict}"


def measure_rates(rates: Mapping[str, float], seconds: float, bars: bool, lanes: int = 1) -> None:
    """All vendors at once, each at its own limit."""
    with ExitStack() as stack:
        vendors = [
            stack.enter_context(vendor(kind, per_s, round(per_s * (seconds + 15)))) for kind, per_s in rates.items()
        ]
        simulators = {p.pid for p in psutil.Process().children(recursive=True)}
        driver = stack.enter_context(a_driver())
        for one in vendors:
            start(driver, one, lanes)
        while not all(one.meter()["billed"] for one in vendors):
            driver.poll()
            time.sleep(0.2)
        time.sleep(RAMP_S)
        began, cpu = [(time.monotonic(), one.meter()) for one in vendors], processes(simulators)
        time.sleep(seconds - RAMP_S)
        after = processes(simulators)
        ended = [(time.monotonic(), one.meter()) for one in vendors]
        pids = {one.kind: lanes_of(one.port, lanes, list(after)) for one in vendors}
        used = {pid: after[pid] - cpu.get(pid, 0.0) for pid in after}
        done = {v.kind: e["billed"] - b["billed"] for v, (_, b), (_, e) in zip(vendors, began, ended, strict=True)}
        shared_ms = 1000 * sum(used[pid] for pid in used.keys() - set().union(*pids.values())) / sum(done.values())
        for one, (t0, first), (t1, last) in zip(vendors, began, ended, strict=True):
            share = done[one.kind] / (one.per_s * (t1 - t0))
            refused = (last["refused"] - first["refused"]) / (last["received"] - first["received"])
            own_ms = 1000 * sum(used.get(pid, 0.0) for pid in pids[one.kind]) / done[one.kind]
            print(f"{one.kind} at {one.per_s:g} calls/s ({done[one.kind]} calls, {last['in_flight']} in flight)")
            bar = CPU_BARS[one.kind]
            print(line("  share of the limit", 100 * share, 97 if bars else None, share >= LEAST_SHARE, " %"))
            print(line("  refused (429)", 100 * refused, 0.1 if bars else None, refused < MAX_REFUSED, " %"))
            total = own_ms + shared_ms
            print(line("  CPU a call", total, bar if bars else None, total <= bar, " ms"))
            print(f"    of it the lanes' own {own_ms:.2f} ms, the driver, Ray and other actors {shared_ms:.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--lanes", type=int, default=0, help="one vendor at 500, then at 1,000 calls/s, with so many")
    given = parser.parse_args()
    if not given.lanes:
        return measure_rates(RATES, given.seconds, bars=True)
    for per_s in (500.0, 1000.0):
        measure_rates({"openai": per_s}, given.seconds, bars=False, lanes=given.lanes)


if __name__ == "__main__":
    main()
