"""Impossible numbers from a vendor, and a failing writer: other replies are kept, money is booked, nothing hangs."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from hab_ray.calls import EmbedCall, Failure, Finish, Reply
from hab_ray.catalog.models import Limits
from hab_ray.engine.budget.budget import Budget
from hab_ray.engine.jobs import Counters, Traffic, billing_notes
from hab_ray.engine.online import retries
from hab_ray.errors import FailureKind, Interrupted
from hab_ray.storage.folder import LocalFolder
from hab_ray.visible import usd
from tests.engine.bench import Bench, Told, budget_of, chat, completion, engine_before, jobs, stored, stream

USAGE = {"prompt_tokens": 10, "completion_tokens": 20}
BAD = [1e30, 10**30, -1000, 2.5, True, "twelve", float("nan"), float("inf")]
PAGE = "<html><head><title>403 Forbidden</title></head></html>"


def asked(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def engine(
    answering: Callable[[dict[str, Any]], Told], folder: Path, patience_s: float = 1.5, budget: Budget | None = None
) -> AbstractAsyncContextManager[Bench]:
    return engine_before(answering, folder, Limits(concurrent=30, patience_s=patience_s, timeout_s=10), budget)


@pytest.mark.parametrize("value", BAD, ids=str)
async def test_one_impossible_count_is_one_rows_failure_at_its_bound(tmp_path: Path, value: object) -> None:
    calls = [chat("a", f"question {n}") for n in range(20)] + [chat("a", "odd")]
    kept = budget_of(10**12)

    def answering(body: dict[str, Any]) -> Told:
        return 200, completion(USAGE | ({"completion_tokens": value} if asked(body) == "odd" else {})), {}

    async with engine(answering, tmp_path, budget=kept) as b:
        counters, found = await b.complete(calls), b.stored("a")
    failure = found.pop(calls[-1].key)
    assert len(found) == 20 and all(isinstance(reply, Reply) for reply in found.values())
    assert isinstance(failure, Failure) and failure.kind is FailureKind.BAD_USAGE
    assert "completion_tokens is " in failure.message
    assert failure.cost_nanousd > 200 * 2_000  # the whole output limit of 200 tokens, and the prompt's bytes
    assert counters.cost_nanousd == kept.spent == failure.cost_nanousd + sum(r.cost_nanousd for r in found.values())
    assert (counters.finished[0], counters.failed[0], counters.lost_nanousd, counters.open) == (21, 1, 0, [])


async def test_a_list_of_texts_with_an_impossible_bill_is_not_asked_again(tmp_path: Path) -> None:
    received: list[object] = []

    def answering(body: dict[str, Any]) -> Told:
        received.append(body)
        data = [{"index": n, "embedding": [1.0, 2.0]} for n in range(len(body["input"]))]
        return 200, {"data": data, "usage": {"prompt_tokens": -4}}, {}

    kept = budget_of(10**12)
    async with engine(answering, tmp_path, budget=kept) as b:
        await b.complete([EmbedCall("sim", "emb", None, f"text {n}") for n in range(8)])
    found = stored(tmp_path, "emb")
    assert len(found) == 8 and all(isinstance(failure, Failure) for failure in found.values())
    assert sum(failure.cost_nanousd for failure in found.values()) == kept.spent > 0
    assert len(received) < 8


async def test_counts_beyond_the_request_are_booked_as_told_and_reported(tmp_path: Path) -> None:
    told = 200, completion({"prompt_tokens": 90_000, "completion_tokens": 5000}), dict[str, str]()
    async with engine(lambda _: told, tmp_path) as b:
        counters = await b.complete([chat("a", "hello")])
    assert counters.cost_nanousd == 90_000 * 1_000 + 5000 * 2_000
    (note,) = [note for note in billing_notes([counters]) if note.startswith("a: 1 answer cost more than was reserved")]
    assert "more tokens than the requests allow, or a price that rose since their batch was sent" in note


async def test_the_vendors_own_price_is_booked_and_a_difference_is_told_once(tmp_path: Path) -> None:
    async with engine(lambda _: (200, completion(USAGE | {"cost": 0.0003}), {}), tmp_path) as b:
        counters = await b.complete([chat("a", f"question {n}") for n in range(40)])
    assert {reply.cost_nanousd for reply in stored(tmp_path, "a").values()} == {300_000}
    assert counters.cost_nanousd == 40 * 300_000
    (note,) = billing_notes([counters])
    assert note.startswith("a: the vendor states $0.012 for 40 calls, our prices give $0.002;")
    same = Counters()
    same.traffic["a"] = Traffic(stated=3, vendors_nanousd=1002, ours_nanousd=1000)
    assert not list(billing_notes([same]))


@pytest.mark.parametrize(("stated", "noted"), [({}, ["a: 3 answers"]), ({"cost": 0.000004}, [])])
async def test_answers_at_a_dearer_tier_are_reported_unless_the_vendor_states_the_price(
    stated: dict[str, Any], noted: list[str], tmp_path: Path
) -> None:
    """A project's default tier may be another than the one whose price is booked."""
    told = 200, completion(USAGE | stated) | {"service_tier": "priority"}, dict[str, str]()
    async with engine(lambda _: told, tmp_path) as b:
        counters = await b.complete([chat("a", f"question {n}") for n in range(3)])
    notes = [note for note in billing_notes([counters]) if "service tier" in note]
    assert [note.partition(" came")[0] for note in notes] == noted


