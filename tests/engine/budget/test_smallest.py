"""The plan's smallest sufficient budget for a sweep, against the batch engine and the simulator."""

import asyncio
from pathlib import Path

from hab_ray.calls import Call
from hab_ray.catalog.base import UsdPrice
from hab_ray.catalog.models import BatchPolicy, ModelEntry
from hab_ray.catalog.prices import Mode, rate
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.engine import BatchEngine
from hab_ray.engine.batch.packing import RowPacker
from hab_ray.engine.budget.budget import LocalBudget, unlimited
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.engine.jobs import OpenKind
from hab_ray.engine.ledger import Ledger
from hab_ray.fences import FenceCodes
from hab_ray.planning.rounds import BatchedCalls, StageCosts, rounds_of, smallest_budget
from hab_ray.providers import connect, connect_batch
from hab_ray.providers.base import Endpoint
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.replies.store import StoreWriter
from hab_simulator import Profile, simulator
from tests.engine.batch.fakes import context_of
from tests.engine.bench import budget_of, chat, jobs

ENTRY = ModelEntry(provider="sim", wire="m", price=UsdPrice(input=1.0, output=2.0))
CALLS: list[Call] = [chat("m", f"question {n} " + "and so on " * (3 * n)) for n in range(7)]
POLICY = BatchPolicy(poll_s=0.01, longest_poll_s=0.01, still_s=0.0)


async def run(folder: Path, budget: BudgetService) -> tuple[BatchCounters, int]:
    """Complete all calls by batch; return the final counters and the largest reservation."""
    settings = {"batch": {"turnaround": {"kind": "fixed", "value_s": 0.05}}, "seed": 3}
    async with simulator(Profile.model_validate(settings)) as url:
        endpoint = Endpoint("sim", "openai", f"{url}/openai/v1", "a-key", 10.0)
        provider, api, place = connect(endpoint), connect_batch(endpoint), LocalFolder(folder)
        packer = RowPacker(provider, api, ENTRY, rate(ENTRY, Mode.BATCH), FenceCodes(b"x" * 32))
        largest = max(packer.row(job).nanousd for job in jobs(CALLS))
        engine = BatchEngine(
            provider,
            api,
            {"m": ENTRY},
            Ledger(place, "sim"),
            StoreWriter(place, 2, "w", Mode.BATCH),
            POLICY,
            context_of(budget=budget),
        )
        async with asyncio.timeout(30), engine:
            await engine.complete("m", iter(jobs(CALLS)))
            counters = engine.snapshot()
            while counters.in_flight["m"]:
                await asyncio.sleep(0.02)
                left_open = counters.open
                counters = engine.snapshot()
                counters.open[:0] = left_open
        return counters, largest


async def test_the_smallest_budget_finishes_in_rounds_and_less_does_not(tmp_path: Path) -> None:
    """One model at a time: each round is one batch, and there are as many as planned. The budget is never exceeded."""
    free, largest = await run(tmp_path / "free", unlimited())
    cost = free.spent_nanousd
    assert free.finished[0] == len(CALLS) and cost > largest
    just, less = budget_of(smallest_budget(cost, largest)), budget_of(cost * 9 // 10)
    (enough, _), (short, _) = await asyncio.gather(
        run(tmp_path / "just", LocalBudget(just)), run(tmp_path / "less", LocalBudget(less))
    )
    assert not enough.open and enough.finished[0] == len(CALLS) and just.spent == cost
    batches = Ledger(LocalFolder(tmp_path / "just"), "sim").read()
    reserved = sum(batch.intent.nanousd for batch in Ledger(LocalFolder(tmp_path / "free"), "sim").read())
    planned = rounds_of([StageCosts("judge", (BatchedCalls(len(CALLS), cost, reserved),), 0)], cost + largest)
    assert planned and len(batches) == planned[0].rounds > 1, "the plan packs otherwise than the engine does"
    assert short.open and {row.kind for row in short.open} == {OpenKind.BUDGET}
    assert less.spent <= cost * 9 // 10 < less.spent + largest
