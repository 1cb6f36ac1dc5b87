"""The plan's smallest sufficient budget for a sweep, against the batch engine and the simulator."""

from __future__ import annotations

from pathlib import Path

from hab_ray.calls import Call
from hab_ray.catalog.base import UsdPrice
from hab_ray.catalog.models import ModelEntry
from hab_ray.catalog.prices import Mode, rate
from hab_ray.engine.batch.packing import RowPacker
from hab_ray.engine.jobs import OpenKind
from hab_ray.fences import FenceCodes
from hab_ray.planning.rounds import BatchedCalls, StageCosts, rounds_of, smallest_budget
from hab_ray.providers import connect, connect_batch
from hab_ray.providers.base import Endpoint
from tests.engine.batch.test_waves import send
from tests.engine.bench import budget_of, chat, jobs

ENTRY = ModelEntry(provider="sim", wire="m", price=UsdPrice(input=1.0, output=2.0))
CALLS: list[Call] = [chat("m", f"question {n} " + "and so on " * (3 * n)) for n in range(7)]


def largest_reservation() -> int:
    endpoint = Endpoint("sim", "openai", "http://localhost:1/v1", "a-key", 10.0)
    codes = FenceCodes(b"x" * 32)
    packer = RowPacker(connect(endpoint), connect_batch(endpoint), ENTRY, rate(ENTRY, Mode.BATCH), codes)
    return max(packer.row(job).nanousd for job in jobs(CALLS))


async def test_the_smallest_budget_finishes_in_rounds_and_less_does_not(tmp_path: Path) -> None:
    """One model at a time: each round is one batch, and there are as many as planned. The budget is never exceeded."""
    every, largest = jobs(CALLS), largest_reservation()
    free = await send(tmp_path / "free", budget_of(10**15), None, every, entry=ENTRY)
    cost = free.cost
    assert free.counters.finished[0] == len(CALLS) and cost > largest
    just, less = budget_of(smallest_budget(cost, largest)), budget_of(cost * 9 // 10)
    enough = await send(tmp_path / "just", just, None, every, entry=ENTRY)
    short = (await send(tmp_path / "less", less, None, every, entry=ENTRY)).counters
    assert not enough.counters.open and enough.counters.finished[0] == len(CALLS) and just.spent == cost
    reserved = sum(batch.intent.nanousd for batch in free.batches)
    planned = rounds_of([StageCosts("judge", (BatchedCalls(len(CALLS), cost, reserved),), 0)], cost + largest)
    assert planned and len(enough.batches) == planned[0].rounds > 1, "the plan packs otherwise than the engine does"
    assert short.open and {row.kind for row in short.open} == {OpenKind.BUDGET}
    assert less.spent <= cost * 9 // 10 < less.spent + largest
