"""The engine's tasks: streams, doubts settled first, what a stop spares, and one failure that ends all tasks."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from hab_ray.catalog.base import LaterPrice, UsdPrice
from hab_ray.catalog.models import BatchPolicy
from hab_ray.catalog.prices import Mode, rate
from hab_ray.engine.batch.components import EngineContext
from hab_ray.engine.budget.budget import Budget, LocalBudget, OpeningBalance
from hab_ray.engine.budget.protocol import BudgetGrant, BudgetRequest
from hab_ray.engine.jobs import Job, OpenKind
from hab_ray.engine.ledger import Batch, Ledger, Lines
from hab_ray.errors import DamagedFile, FailureKind, Interrupted, LeaseLost, ProviderError, RateLimited
from hab_ray.providers.batching import BadRows, BatchJob, BatchStatus
from hab_ray.storage.folder import LocalFolder
from tests.engine.batch.fakes import (
    ENDED,
    ENTRY,
    KEYS,
    QUICK,
    Vendor,
    context_of,
    engine_of,
    intent,
    submitted,
    write_events,
)
from tests.engine.bench import chat


def rows(count: int, first: int = 0, shard: int = 0) -> Iterator[Job]:
    for n in range(first, first + count):
        yield Job(shard, f"row-{n}", chat("m", f"question {n}"))


def records(folder: Path) -> list[Batch]:
    return Ledger(LocalFolder(folder), "acme").read()


def told(folder: Path) -> list[list[str]]:
    return [[event.kind for event in record.events] for record in records(folder)]


def slowly(rows: int) -> BatchPolicy:
    """A policy for batches of this many rows that are not polled within a test."""
    return QUICK.model_copy(update={"rows": rows, "poll_s": 60.0})


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not reached():
            await asyncio.sleep(0.001)


async def test_a_stream_ends_once_all_its_rows_are_at_the_vendor(tmp_path: Path) -> None:
    vendor, tags = Vendor(), [f"hab-{n}" for n in range(3)]
    context = replace(context_of(), new_tag=iter(tags).__next__)
    async with engine_of(tmp_path, vendor, context, slowly(2)) as engine:
        await engine.complete("m", rows(5))
        counters = engine.snapshot()
        assert [job.rows for job in vendor.submitted] == [2, 2, 1] and [job.tag for job in vendor.submitted] == tags
        assert (counters.offered[0], counters.calls, counters.in_flight["m"]) == (5, 5, 5)
        assert counters.batches == tuple(records(tmp_path)) and counters.finished[0] == 0
        assert engine.held([chat("m", "question 3").key]) and not engine.held([chat("m", "another").key])
    record = Ledger(LocalFolder(tmp_path), "acme").read()[0]
    assert (record.intent.fingerprint, record.intent.price) == ("a1b2", rate(ENTRY, Mode.BATCH))


async def test_a_batch_reserves_the_price_of_a_coming_rise_and_is_booked_at_that_of_its_day(tmp_path: Path) -> None:
    rise = LaterPrice(start=date(2026, 12, 1), price=UsdPrice(input=2, output=2))
    entry, clock = ENTRY.model_copy(update={"later": (rise,)}), [datetime(2026, 11, 27, tzinfo=UTC)]
    context, seen = replace(context_of(), today=lambda: clock[0]), []
    async with engine_of(tmp_path, Vendor(), context, entry=entry) as engine:
        for number in range(3):
            await engine.complete("m", rows(1, first=number))
            clock[0] += timedelta(days=2)
    for record in records(tmp_path):
        assert record.intent.price
        seen.append((record.intent.nanousd, record.intent.price.input // 10**9))
    dear = seen[-1][0]
    assert seen == [(dear // 2, 1), (dear, 1), (dear, 2)]


async def test_two_rows_with_one_call_are_sent_once_and_both_finish(tmp_path: Path) -> None:
    vendor = Vendor()
    async with engine_of(tmp_path, vendor) as engine:
        await engine.complete("m", rows(2, shard=1))
        vendor.ended = {"new-1": chat("m", "question 0").key}
        await engine.complete("m", rows(2, shard=2))
        await until(lambda: not engine.held([chat("m", "question 0").key]))
        counters = engine.snapshot()
    assert len(vendor.submitted) == 1 and counters.finished == {1: 2, 2: 2}
    assert told(tmp_path) == [["intent", "submitted", "ended", "harvested"]]


async def test_an_upload_is_cut_off_at_once_and_its_money_returned(tmp_path: Path) -> None:
    @dataclass
    class Uploading(Vendor):
        async def submit(self, job: BatchJob) -> str:
            self.submitted.append(job)
            await asyncio.sleep(60)
            raise AssertionError

    vendor = Uploading()
    async with engine_of(tmp_path, vendor) as engine:
        stream = asyncio.create_task(engine.complete("m", rows(3)))
        await until(lambda: bool(vendor.submitted))
        engine.stop(5.0)
        await stream
        counters = engine.snapshot()
    assert told(tmp_path) == [["intent", "ended", "harvested"]] and counters.reserved_nanousd == 0
    assert "stopped before it was made" in counters.notes[0]


async def test_an_interrupt_before_the_create_request_sends_nothing(tmp_path: Path) -> None:
    vendor, guards = Vendor(), iter([None, None, Interrupted("stopped")])

    def guard() -> None:
        if error := next(guards):
            raise error

    async with engine_of(tmp_path, vendor, context_of(guard=guard)) as engine:
        with pytest.raises(Interrupted):
            await engine.complete("m", rows(1))
        assert isinstance(engine.broken, Interrupted)
    assert not vendor.submitted and told(tmp_path) == [["intent", "ended", "harvested"]]


async def test_doubts_of_an_earlier_process_are_settled_before_anything_new_is_made(tmp_path: Path) -> None:
    write_events(tmp_path, 1, intent("earlier"))
    vendor = Vendor()
    async with engine_of(tmp_path, vendor, policy=slowly(9)) as engine:
        assert engine.snapshot().doubts == 1
        await engine.complete("m", rows(1))
        counters = engine.snapshot()
    assert [job.tag.partition("-")[0] for job in vendor.submitted] == ["earlier", "hab"]
    assert vendor.asked.count("since") >= 2 and counters.doubts == 0
    assert told(tmp_path) == [["intent", "intent", "submitted"], ["intent", "submitted"]]


async def test_only_a_batch_of_this_run_or_one_that_it_waits_for_is_collected_before_the_end(tmp_path: Path) -> None:
    """The results of another run's batch may stay away for hours."""

    class Slow(Vendor):
        async def poll(self, batch_id: str) -> BatchStatus:
            await asyncio.sleep(60)
            raise AssertionError

    row = Lines(b"{}\n", bytes.fromhex(chat("m", "question 0").key + "ef" * 32))
    Ledger(LocalFolder(tmp_path), "acme").keep(2, row)
    write_events(tmp_path, 1, intent(), submitted(), ENDED)
    others = intent(epoch=9).model_copy(update={"rows": 1, "rows_file": row.rows_file})
    write_events(tmp_path, 2, others, submitted(), ENDED)
    async with engine_of(tmp_path, Slow()) as engine:
        assert engine.snapshot().ending == 1
        await engine.complete("m", rows(1))
        assert engine.snapshot().ending == 2


