"""CPU per call of the online engine alone, on a plain event loop and on one that bunches network events.

Run: python benchmarks/engine_cpu.py [--per-s 250] [--kind openai] [--seconds 15] [--pairs 5]. The vendor is a
simulator in a process of its own that answers after 1.5 s on average and refuses what is faster than its limit.
Measured is this process, without Ray, in the steady part that begins `RAMP_S` after the first call. The two loops
take turns; printed are each pair, the medians and the median ratio, with the share of the limit and the refusals.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from hab_ray.calls import ChatCall, Message, Params, Role
from hab_ray.catalog import Limits, ModelEntry, UsdPrice
from hab_ray.engine.budget.budget import unlimited
from hab_ray.engine.jobs import Job
from hab_ray.engine.limits.limiter import Limiter
from hab_ray.engine.limits.shared import LocalLimiterClient
from hab_ray.engine.online.context import OnlineContext
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.engine.online.thread import BUNCH_S, EngineThread
from hab_ray.prices import Mode
from hab_ray.providers import connect
from hab_ray.providers.base import Endpoint
from hab_ray.simulator import Profile, SimulatorProcess
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.known import KnownKeys
from hab_ray.storage.store import StoreWriter

RAMP_S = 6.0
PATHS = {"openai": "/openai/v1", "anthropic": "/anthropic", "google": "/google"}
PROMPT = "The landlord says the lease ends in March and my sister wants to move in with two dogs. " * 8


@dataclass(frozen=True)
class Load:
    """How the vendor is called."""

    kind: str
    per_s: float
    seconds: float

    def jobs(self) -> Iterator[Job]:
        """More calls than the measurement takes."""
        for number in range(round(self.per_s * (self.seconds + RAMP_S + 15))):
            question = Message(Role.USER, f"{number}: {PROMPT}")
            yield Job(0, str(number), ChatCall(self.kind, "m", None, "Answer briefly.", (question,), Params(1000)))

    @asynccontextmanager
    async def engine(self, url: str, store: Path) -> AsyncIterator[OnlineEngine]:
        """An engine with a store of its own."""
        limits = Limits(requests_per_minute=round(self.per_s * 60), concurrent=4000, timeout_s=120)
        context = OnlineContext(
            clock=time.monotonic,
            patience_s=600.0,
            utc_now=lambda: datetime.now(UTC),
            check_lease=lambda: None,
            check_write=None,
            limiter=LocalLimiterClient(Limiter({"m": limits}, limits.patience_s), time.monotonic),
            budget=unlimited(),
            free_disk_space=lambda: None,
        )
        model = ModelEntry(provider=str(self.kind), wire="m", price=UsdPrice(input=1, output=1))
        provider = connect(Endpoint(str(self.kind), self.kind, url + PATHS[self.kind], "no-key-needed", 120))
        writer = StoreWriter(LocalFolder(store), 1, "benchmark", Mode.ONLINE)
        async with OnlineEngine(provider, {"m": model}, writer, KnownKeys(), context) as engine:
            yield engine
        await provider.close()


@dataclass(frozen=True)
class Measured:
    """CPU milliseconds per call, share of the limit reached, and calls refused."""

    cpu_ms: float
    share: float
    refused: int


async def stream(jobs: Iterable[Job]) -> AsyncIterator[Job]:
    for job in jobs:
        yield job


def measure(load: Load, bunch_s: float) -> Measured:
    """The steady part of one run."""
    account = {"models": {"*": {"requests_per_minute": round(load.per_s * 60)}}}
    latency = {"kind": "lognormal", "mean_s": 1.5}
    profile = Profile.model_validate({"accounts": {str(load.kind): account}, "latency": latency})
    with SimulatorProcess.start(profile) as vendor, tempfile.TemporaryDirectory() as folder:
        thread = EngineThread("engine", lambda: load.engine(vendor.url, Path(folder)), bunch_s)
        thread.start().result()
        thread.complete(stream(load.jobs()))
        time.sleep(RAMP_S)
        first, cpu, began = meter(vendor.url), time.process_time(), time.monotonic()
        time.sleep(load.seconds)
        last, used, took = meter(vendor.url), time.process_time() - cpu, time.monotonic() - began
        thread.stop(0.0)
        thread.close().result()
    calls = last["billed"] - first["billed"]
    return Measured(1000 * used / calls, calls / (load.per_s * took), last["refused"] - first["refused"])


def meter(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/_meter") as answer:
        return dict(json.load(answer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="openai", choices=list(PATHS))
    parser.add_argument("--per-s", type=float, default=250.0)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    load = Load(given.kind, given.per_s, given.seconds)
    pairs: list[tuple[Measured, Measured]] = []
    for number in range(given.pairs):
        order = (0.0, BUNCH_S) if number % 2 else (BUNCH_S, 0.0)
        found = {waited: measure(load, waited) for waited in order}
        pairs.append((found[0.0], found[BUNCH_S]))
        for name, one in zip(("plain", "bunched"), pairs[-1], strict=True):
            print(f"{name:<8} {one.cpu_ms:6.3f} ms a call, {one.share:6.1%} of the limit, {one.refused} refused")
    plain, bunched = (median(pair[side].cpu_ms for pair in pairs) for side in (0, 1))
    ratio = median(after.cpu_ms / before.cpu_ms for before, after in pairs)
    print(f"medians: plain {plain:.3f} ms, bunched {bunched:.3f} ms, ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
