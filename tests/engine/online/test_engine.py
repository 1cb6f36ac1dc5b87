"""The online engine against the simulator, over real HTTP, without Ray."""

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hab_ray.calls import EmbedCall, Failure
from hab_ray.catalog.base import LaterPrice, UsdPrice
from hab_ray.catalog.models import Limits, ModelEntry
from hab_ray.engine.budget import client
from hab_ray.engine.budget.budget import Budget, OpeningBalance
from hab_ray.engine.online import retries
from hab_ray.errors import ConfigError, FailureKind, Interrupted, LeaseLost, LeaseStale, Untrusted
from hab_ray.providers.openai.chat import OpenAIProvider
from hab_ray.providers.sdk import SdkAccount
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.replies.store import StoreWriter
from hab_simulator import Profile, simulator
from tests.engine.bench import HeldLease, bench, budget_of, chat, engine_at, jobs, seen_by, stream

PRICED = {"x/sim": {"models": {"*": {"price": {"input": 1, "output": 2}}}}}


async def test_a_rising_price_is_booked_from_its_day_on(tmp_path: Path) -> None:
    """The hard budget holds a call back that it could not pay for at the price of one of the next days."""

    def at(hour: int) -> Callable[[], datetime]:
        return lambda: datetime(2026, 11, 27, 23, tzinfo=UTC) + timedelta(hours=hour)

    later = (LaterPrice(start=date(2026, 12, 1), price=UsdPrice(input=2, output=4)),)
    costs, is_open = [], []
    async with simulator(Profile.model_validate({"accounts": PRICED})) as url:
        for number, hour in enumerate((0, 24, 97)):
            call, folder = chat("a", f"question {number}"), tmp_path / str(number)
            async with engine_at(url, folder, "a", later=later, today=at(hour)) as b:
                await b.complete([call])
                answer = b.stored("a")[call.key]
            costs.append(answer.cost_nanousd / (answer.usage.input * 1000 + answer.usage.output * 2000))
            budget = budget_of(700_000)
            async with engine_at(url, folder / "poor", "a", later=later, today=at(hour), budget=budget) as b:
                is_open.append(bool((await b.complete([chat("a", f"other {number}")])).open))
    assert costs == [1, 1, 2] and is_open == [False, True, True]


async def test_fault_storm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row is lost in a storm of faults, and lost answers are counted at their cost."""
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.01)
    faults = [
        {"kind": "status", "status": 429, "retry_after_s": 0.05, "probability": 0.05},
        {"kind": "status", "status": 500, "probability": 0.05},
        {"kind": "reset", "probability": 0.05},
        {"kind": "truncated", "probability": 0.05, "first_attempts": 1},
    ]
    calls = [chat("a", f"question {n}") for n in range(200)]
    async with bench(tmp_path, "a", faults=faults, seed=3, accounts=PRICED) as b:
        counters, meter = await b.complete(calls), await b.meter()
        assert set(b.stored("a")) == {c.key for c in calls}
    assert counters.finished[0] == 200 and not counters.open and counters.retries >= 20
    assert meter["nanousd"] - meter["lost_nanousd"] == counters.cost_nanousd > 0
    assert meter["billed"] == 200 + meter["lost_after_billing"] > 200
    assert 0 < meter["lost_nanousd"] < meter["nanousd"]


async def test_persistent_server_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server error that persists leaves the row open and stores nothing."""
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.01)
    faults = [{"kind": "status", "status": 500, "probability": 1.0}]
    async with bench(tmp_path, "a", faults=faults) as b:
        counters = await b.complete([chat("a", "hello")])
        assert (await b.meter())["received"] == 6 and not b.stored("a")
    (row,) = counters.open
    assert (row.row_id, counters.finished[0]) == ("row-0", 0) and "tried 6 times" in row.reason


