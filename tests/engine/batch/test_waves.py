"""Waves of rows, each reserving a bound computed from the earlier ones, against the simulator and its prices."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from threading import get_ident

import pytest

from hab_ray.calls import Params
from hab_ray.catalog.base import LaterPrice, UsdPrice
from hab_ray.catalog.models import BatchPolicy, ModelEntry
from hab_ray.catalog.prices import Mode, Price, rate
from hab_ray.engine.batch.cells import Cell, Progress, WavesOfCell
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.engine import BatchEngine
from hab_ray.engine.batch.packing import RowPacker
from hab_ray.engine.batch.rows import RowsInFlight
from hab_ray.engine.budget.budget import Budget, LocalBudget
from hab_ray.engine.jobs import Job, OpenKind
from hab_ray.engine.ledger import Batch, Ledger
from hab_ray.fences import FenceCodes
from hab_ray.providers import connect, connect_batch
from hab_ray.providers.base import Endpoint
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.replies.store import StoreWriter
from hab_simulator import Profile, simulator
from tests.engine.batch.fakes import (
    ENDED,
    HARVESTED,
    START,
    Vendor,
    context_of,
    engine_of,
    intent,
    submitted,
    write_events,
)
from tests.engine.bench import budget_of, chat

ENTRY = ModelEntry(provider="sim", wire="m", price=UsdPrice(input=1.0, output=20.0))
ROWS, FEW = 1600, 600
POLICY = BatchPolicy(poll_s=0.01, longest_poll_s=0.01, still_s=0.0, rows=5000)
MAX_TOKENS = 2000


def shuffled_jobs(rows: int = ROWS) -> list[Job]:
    """Calls in random order whose answers are short but may be long."""
    calls = [replace(chat("m", f"question {n}"), params=Params(MAX_TOKENS)) for n in range(rows)]
    calls.sort(key=lambda call: sha256(call.key.encode()).digest())
    return [Job(0, str(n), call) for n, call in enumerate(calls)]


@dataclass(frozen=True)
class Sent:
    """The result of a run: its counters with all open rows, and its batches."""

    counters: BatchCounters
    batches: list[Batch]

    @property
    def cost(self) -> int:
        return sum(batch.harvested.nanousd for batch in self.batches if batch.harvested)


async def send(
    folder: Path,
    budget: Budget,
    risk: float | None,
    jobs: list[Job],
    policy: BatchPolicy = POLICY,
    cap: int = 0,
    keep: Callable[[Progress], None] = lambda _: None,
    before: Progress | None = None,
    entry: ModelEntry = ENTRY,
    today: Callable[[], datetime] | None = None,
) -> Sent:
    """Complete these calls at a new simulator, in waves if there is a `risk`."""
    settings = {"batch": {"turnaround": {"kind": "fixed", "value_s": 0.05}}, "seed": 3}
    async with simulator(Profile.model_validate(settings)) as url:
        endpoint = Endpoint("sim", "openai", f"{url}/openai/v1", "a-key", 10.0)
        provider, api, place = connect(endpoint), connect_batch(endpoint), LocalFolder(folder)
        packer = RowPacker(provider, api, ENTRY, rate(ENTRY, Mode.BATCH), FenceCodes(b"x" * 32))
        rows = [packer.row(job) for job in jobs[:5]]
        largest, longest = max(row.nanousd for row in rows) + 20_000, max(len(row.line) for row in rows) + 20
        cell = None
        if risk:
            keys = [job.call.key for job in jobs]
            cell = Cell(keys, cap or largest, rate(ENTRY, Mode.BATCH), longest, risk, 1.0, keep, before)
        engine = BatchEngine(
            provider,
            api,
            {"m": entry},
            Ledger(place, "sim"),
            StoreWriter(place, 2, f"w{len(list(place.list()))}", Mode.BATCH),
            policy,
            context_of(budget=LocalBudget(budget), today=today),
        )
        notes, left_open = [], []
        async with asyncio.timeout(60), engine:
            await engine.complete("m", iter(jobs), cell)
            while True:
                counters = engine.snapshot()
                notes += counters.notes
                left_open += counters.open
                if not counters.in_flight["m"]:
                    break
                await asyncio.sleep(0.02)
        counters.notes, counters.open = notes, left_open
        return Sent(counters, list(Ledger(place, "sim").read()))


async def test_a_budget_near_the_bill_sends_in_three_waves_what_a_hard_one_sends_in_many(tmp_path: Path) -> None:
    jobs = shuffled_jobs()
    free = await send(tmp_path / "free", budget_of(10**15), None, jobs)
    most = free.batches[0].intent.nanousd
    assert most > 8 * free.cost, "the simulator's answers are too long for this test"
    limit = free.cost * 19 // 10
    likely_budget, hard_budget = budget_of(limit), budget_of(limit)
    likely = await send(tmp_path / "likely", likely_budget, 1e-6, jobs)
    hard = await send(tmp_path / "hard", hard_budget, None, jobs)
    for sent, budget in ((likely, likely_budget), (hard, hard_budget)):
        assert sent.counters.finished[0] == ROWS and not sent.counters.open and budget.spent == free.cost
    assert len(likely.batches) <= 4 < 8 < len(hard.batches)
    first, *later = [batch.intent for batch in likely.batches]
    assert first.rows in (100, 200) and first.nanousd == first.most
    assert all(free.cost * one.rows / ROWS < one.nanousd < one.most for one in later)
    assert not likely.counters.notes


async def test_a_wave_of_several_batches_sets_aside_a_bound_for_each(tmp_path: Path) -> None:
    jobs = shuffled_jobs(FEW)
    budget = budget_of(5 * 10**9)
    sent = await send(tmp_path, budget, 1e-6, jobs, POLICY.model_copy(update={"rows": 150}))
    assert sent.counters.finished[0] == FEW and max(batch.intent.rows for batch in sent.batches) <= 150
    assert all(batch.harvested and batch.harvested.nanousd <= batch.intent.nanousd for batch in sent.batches)
    assert budget.spent == sent.cost and budget.committed == budget.held == 0


async def test_a_row_that_can_cost_more_than_was_expected_of_any_ends_the_waves(tmp_path: Path) -> None:
    jobs = shuffled_jobs(FEW)
    jobs[250] = replace(jobs[250], call=replace(chat("m", "long" * 5000), params=Params(MAX_TOKENS)))
    sent = await send(tmp_path, budget_of(5 * 10**9), 1e-6, jobs)
    assert sent.counters.finished[0] == FEW and any("expected of any" in note for note in sent.counters.notes)
    assert any(batch.intent.most_nanousd is None for batch in sent.batches)


async def test_no_wave_begins_in_the_days_before_a_rise(tmp_path: Path) -> None:
    rise = LaterPrice(start=START.date() + timedelta(days=2), price=UsdPrice(input=2, output=40))
    entry = ENTRY.model_copy(update={"later": (rise,)})
    sent = await send(tmp_path, budget_of(10 * 10**9), 1e-6, shuffled_jobs(FEW), entry=entry, today=lambda: START)
    assert all(batch.intent.most_nanousd is None for batch in sent.batches) and sent.counters.finished[0] == FEW


async def test_a_price_that_rises_ends_the_waves(tmp_path: Path) -> None:
    def today() -> datetime:
        return START + timedelta(days=10 * any(tmp_path.rglob("*harvested*")))

    rise = LaterPrice(start=START.date() + timedelta(days=10), price=UsdPrice(input=2, output=40))
    entry = ENTRY.model_copy(update={"later": (rise,)})
    sent = await send(tmp_path, budget_of(10 * 10**9), 1e-6, shuffled_jobs(FEW), entry=entry, today=today)
    first, *later = [batch.intent for batch in sent.batches]
    assert first.rows == 200 and first.most_nanousd is not None and later
    assert all(one.most_nanousd is None and one.price == Price.usd(2, 40) for one in later)
    assert sent.counters.finished[0] == FEW and any("the model's price changes" in note for note in sent.counters.notes)


async def test_less_than_the_first_rows_need_is_sent_as_with_a_hard_budget(tmp_path: Path) -> None:
    """The budget ends, and no row was sent that it did not cover."""
    budget = budget_of(10**7)
    sent = await send(tmp_path, budget, 1e-6, shuffled_jobs(FEW))
    assert sent.counters.open and {row.kind for row in sent.counters.open} == {OpenKind.BUDGET}
    assert budget.spent <= 10**7


async def test_equal_calls_are_sent_once(tmp_path: Path) -> None:
    jobs = [job for job in shuffled_jobs(400) for _ in range(3)]
    sent = await send(tmp_path, budget_of(10**10), 1e-6, jobs)
    assert sent.counters.finished[0] == len(jobs)
    assert sum(batch.intent.rows for batch in sent.batches) == 400


@pytest.mark.parametrize(("set_aside", "is_surprise"), [(6, True), (7, False)])
async def test_a_batch_dearer_than_its_bound_ends_waves_in_later_processes_too(
    tmp_path: Path, set_aside: int, is_surprise: bool
) -> None:
    of_a_wave = intent().model_copy(update={"nanousd": set_aside, "most_nanousd": 100})
    write_events(tmp_path, 1, of_a_wave, submitted(), ENDED, HARVESTED)
    async with engine_of(tmp_path, Vendor()) as engine:
        notes = engine.snapshot().notes
    assert [note for note in notes if "as with `reserve: hard`" in note] == (notes if is_surprise else [])
    assert bool(notes) == is_surprise


async def test_rows_that_cost_more_than_the_sample_said_end_the_run_at_its_budget(tmp_path: Path) -> None:
    """The vendor's answers become twenty times as long after the first wave."""
    calls = [replace(chat("m", f"question {n}"), params=Params(4 if n < 100 else 200)) for n in range(ROWS)]
    jobs = [Job(0, str(n), call) for n, call in enumerate(calls)]
    sent = await send(tmp_path, budget_of(7 * 10**8), 1e-6, jobs, cap=5_000_000)
    first, second = sorted(sent.batches, key=lambda batch: batch.intent.at)
    assert first.intent.rows == 100 and second.harvested and second.harvested.nanousd > 2 * second.intent.nanousd
    assert [note for note in sent.counters.notes if "after the rows before it, that was all but impossible" in note]
    assert {row.kind for row in sent.counters.open} == {OpenKind.BUDGET}
    assert len(sent.counters.open) == ROWS - 100 - second.intent.rows > 0


