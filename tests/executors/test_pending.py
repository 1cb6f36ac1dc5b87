"""Calls that are to be sampled: their order in the spools of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from hab_ray.calls import ChatCall
from hab_ray.catalog.models import BatchTerms, Model, ModelEntry, UsdPrice
from hab_ray.engine.jobs import Job
from hab_ray.executors.pending import Pending, Population, population, sampled
from hab_ray.executors.protocol import Spool
from hab_ray.location import Location
from tests.engine.bench import chat

PRICE = UsdPrice(input=1.0, output=2.0)
MODEL = Model("m", ModelEntry(provider="sim", wire="m", price=PRICE, batch=BatchTerms(discount=0.5, price=PRICE)), None)
DIMENSIONS, ROWS = 6, 100


def spooled(pending: Pending, epoch: int = 1) -> tuple[list[Spool], list[str]]:
    """Six dimensions, each settled for itself: their spools, and the keys in the order of the dimensions."""
    pending = replace(pending, epoch=epoch)
    spools, keys = [], []
    for dimension in range(DIMENSIONS):
        calls: list[ChatCall] = [chat("m", f"question {n} of {dimension}") for n in range(ROWS)]
        jobs = [Job(dimension, f"row-{n}", call) for n, call in enumerate(calls)]
        spools.append(pending.spool(dimension + 10 * epoch, "respond", MODEL, jobs))
        keys += [call.key for call in calls]
    return spools, keys


def test_a_sample_has_rows_of_all_dimensions_in_one_order_that_each_process_draws_anew(tmp_path: Path) -> None:
    pending = Pending(Location.of(tmp_path), 1, sample_seed=7)
    spools, keys = spooled(pending)
    order = list(sampled(pending, spools))
    assert sorted(job.call.key for job in order) == sorted(keys)
    first = Counter(job.shard for job in order[:120])
    assert len(first) == DIMENSIONS and max(first.values()) < 40, "20 of each on average"
    assert [job.call.key for job in sampled(pending, spools[::-1])] == [job.call.key for job in order]
    again = replace(pending, epoch=2)
    other = [job.call.key for job in sampled(again, spooled(pending, epoch=2)[0])]
    assert sorted(other) == sorted(keys) and len({*other[:120]} & {job.call.key for job in order[:120]}) < 60


def test_without_a_seed_calls_lie_as_they_were_settled(tmp_path: Path) -> None:
    pending = Pending(Location.of(tmp_path), 1)
    spools, keys = spooled(pending)
    assert [job.call.key for job in pending.jobs(spools)] == keys
    assert population(pending, spools) == Population(keys, 0, 0)


def test_the_cap_of_a_population_is_above_what_any_of_its_calls_can_cost(tmp_path: Path) -> None:
    pending = Pending(Location.of(tmp_path), 1, sample_seed=7)
    calls = [chat("m", text) for text in ("short", "x" * 9000, "ü" * 3000, '"\n' * 2000)]
    spool = pending.spool(1, "respond", MODEL, [Job(0, str(n), call) for n, call in enumerate(calls)])
    found = population(pending, [spool])
    assert sorted(found.keys) == sorted(call.key for call in calls)
    assert found.cap >= 6 * 3000 * 1000 + 200 * 2000, "each ü as an escape of six bytes, and 200 tokens of answer"