async def test_unknown_model(tmp_path: Path) -> None:
    """An unknown model is stopped; the other one goes on."""
    calls = [chat("gone", f"g {n}") for n in range(60)] + [chat("a", f"a {n}") for n in range(60)]
    limits = Limits(concurrent=2, patience_s=5)
    async with bench(tmp_path, "a", "gone", limits=limits, accounts={"x/sim": {"models": {"a": {}}}}) as b:
        counters = await b.complete(calls)
        assert (await b.meter())["refused"] <= 2
    assert counters.finished[0] == 60 and len(counters.open) == 60 and set(counters.stops) == {"gone"}


async def test_exhausted_quota(tmp_path: Path) -> None:
    """An exhausted quota stops the provider."""
    limits = Limits(concurrent=4, patience_s=5)
    async with bench(tmp_path, "a", limits=limits, accounts={"x/sim": {"quota_calls": 10}}) as b:
        counters = await b.complete([chat("a", f"a {n}") for n in range(100)])
        assert (await b.meter())["refused"] <= 4
    assert counters.finished[0] == 10 and len(counters.open) == 90 and "insufficient_quota" in counters.stops[""]


async def test_broken_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that cannot read an answer stops the provider; what was charged counts as spent."""
    monkeypatch.setattr(OpenAIProvider, "read_chat", lambda self, body: body["choice"])
    budget = budget_of(None)
    async with (
        simulator(Profile.model_validate({"accounts": PRICED})) as url,
        engine_at(url, tmp_path, "a", limits=Limits(concurrent=4, patience_s=5), budget=budget) as b,
    ):
        counters = await b.complete([chat("a", f"a {n}") for n in range(100)])
        meter = await b.meter()
    assert meter["billed"] <= 4 and budget.spent >= meter["nanousd"] > 0
    assert len(counters.open) == 100 and "KeyError: 'choice'" in counters.stops[""]


async def test_unreachable_endpoint(tmp_path: Path) -> None:
    """An unreachable endpoint is probed, and given up when patience runs out; no call counts as sent."""
    limits = Limits(concurrent=4, patience_s=0.6)
    async with engine_at("http://127.0.0.1:9", tmp_path, "a", limits=limits) as b:
        counters = await asyncio.wait_for(b.complete([chat("a", f"{n}") for n in range(30)]), 20)
    assert len(counters.open) == 30 and "not reachable" in counters.stops[""] and counters.retries < 15
    assert counters.calls == counters.traffic["a"].sent == 0


async def test_untrusted_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that cannot be verified stops the provider; nothing counts as sent or spent."""

    async def post(*_: object) -> None:
        raise Untrusted(FailureKind.CONNECTION, "cannot be verified")

    monkeypatch.setattr(SdkAccount, "post", post)
    async with engine_at("http://127.0.0.1:9", tmp_path, "a", budget=budget_of(10**9)) as b:
        counters = await b.complete([chat("a", f"{n}") for n in range(30)])
    assert len(counters.open) == 30 and counters.stops == {"": "cannot be verified"}
    assert counters.calls == counters.spent_nanousd == counters.lost_nanousd == 0


async def test_slow_model(tmp_path: Path) -> None:
    """A slow model does not hold up a fast one."""
    latency = {"slow": {"latency": {"kind": "fixed", "value_s": 1.0}}, "*": {}}
    calls = [c for n in range(10) for c in (chat("slow", f"s {n}"), chat("fast", f"f {n}"))]
    limits = Limits(concurrent=2, patience_s=5)
    accounts = {"x/sim": {"models": latency}}
    async with bench(tmp_path, "slow", "fast", limits=limits, accounts=accounts) as b, b.engine:
        work = asyncio.create_task(b.engine.complete(stream(jobs(calls))))
        async with asyncio.timeout(60):
            while len(b.stored("fast")) < 10:
                await asyncio.sleep(0.1)
        assert len(b.stored("slow")) < 10
        await work