async def test_the_vendors_own_price_without_token_counts_is_booked_and_compared_with_nothing(tmp_path: Path) -> None:
    async with engine(lambda _: (200, completion({"prompt_tokens": 9, "cost": 0.0003}), {}), tmp_path) as b:
        counters = await b.complete([chat("a", f"question {n}") for n in range(40)])
    assert counters.cost_nanousd == 40 * 300_000 and not list(billing_notes([counters]))


async def test_a_truncation_without_a_bill_is_kept_booked_at_its_bound_and_reported(tmp_path: Path) -> None:
    message = "Could not finish the message because max_tokens or model output limit was reached."
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    async with engine(lambda _: (400, {"error": error}, {}), tmp_path) as b:
        counters = await b.complete([chat("a", "hello")])
    (reply,) = stored(tmp_path, "a").values()
    assert isinstance(reply, Reply) and (reply.finish, reply.text) == (Finish.TRUNCATED, "")
    assert reply.cost_nanousd > 200 * 2_000
    (note,) = billing_notes([counters])
    assert "1 answer came without usable token counts" in note and f"{usd(reply.cost_nanousd)} of what is paid" in note


async def test_the_wait_that_an_overloaded_vendor_asks_for_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FIRST_BACKOFF_S", 0.01)
    times: list[float] = []

    def answering(body: dict[str, Any]) -> Told:
        times.append(time.monotonic())
        if len(times) == 1:
            return 529, {"error": {"message": "Overloaded"}}, {"retry-after": "0.6"}
        if asked(body) == "later":
            return 503, {"error": {"message": "Overloaded"}}, {"retry-after": "3600"}
        return 200, completion(USAGE), {}

    async with engine(answering, tmp_path) as b:
        async with asyncio.timeout(10), b.engine:
            await b.engine.complete(stream(jobs([chat("a", "now")])))
            await b.engine.complete(stream(jobs([chat("a", "later")])))
        (row,) = b.engine.counters.open
    assert set(stored(tmp_path, "a")) == {chat("a", "now").key}
    assert times[1] - times[0] >= 0.6
    assert "asks to wait 3600 s" in row.reason and len(times) == 3


async def test_a_stop_does_not_wait_for_a_vendors_patience(tmp_path: Path) -> None:
    seen = asyncio.Event()

    def answering(body: dict[str, Any]) -> Told:
        seen.set()
        return 503, {"error": {"message": "Overloaded"}}, {"retry-after": "300"}

    async with engine(answering, tmp_path, patience_s=600) as b:
        with pytest.raises(Interrupted):
            async with asyncio.timeout(5), b.engine:
                work = asyncio.create_task(b.engine.complete(stream(jobs([chat("a", "now")]))))
                await seen.wait()
                await asyncio.sleep(0.1)
                await b.engine.stop()
                await work


async def test_a_proxys_page_is_neither_the_models_nor_a_rows_end(tmp_path: Path) -> None:
    async with engine(lambda _: (403, PAGE, {}), tmp_path) as b:
        counters = await b.complete([chat("a", f"{n}") for n in range(3)])
    assert not stored(tmp_path, "a") and len(counters.open) == 3
    assert list(counters.stops) == [""] and "web page" in counters.stops[""]
    assert (counters.cost_nanousd, counters.lost_nanousd) == (0, 0)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyError("key"), MemoryError()])
async def test_whatever_ends_the_writer_ends_the_run_loudly(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = 0

    def broken(*_: object) -> None:
        raise error

    def answering(body: dict[str, Any]) -> Told:
        nonlocal answered
        answered += 1
        return 200, completion(USAGE), {}

    async with engine(answering, tmp_path) as b:
        monkeypatch.setattr(LocalFolder, "put_new", broken)
        with pytest.raises(type(error)):
            await b.complete([chat("a", f"{n}") for n in range(1000)])
    assert answered < 1000
