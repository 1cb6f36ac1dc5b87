"""Faults depend on seed, body and attempt, never on the order of arrival; what bills is explicit."""

import asyncio
import json
import time
from functools import partial
from random import Random
from typing import Any

import aiohttp
import pytest

from hab_simulator.faults import FAULTS, FaultPlan
from hab_simulator.latency import LognormalLatency
from tests.simulator import batches
from tests.simulator.conftest import KEYS, Line, Start, until

CHAT = "/openai/v1/chat/completions"
chat = partial(batches.chat, model="m")
MIX = [
    {"kind": "status", "status": 429, "probability": 0.2},
    {"kind": "status", "status": 500, "probability": 0.2},
    {"kind": "reset", "probability": 0.1},
    {"kind": "truncated", "probability": 0.1},
]


async def fate(line: Line, number: int) -> str:
    """What a caller sees of one call."""
    try:
        async with line.session.post(line.url + CHAT, json=chat(number), headers=KEYS) as response:
            await response.read()
            return str(response.status)
    except aiohttp.ServerDisconnectedError:
        return "reset"
    except aiohttp.ClientPayloadError:
        return "truncated"
    except aiohttp.ClientOSError:
        return "reset"


async def test_the_order_of_arrival_changes_nothing(start: Start) -> None:
    numbers = [number % 60 for number in range(180)]
    shuffled = Random(1).sample(numbers, len(numbers))
    seen = []
    for order, concurrent in [(numbers, 1), (shuffled, 1), (shuffled, 20)]:
        line = await start(seed=5, faults=MIX)
        gate = asyncio.Semaphore(concurrent)

        async def one(number: int, line: Line = line, gate: asyncio.Semaphore = gate) -> tuple[int, str]:
            async with gate:
                return number, await fate(line, number)

        seen.append(sorted(await asyncio.gather(*(one(number) for number in order))))
    assert seen[0] == seen[1] == seen[2]
    assert {word for _, word in seen[0]} == {"200", "429", "500", "reset", "truncated"}


async def test_another_seed_is_another_plan_and_shares_come_out() -> None:
    rules = FAULTS.validate_python([{"kind": "reset", "probability": 0.3}])
    hits = []
    for seed in (1, 2):
        plan = FaultPlan(seed, rules)
        digests = [str(number).encode() for number in range(2000)]
        hits.append([plan.strike("a", "m", "p", digest, 1) is not None for digest in digests])
    assert hits[0] != hits[1]
    assert all(540 < sum(one) < 660 for one in hits)


async def test_what_a_fault_bills(start: Start) -> None:
    kinds: list[tuple[dict[str, Any], str, int, int, int]] = [
        ({"kind": "status", "status": 503}, "503", 0, 0, 1),
        ({"kind": "reset"}, "reset", 0, 0, 1),
        ({"kind": "reset", "billed": True}, "reset", 1, 1, 0),
        ({"kind": "truncated"}, "truncated", 1, 1, 0),
        ({"kind": "slow", "seconds": 0.1}, "200", 1, 0, 0),
        ({"kind": "delay", "seconds": 0.1}, "200", 1, 0, 0),
    ]
    for fault, seen, billed, lost, faulted in kinds:
        line = await start(faults=[fault | {"probability": 1}])
        began = time.perf_counter()
        assert await fate(line, 1) == seen
        assert time.perf_counter() - began > fault.get("seconds", 0)
        meter = await line.get("/_meter")
        counts = (meter["billed"], meter["lost_after_billing"], meter["faulted"], meter["refused"])
        assert counts == (billed, lost, faulted, 0), fault


async def test_a_hang_never_answers_and_ends_with_the_caller(start: Start) -> None:
    line = await start(faults=[{"kind": "hang", "probability": 1, "billed": True}])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await fate(line, 1)
    meter = await until(line, in_flight=0)
    assert (meter["billed"], meter["lost_after_billing"]) == (1, 1)


async def test_rules_touch_what_they_name(start: Start) -> None:
    rules = [
        {"kind": "status", "status": 500, "probability": 1, "model": "gpt-*", "path": "chat/*"},
        {"kind": "status", "status": 503, "probability": 1, "account": "x/groq", "first_attempts": 2},
    ]
    line = await start(faults=rules)
    body = chat(1) | {"model": "gpt-4.1"}
    groq = "/x/groq/v1/chat/completions"
    assert (await line.post(CHAT, body))[0] == 500
    assert (await line.post(CHAT, chat(1)))[0] == 200
    assert [(await line.post(groq, chat(2)))[0] for _ in range(3)] == [503, 503, 200]


async def test_retry_after_is_sent_where_asked(start: Start) -> None:
    line = await start(faults=[{"kind": "status", "status": 429, "probability": 1, "retry_after_s": 1.5}])
    assert (await line.post(CHAT, chat(1)))[1]["retry-after"] == "1.5"
    await line.control("/_faults", [{"kind": "status", "status": 429, "probability": 1}])
    status, headers, _ = await line.post(CHAT, chat(1))
    assert status == 429 and "retry-after" not in headers


async def test_a_bad_fault_plan_is_refused(start: Start) -> None:
    line = await start()
    assert await line.control("/_faults", [{"kind": "status", "status": 200, "probability": 1}]) == 400
    assert await line.control("/_nothing", {}) == 404


def test_latency_is_a_function_of_the_body_with_the_asked_mean() -> None:
    latency = LognormalLatency(mean_s=2.0, sigma=0.8)
    drawn = [latency.seconds(7, "latency", str(number).encode(), 1) for number in range(20_000)]
    assert drawn[:5] == [latency.seconds(7, "latency", str(number).encode(), 1) for number in range(5)]
    assert sum(drawn) / len(drawn) == pytest.approx(2.0, rel=0.03)
    assert min(drawn) > 0 and len(set(drawn)) == len(drawn)


async def test_replies_are_the_same_on_every_attempt(start: Start) -> None:
    line = await start(faults=[{"kind": "status", "status": 500, "probability": 1, "first_attempts": 1}])
    other = await start()
    assert (await line.post(CHAT, chat(1)))[0] == 500
    reply = (await line.post(CHAT, chat(1)))[2]
    assert json.dumps(reply) == json.dumps((await other.post(CHAT, chat(1)))[2])
    third = await start(seed=9)
    assert reply["choices"] != (await third.post(CHAT, chat(1)))[2]["choices"]