async def test_limit_from_headers(tmp_path: Path) -> None:
    """A limit that only response headers state is kept."""
    models = {"a": {"requests_per_minute": 600, "latency": {"kind": "fixed", "value_s": 0.2}}}
    calls = [chat("a", f"question {n}") for n in range(400)]
    limits = Limits(concurrent=400)
    async with bench(tmp_path, "a", limits=limits, accounts={"x/sim": {"models": models}}) as b, b.engine:
        work = asyncio.create_task(b.engine.complete(stream(jobs(calls))))
        await asyncio.sleep(3)
        meter = await b.meter()
        assert 30 <= meter["billed"] <= 32 + 40 and meter["refused"] == 0
        await b.engine.stop()
        with pytest.raises(Interrupted):
            await work


async def test_embedding_lists(tmp_path: Path) -> None:
    """Texts are embedded in lists, and a refused text fails alone."""
    calls = [EmbedCall("sim", "emb", None, f"text {n}") for n in range(40)]
    calls[13] = EmbedCall("sim", "emb", None, "")
    async with bench(tmp_path, "emb") as b:
        await b.complete(calls)
        stored, meter = b.stored("emb"), await b.meter()
    assert isinstance(stored[calls[13].key], Failure)
    vectors = {c.text: stored[c.key].vector for c in calls if c.text}
    assert len(set(vectors.values())) == 39 and all(len(v) % 4 == 0 and v for v in vectors.values())
    assert meter["received"] < 20


async def test_longest_list(tmp_path: Path) -> None:
    """Lists are no longer than the vendor's maximum, whatever the catalogue says."""
    calls = [EmbedCall("sim", "emb", None, f"text {n}") for n in range(300)]
    default = ModelEntry(provider="sim", wire="emb").list_size
    async with simulator(Profile(keep_bodies=True)) as url:
        async with engine_at(url, tmp_path, "emb", kind="google", list_size=default) as b:
            await b.complete(calls)
        bodies = await seen_by(url, "_calls")
    assert default > 100
    assert [len(json.loads(call["body"])["requests"]) for call in bodies] == [100, 100, 100]


async def test_lost_lease(tmp_path: Path) -> None:
    """A lost lease ends spending; paid replies are written."""
    lease, latency = HeldLease(), {"kind": "fixed", "value_s": 0.3}
    limits = Limits(concurrent=10, patience_s=5)
    async with bench(tmp_path, "a", limits=limits, lease=lease, latency=latency) as b:
        with pytest.raises(LeaseLost):
            async with b.engine:
                work = asyncio.create_task(b.engine.complete(stream(jobs([chat("a", f"{n}") for n in range(100)]))))
                async with asyncio.timeout(60):
                    while len(b.stored("a")) < 10:
                        await asyncio.sleep(0.05)
                lease.problem = LeaseLost("taken over")
                await work
        meter = await b.meter()
        assert 10 <= meter["billed"] == len(b.stored("a")) < 100


async def test_stale_lease(tmp_path: Path) -> None:
    """While the lease is stale nothing is sent and nothing given up; work continues once the lease is renewed."""
    lease, latency = HeldLease(), {"kind": "fixed", "value_s": 0.2}
    limits = Limits(concurrent=10, patience_s=5)
    async with bench(tmp_path, "a", limits=limits, lease=lease, latency=latency) as b, b.engine:
        work = asyncio.create_task(b.engine.complete(stream(jobs([chat("a", f"{n}") for n in range(40)]))))
        while not b.engine.in_flight:
            await asyncio.sleep(0.01)
        lease.problem = LeaseStale("not renewed")
        while b.engine.in_flight:
            await asyncio.sleep(0.01)
        sent = (await b.meter())["received"]
        await asyncio.sleep(0.5)
        assert (await b.meter())["received"] == sent < 40 and not work.done()
        lease.problem = None
        await work
        assert len(b.stored("a")) == 40 and not b.engine.counters.open


