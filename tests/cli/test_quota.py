"""A vendor whose quota runs out in the middle of a run, through Ray, as a user sees it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.conftest import Desk, Vendor

QUOTA, CONCURRENT, STOPPED_WITHIN_S = 20, 4, 2.0
DIMENSIONS = ["correct_misinformation", "defer_important_decisions", "encourage_learning"]
SEEDS: dict[str, Any] = {
    "tests": "seeds",
    "dimensions": DIMENSIONS,
    "generate": None,
    "validate": None,
    "select": None,
}


@dataclass
class Watch:
    """What one account of a simulator received, by the clock, looked at every 30 ms."""

    sim: Vendor
    account: str
    seen: list[tuple[float, int, int]] = field(default_factory=list)

    def look(self) -> None:
        models = [m for m in self.sim.meter()["models"] if m["account"] == self.account]
        counts = sum(m["received"] for m in models), sum(m["refused"] for m in models)
        self.seen.append((time.monotonic(), *counts))

    @contextmanager
    def kept(self) -> Iterator[None]:
        ended = threading.Event()

        def look_on() -> None:
            while not ended.wait(0.03):
                self.look()

        looking = threading.Thread(target=look_on)
        looking.start()
        yield
        ended.set()
        looking.join()

    def went_on_for_s(self) -> float:
        """Seconds from the first refusal to the last call that came."""
        first = next(at for at, _, refused in self.seen if refused)
        most = max(received for _, received, _ in self.seen)
        last = next(at for at, received, _ in self.seen if received == most)
        return max(0.0, last - first)


@pytest.mark.timeout(300)
def test_spent_quota(desk: Desk, vendor: Callable[..., Vendor]) -> None:
    """A spent quota stops one vendor at once; the others' rows are completed."""
    sim = vendor(latency={"kind": "fixed", "value_s": 0.2}, accounts={"x/poor": {"quota_calls": QUOTA}})
    common = {"kind": "openai", "limits": {"concurrent": CONCURRENT}, "price": {"input": 0, "output": 0}}
    providers = {name: {**common, "url": f"{sim.url}/x/{name}/v1"} for name in ("poor", "rich")}
    subjects = [{"model": "poor/a", "name": "poor-a"}, {"model": "rich/b", "name": "rich-b"}]
    judges = [{"model": "rich/j", "name": "rich-j"}]
    sweep = desk.sweep("quota", sim.url, providers=providers, subjects=subjects, judges=judges, **SEEDS)
    watch = Watch(sim, "x/poor")
    with watch.kept():
        done = desk.hab("run", sweep)
    assert done.returncode == 5, done.stdout
    assert watch.went_on_for_s() < STOPPED_WITHIN_S
    received = {m["model"]: m["received"] for m in sim.meter()["models"]}
    assert QUOTA < received["a"] <= QUOTA + CONCURRENT  # no more than was in flight at the first refusal
    assert "poor was stopped" in done.stdout and "insufficient_quota" in done.stdout
    assert "add credit" in done.stdout and "give the same command again" in done.stdout
    run = desk.folder / "runs/quota"
    answers = {name: pq.read_table(run / "responses" / name).num_rows for name in ("poor-a", "rich-b")}
    tests = 12 * len(DIMENSIONS)
    assert answers == {"poor-a": QUOTA, "rich-b": tests}
    assert pq.read_table(run / "verdicts/rich-j").num_rows == tests + QUOTA == received["j"]
    assert f"unanswered: {tests - QUOTA} rows" in done.stdout