async def test_what_fails_in_one_task_ends_all_and_is_raised_to_every_stream(tmp_path: Path) -> None:
    vendor = Vendor(gate=asyncio.Event())
    lost = [False]

    def guard() -> None:
        if lost[0]:
            raise LeaseLost("the lease has ended")

    async with engine_of(tmp_path, vendor, context_of(guard=guard)) as engine:
        first = asyncio.create_task(engine.complete("m", rows(1)))
        await until(lambda: bool(vendor.submitted))
        lost[0] = True
        for stream in (asyncio.create_task(engine.complete("m", rows(1, first=1))), first):
            with pytest.raises(LeaseLost):
                await stream
        with pytest.raises(LeaseLost):
            await engine.complete("m", rows(1, first=2))
    assert isinstance(engine.broken, LeaseLost)


async def test_a_stream_that_waits_for_room_lets_another_pack(tmp_path: Path) -> None:
    vendor = Vendor(refuses=[RateLimited("too many batches", 60.0)])
    async with engine_of(tmp_path, vendor) as engine:
        streams = [asyncio.create_task(engine.complete("m", rows(1, first=n))) for n in range(2)]
        await until(lambda: engine.snapshot().blocked_streams == 2)
        engine.stop(0.0)
        await asyncio.gather(*streams)
        assert engine.snapshot().blocked_streams == 0
    assert len(vendor.submitted) == 1