async def test_where_all_can_be_set_aside_there_is_one_wave_and_one_thread_that_looks_rows_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell that started while batches of another closed ended the run: a dictionary changed during iteration.

    The only wave is the last one, whose costs nobody waits for.
    """
    threads, looked_up = set[int](), RowsInFlight.sent
    monkeypatch.delattr(WavesOfCell, "observe")

    def noted(rows: RowsInFlight, keys: Sequence[str]) -> set[str]:
        threads.add(get_ident())
        return looked_up(rows, keys)

    monkeypatch.setattr(RowsInFlight, "sent", noted)
    sent = await send(tmp_path, budget_of(10**15), 1e-6, shuffled_jobs(FEW))
    assert [batch.intent.rows for batch in sent.batches] == [FEW] and threads == {get_ident()}


async def test_a_process_sends_the_rest_of_a_wave_that_was_cut_off(tmp_path: Path) -> None:
    """The first process ends between two batches of its second wave; the second sends the others with their bounds."""
    jobs, policy = shuffled_jobs(), POLICY.model_copy(update={"rows": 150})
    free = await send(tmp_path / "free", budget_of(10**15), None, jobs, policy)
    limit = free.cost * 19 // 10
    kept: list[Progress] = []
    undisturbed = await send(tmp_path / "one", budget_of(limit), 1e-6, jobs, policy, keep=kept.append)
    whole = [(batch.intent.rows, batch.intent.nanousd) for batch in undisturbed.batches]
    cut_off = kept[1]
    assert len(cut_off.costs) == 100 and cut_off.sent > 100 + 2 * 150
    early = await send(tmp_path / "two", budget_of(limit), None, jobs[: 100 + 150], policy)
    left, budget = jobs[100 + 150 :], budget_of(limit - early.cost)
    rest = await send(tmp_path / "two", budget, 1e-6, left, policy, before=cut_off)
    assert [(batch.intent.rows, batch.intent.nanousd) for batch in rest.batches[len(early.batches) :]] == whole[2:]
    assert rest.cost == undisturbed.cost


KEYS = tuple(f"{n:03d}" for n in range(500))
BEFORE = Progress(KEYS, 5000, 0.5, costs=(1,) * 100, sent=300)


REST = Progress(KEYS[300:], 5000, 0.1)


LEFT: dict[str, tuple[tuple[str, ...], Progress | None]] = {
    "the wave went out": (KEYS[300:], BEFORE),
    "nothing of it did": (KEYS[100:], replace(BEFORE, sent=100)),
    "rows of an earlier wave expired": ((*KEYS[5:7], *KEYS[300:]), BEFORE),
    "half of the wave": (KEYS[200:], REST),
    "one of it": ((KEYS[150], *KEYS[300:]), REST),
    "first missing": (KEYS[301:], replace(REST, keys=KEYS[301:])),
    "one missing": ((*KEYS[300:400], *KEYS[401:]), replace(REST, keys=(*KEYS[300:400], *KEYS[401:]))),
    "one too many": ((*KEYS[300:], "new"), REST),
    "only of the wave": (KEYS[200:300], None),
    "none": ((), None),
}


@pytest.mark.parametrize(("unsent", "goes_on"), LEFT.values(), ids=LEFT)
def test_what_was_seen_holds_where_chance_alone_has_left_the_others(
    unsent: tuple[str, ...], goes_on: Progress | None
) -> None:
    """The rows after a partly sent wave become a new population."""
    assert BEFORE.resumed(unsent, 5000, 0.1) == goes_on


def test_another_size_of_batches_needs_other_bounds() -> None:
    assert BEFORE.resumed(KEYS[300:], 4000, 0.1) == replace(REST, largest=4000)


async def test_a_sample_that_ends_where_no_wave_may_is_of_no_use(tmp_path: Path) -> None:
    """A version of this program with other waves kept it."""
    jobs = shuffled_jobs(FEW)
    before = Progress(("seen", *(job.call.key for job in jobs)), 5000, 1.0, costs=(1,), sent=1)
    sent = await send(tmp_path, budget_of(10**15), 1e-6, jobs, before=before)
    assert sent.counters.finished[0] == FEW
    assert [batch.intent.most_nanousd for batch in sent.batches] == [None]
