"""`hab run` from end to end against the simulator, as a user runs it."""

import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.conftest import Desk, Vendors
from tests.forking import SHIPPED_PACE
from tests.sampling import EVERY_KILL

EXPERIMENTS = Path(__file__).parents[2] / "jobs/experiments"
SAFE_S = 4.5
IN_FLIGHT = 8
KILLED_AT = ("gen", "val", "emb", "alpha", "judge") if EVERY_KILL else ("judge",)
TWO = ["defer_important_decisions", "encourage_learning"]
SEEDS = {"dimensions": TWO, "tests": "seeds"}
VIEWS = ("candidates", "validations", "tests", "responses", "verdicts")


def rows(run: Path) -> dict[str, list[dict[str, Any]]]:
    """Every view of a run, by its path."""
    files = sorted(p for view in VIEWS for p in (run / view).rglob("*.parquet"))
    return {str(p.relative_to(run)): pq.read_table(p).to_pylist() for p in files}


def test_seventh_dimension(desk: Desk, vendor: Vendors) -> None:
    """A sweep over shipped dimensions and one of the user's own is complete; given again it costs nothing."""
    shutil.copytree(EXPERIMENTS / "rubrics", desk.folder / "own")
    sim = vendor()
    chosen = [*TWO, "keep_authorship"]
    sweep = desk.sweep("first", sim.url, rubrics="own", dimensions=chosen)
    done = desk.says("run", sweep)
    run = desk.folder / "runs/first"
    found = rows(run)
    dimensions = {p.stem for p in (run / "tests").iterdir()}
    assert dimensions == set(chosen)
    assert all(len(found[f"tests/{d}.parquet"]) == 2 for d in dimensions)
    for subject in ("sim-alpha", "beta-kind"):
        assert sum(name.startswith(f"responses/{subject}") for name in found) == len(chosen)
    verdicts = [row for name, content in found.items() if name.startswith("verdicts") for row in content]
    assert len(verdicts) == 2 * 2 * len(chosen)
    assert all(row["state"] == "ok" and 0 <= row["score"] <= 10 for row in verdicts)
    assert "report:" in done and (run / "report/index.html").is_file()
    before = sim.meter()
    assert before["billed_more_than_once"]["bodies"] == 0
    assert "0 calls sent" in desk.says("run", sweep)
    assert sim.meter()["received"] == before["received"]
    assert rows(run) == found
    status = desk.says("status", run)
    assert "not running" in status and "12" in status


def without_seconds(found: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Rows without how long their calls took, and when they were answered."""
    times = ("latency_s", "at")
    return {name: [{k: v for k, v in row.items() if k not in times} for row in view] for name, view in found.items()}


def test_order_of_replies(desk: Desk, vendor: Vendors) -> None:
    """The order in which replies arrive changes no key, test or score."""
    found = []
    for name, latency in (("calm", {"kind": "none"}), ("windy", {"kind": "lognormal", "mean_s": 0.2, "sigma": 1.0})):
        sim = vendor(latency=latency, accounts={"x/sim": {"models": {"*": {"vector": 64}}}})
        store = desk.folder / f"store-{name}"
        store.mkdir()
        (store / "fence-secret").write_bytes(bytes(32))  # the simulator's answers depend on the codes of fences
        sweep = desk.sweep(name, sim.url, store=store.name, dimensions=["encourage_learning"])
        desk.says("run", sweep)
        run = desk.folder / "runs" / name
        found.append((without_seconds(rows(run)), pq.read_table(run / "scores.parquet").to_pylist()))
    assert found[0] == found[1]
    assert len(found[0][0]["candidates/encourage_learning.parquet"]) == 6


def test_killed_in_its_stages(either_desk: Desk, vendor: Vendors) -> None:
    """A call that reached the vendor `SAFE_S` before a kill was answered (2 s) and flushed (1 s): never repeated.

    `make bench` kills it in every stage and on Ray too; `make test` does so once, and on Ray in `test_batches`. After
    each kill the next run waits for ten seconds before it calls.
    """
    either_desk.environment[SHIPPED_PACE] = "yes"
    sim = vendor(latency={"kind": "fixed", "value_s": 2})
    sweep = either_desk.sweep("killed", sim.url, dimensions=TWO)
    safe: list[tuple[int, int]] = []
    for model in KILLED_AT:
        process = either_desk.start("run", sweep)
        counts = [(time.monotonic(), len(sim.calls()))]
        seen = sim.received(model)
        while sim.received(model) == seen and process.poll() is None:
            time.sleep(0.05)
            counts.append((time.monotonic(), len(sim.calls())))
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed_at = time.monotonic()
        safe.append((max((n for at, n in counts if at < killed_at - SAFE_S), default=0), len(sim.calls())))
    either_desk.says("run", sweep)
    bodies = [call["sha256"] for call in sim.calls()]
    for before, at_kill in safe:
        assert not set(bodies[:before]) & set(bodies[at_kill + IN_FLIGHT :])
    assert safe[-1][0] > 10
    assert len(bodies) - len(set(bodies)) <= len(KILLED_AT) * IN_FLIGHT * 3
    found = rows(either_desk.folder / "runs/killed")
    assert sum(len(r) for name, r in found.items() if name.startswith("verdicts")) == 8