async def test_a_row_that_another_stream_packs_while_its_own_waits_for_room_is_sent_once(tmp_path: Path) -> None:
    vendor = Vendor(refuses=[RateLimited("too many batches", 1.0)])
    async with engine_of(tmp_path, vendor, policy=slowly(2)) as engine:
        first = asyncio.create_task(engine.complete("m", rows(3, shard=1)))
        await until(lambda: engine.snapshot().blocked_streams == 1)
        await asyncio.gather(first, engine.complete("m", rows(1, first=2, shard=2)))
        counters = engine.snapshot()
    assert [job.rows for job in vendor.submitted] == [2, 2, 1] and counters.in_flight["m"] == 3
    assert counters.offered == {1: 3, 2: 1} and not counters.finished


async def bound_of_a_row(folder: Path) -> int:
    async with engine_of(folder, Vendor()) as engine:
        await engine.complete("m", rows(1))
        return engine.snapshot().reserved_nanousd


def poor(nanousd: int) -> EngineContext:
    return context_of(budget=LocalBudget(Budget(nanousd, OpeningBalance(), keep=lambda _: None)))


async def test_rows_wait_for_the_money_that_open_batches_have_reserved(tmp_path: Path) -> None:
    """No row is left open, though the budget never pays for all at once; unspent reservations are released."""
    bound = await bound_of_a_row(tmp_path)
    vendor = Vendor(ended={f"new-{n}": KEYS[0] for n in range(1, 9)})
    async with engine_of(tmp_path / "poor", vendor, poor(2 * bound)) as engine:
        await engine.complete("m", rows(5))
        counters = engine.snapshot()
    assert [job.rows for job in vendor.submitted] == [2, 2, 1] and not counters.open


async def test_rows_that_alone_cost_more_than_the_budget_are_named(tmp_path: Path) -> None:
    bound, vendor = await bound_of_a_row(tmp_path), Vendor()
    async with engine_of(tmp_path / "poor", vendor, poor(bound - 1)) as engine:
        await engine.complete("m", rows(3))
        counters = engine.snapshot()
    assert not vendor.submitted
    assert [(row.row_id, row.kind) for row in counters.open] == [(f"row-{n}", OpenKind.BUDGET) for n in range(3)]


async def test_what_earlier_processes_left_is_taken_up(tmp_path: Path) -> None:
    write_events(tmp_path, 1, intent("other").model_copy(update={"model": "unused"}), submitted())
    write_events(tmp_path, 2, intent("refused"), ENDED)
    write_events(tmp_path, 3, intent("done"), submitted())
    write_events(tmp_path, 4, intent("somebody's", epoch=9), submitted().model_copy(update={"batch_id": "b-2"}))
    async with engine_of(tmp_path, Vendor(), policy=slowly(9)) as engine:
        counters = engine.snapshot()
    assert [batch.number for batch in counters.batches] == [3, 4] and counters.reserved_nanousd == 100
    assert len(counters.notes) == 1 and "model unused, which this sweep does not use" in counters.notes[0]
    assert told(tmp_path)[1] == ["intent", "ended", "harvested"]


async def test_rows_that_come_after_their_provider_was_stopped_wait_for_none_of_its_batches(tmp_path: Path) -> None:
    """A revoked key may be refused before the rows of the batch that it was to collect are offered."""
    vendor = Vendor()
    async with engine_of(tmp_path, vendor, policy=QUICK) as engine:
        await engine.complete("m", rows(3))
        vendor.refused = ProviderError(FailureKind.BAD_KEY, "no such key")
        await until(lambda: bool(engine.snapshot().stops))
        before = engine.snapshot().finished[0]
        await engine.complete("m", rows(3))
        assert (before, engine.snapshot().finished[0]) == (3, 6)


async def test_connections_are_closed_where_the_ledger_cannot_be_read(tmp_path: Path) -> None:
    write_events(tmp_path, 1, intent())
    (tmp_path / "ledger/acme/000001/001-intent.json").write_text("{")
    vendor = Vendor()
    with pytest.raises(DamagedFile):
        async with engine_of(tmp_path, vendor):
            pass
    assert vendor.asked[-1] == "close"


async def test_what_fails_while_the_run_ends_is_told_and_connections_are_closed(tmp_path: Path) -> None:
    """First the answer to a create request cannot be recorded, then the money that is held cannot be returned."""

    @dataclass
    class Unwritable:
        async def grant(self, request: BudgetRequest) -> BudgetGrant:
            raise OSError(28, "No space left on device")

    gate = asyncio.Event()
    vendor = Vendor(gate=gate)
    async with engine_of(tmp_path, vendor) as recording:
        stream = asyncio.create_task(recording.complete("m", rows(1)))
        await until(lambda: bool(vendor.submitted))
        recording.stop(5.0)
        (tmp_path / "ledger/acme/000001/002-submitted.json").write_text("{}")
        gate.set()
        with pytest.raises(LeaseLost):
            await stream
    returning = engine_of(tmp_path / "other", vendor, context_of(budget=Unwritable()))
    with pytest.raises(OSError, match="No space left"):
        async with returning:
            pass
    for engine, error in ((recording, "ledger"), (returning, "No space left")):
        (note,) = engine.snapshot().notes
        assert error in note and "run the same command again" in note
    assert vendor.asked[-1] == "close"


