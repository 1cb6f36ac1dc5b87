"""Calls that are to be sampled: their order in the spools of a run."""

from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from itertools import permutations
from pathlib import Path

import pytest

from hab_ray.calls import ChatCall
from hab_ray.catalog.base import LaterPrice, UsdPrice
from hab_ray.catalog.models import BatchTerms, Model, ModelEntry
from hab_ray.catalog.prices import Price
from hab_ray.engine.batch.cells import Progress
from hab_ray.engine.jobs import Job
from hab_ray.executors.cells import Cells, KeptPopulation, split_by_population
from hab_ray.executors.pending import Pending, sampled, sampled_keys
from hab_ray.executors.protocol import Spool
from hab_ray.location import Location
from hab_ray.storage.folder import LocalFolder
from tests.engine.bench import chat

PRICE = UsdPrice(input=1.0, output=2.0)
DAY = date(2026, 11, 27)
MODEL = Model("m", ModelEntry(provider="sim", wire="m", price=PRICE, batch=BatchTerms(discount=0.5, price=PRICE)), None)
DIMENSIONS, ROWS = 6, 100
SPOOL = Spool("", "respond", "sim", "m", {0: 1}, line_bytes=10, cap=100)


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
    assert sampled_keys(pending, spools) == keys and {(s.line_bytes, s.cap) for s in spools} == {(0, 0)}


@pytest.mark.parametrize("seed", [None, 7])
def test_calls_can_be_set_apart(tmp_path: Path, seed: int | None) -> None:
    pending = Pending(Location.of(tmp_path), 1, sample_seed=seed)
    calls = [chat("m", f"question {n % 5}") for n in range(8)]
    whole = pending.spool(1, "respond", MODEL, [Job(n % 2, f"row-{n}", call) for n, call in enumerate(calls)])
    rest = pending.without(whole, {calls[0].key, calls[1].key})
    assert rest is not None and rest.calls == {0: 2, 1: 2} and (rest.cap, rest.stage) == (whole.cap, whole.stage)
    assert {job.row_id for job in pending.jobs([rest])} == {"row-2", "row-3", "row-4", "row-7"}
    assert sorted(sampled_keys(pending, [rest])) == sorted({call.key for call in calls[2:5]})
    assert pending.without(whole, {call.key for call in calls}) is None


def test_the_cap_of_a_population_is_above_what_any_of_its_calls_can_cost(tmp_path: Path) -> None:
    pending = Pending(Location.of(tmp_path), 1, sample_seed=7)
    calls = [chat("m", text) for text in ("short", "x" * 9000, "ü" * 3000, '"\n' * 2000)]
    spool = pending.spool(1, "respond", MODEL, [Job(0, str(n), call) for n, call in enumerate(calls)])
    assert sorted(sampled_keys(pending, [spool])) == sorted(call.key for call in calls)
    assert spool.cap >= 6 * 3000 * 1000 + 200 * 2000, "each ü as an escape of six bytes, and 200 tokens of answer"


def test_a_line_is_expected_to_be_as_long_as_its_escapes_make_it(tmp_path: Path) -> None:
    """One character beyond ASCII in a long text makes the line hardly longer, so a batch has room for as many."""
    pending = Pending(Location.of(tmp_path), 1, sample_seed=7)
    found = []
    texts = ("x" * 30_000, "x" * 29_999 + "ü", "x" * 29_999 + "\U0001f600")
    for number, text in enumerate(texts):
        spool = pending.spool(number, "respond", MODEL, [Job(0, "0", chat("m", text))])
        found.append(spool.line_bytes)
    ascii_only, one_escape, two_escapes = found
    assert (one_escape - ascii_only, two_escapes - ascii_only) == (6, 12)
    for order in permutations(texts):
        jobs = [Job(0, str(number), chat("m", text)) for number, text in enumerate(order)]
        assert pending.spool(9, "respond", MODEL, jobs).line_bytes == two_escapes


def test_keys_of_a_population_under_way_keep_their_order_in_the_next_process(tmp_path: Path) -> None:
    pending = Pending(Location.of(tmp_path), 1, sample_seed=7)
    spools, keys = spooled(pending)
    first = sampled_keys(pending, spools)
    half = first[:300]
    cells = Cells(LocalFolder(tmp_path), "respond", MODEL)
    kept = KeptPopulation.new(1, cells.price, spools, 0.5).model_copy(
        update={"progress": Progress(tuple(half), 100, 0.5)}
    )
    cells.save("000001-000001-000", kept)
    again = replace(pending, epoch=2)
    spools, _ = spooled(pending, epoch=2)
    found = sampled_keys(again, spools)
    assert [job.call.key for job in sampled(again, spools)] == found
    (of_one, one), (rest, none) = sorted(
        split_by_population(found, cells.populations()), key=lambda part: part[1] is None
    )
    assert one and of_one == list(half) and none is None
    assert sorted([*of_one, *rest]) == sorted(keys) and rest != list(first[300:])


def test_another_price_tells_nothing_of_the_rest(tmp_path: Path) -> None:
    cells = Cells(LocalFolder(tmp_path), "respond", MODEL)
    new = KeptPopulation.new(2, cells.price, [SPOOL], 0.5)
    before = new.model_copy(update={"draw": 1, "price": replace(cells.price, output=1)})
    assert cells.cell("x", ["a"], new, None, 0.1).cap == 100
    assert cells.cell("x", ["a"], new, before, 0.1).cap == 0


def test_a_price_that_rises_within_days_leaves_no_cap(tmp_path: Path) -> None:
    """Batches of a wave may be sent only after the rise, and cost more than its earlier rows show."""
    dear = UsdPrice(input=2.0, output=2.0)
    later = (LaterPrice(start=DAY + timedelta(days=2), price=dear, batch=dear),)
    rising = replace(MODEL, entry=MODEL.entry.model_copy(update={"priced_on": DAY, "later": later}))
    for model, cap in ((MODEL, 100), (rising, 0)):
        cells = Cells(LocalFolder(tmp_path), "respond", model)
        new = KeptPopulation.new(2, cells.price, [SPOOL], 0.5)
        assert cells.cell("x", ["a"], new, None, 0.1).cap == cap and cells.price == Price.usd(1, 2)


@pytest.mark.parametrize(
    "progress",
    [
        Progress(("a",), 1, 0.5, sent=2),
        Progress(("a",), 1, 0.5, costs=(1,)),
        Progress(("a",), 1, 0.5, costs=(-1,), sent=1),
        Progress(("a",), 1, 0.5, costs=(101,), sent=1),
        Progress(("a",), 1, 0.0),
        Progress(("a",), -1, 0.5),
    ],
)
def test_a_population_that_cannot_be_is_drawn_anew(tmp_path: Path, progress: Progress) -> None:
    cells = Cells(LocalFolder(tmp_path), "respond", MODEL)
    possible = KeptPopulation.new(1, cells.price, [SPOOL], 0.5)
    cells.save("000001-000001-000", possible)
    cells.save("000001-000001-001", possible.model_copy(update={"progress": progress}))
    assert cells.populations() == [possible]


def test_a_population_that_cannot_be_read_is_drawn_anew(tmp_path: Path) -> None:
    cells = Cells(LocalFolder(tmp_path), "respond", MODEL)
    cells.save("000001-000001-000", KeptPopulation.new(1, cells.price, [SPOOL], 0.5))
    (name,) = cells.folder.list("cells")
    assert len(cells.populations()) == 1
    cells.folder.put(name, cells.folder.get(name)[:-3])
    assert cells.populations() == []