async def test_stop_while_the_lease_is_stale(tmp_path: Path) -> None:
    """Calls waiting for the lease are released at once, and none of them is sent once it is renewed."""
    lease = HeldLease(LeaseStale("not renewed"))
    async with bench(tmp_path, "a", lease=lease) as b:
        async with b.engine:
            work = asyncio.create_task(b.engine.complete(stream(jobs([chat("a", f"{n}") for n in range(40)]))))
            await asyncio.sleep(0.3)
            begun = time.monotonic()
            await b.engine.stop(20)
            lease.problem = None
            with pytest.raises(Interrupted):
                await work
        assert time.monotonic() - begun < 15 and (await b.meter())["received"] == 0


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left"), MemoryError("No space left"), ConfigError("No space left [QuotaExceeded]")]
)
async def test_full_disk(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies paid for when disk or memory fills up, or a bucket refuses them, are written once it takes them.

    That calls which follow from them cannot be written then loses no reply.
    """
    full = True
    write = StoreWriter.write

    def written(writer: StoreWriter, taken: Any) -> Any:
        if full:
            raise error
        return write(writer, taken)

    def make_room() -> None:
        nonlocal full
        full = False

    def follow(_: object) -> None:
        raise error

    monkeypatch.setattr(StoreWriter, "write", written)
    async with (
        simulator(Profile.model_validate({"latency": {"kind": "fixed", "value_s": 0.05}})) as url,
        engine_at(url, tmp_path, "a", limits=Limits(concurrent=20), make_room=make_room, on_durable=follow) as b,
    ):
        with pytest.raises(type(error), match="No space left"):
            await b.complete([chat("a", f"{n}") for n in range(1000)])
        assert 0 < (await b.meter())["billed"] == len(b.stored("a")) < 1000
        counted = b.engine.snapshot()
        assert not counted.stops and not counted.lost_nanousd


@pytest.mark.parametrize("error", [OSError(28, "full"), ConfigError("[ExpiredToken]"), LeaseStale("not renewed")])
async def test_an_engine_ends_although_its_budget_takes_nothing_back(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "REBALANCE_EVERY_S", 60.0)  # what is left is returned at the end, and not before
    failed: list[Exception] = []
    is_ending = False

    def keep(_: object) -> None:
        if is_ending:
            failed.append(error)
            raise error

    budget = Budget(10**12, OpeningBalance(), keep)
    async with simulator(Profile()) as url, engine_at(url, tmp_path, "a", budget=budget) as b:
        async with b.engine:
            await b.engine.complete(stream(jobs([chat("a", f"{n}") for n in range(5)])))
            is_ending = True
        counted = b.engine.snapshot()
        assert failed and counted.spent_nanousd > 0 == counted.lost_nanousd and len(b.stored("a")) == 5


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ConfigError("expired [ExpiredToken]")])
async def test_paid_replies_that_cannot_be_written_are_counted(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of another model, which it could take, are not."""
    put_new = LocalFolder.put_new

    def put(folder: LocalFolder, name: str, data: bytes) -> None:
        if "/a" in name:
            raise error
        put_new(folder, name, data)

    monkeypatch.setattr(LocalFolder, "put_new", put)
    async with bench(tmp_path, "b", "a", latency={"kind": "fixed", "value_s": 0.3}) as b:
        async with b.engine:
            calls = [chat("b", "first"), *(chat("a", f"{n}") for n in range(3))]
            work = asyncio.create_task(b.engine.complete(stream(jobs(calls))))
            while b.engine.in_flight < 4:
                await asyncio.sleep(0.01)
            await b.engine.stop(20)
            with pytest.raises(Interrupted):
                await work
        counted = b.engine.snapshot()
        assert (await b.meter())["billed"] == 4 and not b.stored("a")
        assert counted.stops[""].startswith(f"3 replies could not be written ({error})")
        (stored,) = b.stored("b").values()
        assert counted.lost_nanousd == counted.spent_nanousd - stored.cost_nanousd > 0 < stored.cost_nanousd