@dataclass
class Picky(Vendor):
    """Refuses batches with any of these rows, and does not say which."""

    poison: tuple[bytes, ...] = ()
    tries: int = 0

    async def submit(self, job: BatchJob) -> str:
        self.tries += 1
        if any(poison in job.lines for poison in self.poison):
            raise BadRows("Precondition check failed.")
        return await super().submit(job)


def bytes_of(rows: Iterator[Job]) -> tuple[bytes, ...]:
    return tuple(row.call.key.encode() for row in rows)


async def test_a_model_whose_every_batch_is_refused_alike_is_given_no_more_of_them(tmp_path: Path) -> None:
    vendor = Picky(poison=bytes_of(rows(10)))
    async with engine_of(tmp_path, vendor) as engine:
        await engine.complete("m", rows(30))
        counters = engine.snapshot()
    assert vendor.tries == 7 and not vendor.submitted
    assert "Precondition check failed." in counters.refused["m"] and counters.reserved_nanousd == 0
    assert not any("failed every batch" in note for note in counters.notes), "a row is blamed"


@pytest.mark.parametrize("bad", [(0,), (0, 5), (0, 9), (4, 5), (5,), (0, 1, 5, 6)])
async def test_rows_that_are_refused_in_the_same_words_are_found_among_good_ones(
    bad: tuple[int, ...], tmp_path: Path
) -> None:
    every = bytes_of(rows(10))
    vendor = Picky(poison=tuple(every[n] for n in bad))
    async with engine_of(tmp_path, vendor) as engine:
        await engine.complete("m", rows(10))
        counters = engine.snapshot()
    assert sum(job.rows for job in vendor.submitted) == 10 - len(bad) and not counters.refused
    assert counters.finished[0] == len(bad)
    words = "failed every batch it was in: Precondition check failed."
    assert sorted(counters.notes) == [f"m: row row-{n} {words}" for n in bad]


@dataclass
class Hurried:
    """A clock that advances by ten seconds at every reading."""

    now: float = 0.0

    def __call__(self) -> float:
        self.now += 10.0
        return self.now


def busy(after_s: float | None = None) -> RateLimited:
    return RateLimited("Resource has been exhausted (e.g. check quota).", after_s)


async def test_a_vendor_that_makes_no_batch_is_asked_for_a_quarter_of_an_hour(tmp_path: Path) -> None:
    vendor, clock = Vendor(refuses=[busy() for _ in range(99)]), Hurried()
    async with engine_of(tmp_path, vendor, context_of(clock)) as engine:
        async with asyncio.timeout(20):
            await engine.complete("m", rows(2))
        counters = engine.snapshot()
    assert 2 < len(vendor.submitted) < 9 and clock.now > 600
    assert "Resource has been exhausted" in counters.refused["m"] and "15 minutes" in counters.refused["m"]
    assert sum("Resource has been exhausted" in note for note in counters.notes) == 2
    assert counters.finished[0] == 2 and counters.reserved_nanousd == 0


async def test_a_vendor_that_asks_for_a_longer_wait_is_not_waited_for(tmp_path: Path) -> None:
    vendor = Vendor(refuses=[busy(86_400.0)])
    async with engine_of(tmp_path, vendor) as engine:
        async with asyncio.timeout(20):
            await engine.complete("m", rows(2))
        assert "m" in engine.snapshot().refused and len(vendor.submitted) == 1


async def test_a_queue_that_our_own_batches_fill_is_waited_for(tmp_path: Path) -> None:
    policy = QUICK.model_copy(update={"rows": 2, "poll_s": 1e6, "longest_poll_s": 300.0})
    vendor, clock = Vendor(refuses=[None, *[busy() for _ in range(20)]]), Hurried()
    async with engine_of(tmp_path, vendor, context_of(clock), policy) as engine:
        stream = asyncio.create_task(engine.complete("m", rows(4)))
        await until(lambda: len(vendor.submitted) >= 5)
        counters = engine.snapshot()
        assert clock.now > 1200 and not counters.refused and not stream.done()
