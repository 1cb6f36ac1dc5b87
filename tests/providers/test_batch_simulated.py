"""Round trips through the simulator, which plays the vendor and not our friend."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from hab_ray.calls import Answer, EmbedCall, Message, Params, Role
from hab_ray.errors import CallError, ModelError, RowError
from hab_ray.errors import FailureKind as Kind
from hab_ray.providers import connect_batch
from hab_ray.providers.base import Endpoint, Provider, Wire
from hab_ray.providers.batching import BatchApi, BatchJob, BatchStatus, InDoubt, ResultsGone
from hab_ray.providers.batching import Line as ResultLine
from tests.providers.batch_vendor import KINDS
from tests.providers.conftest import BASE, KEY, Connect, chat_call, entry
from tests.simulator.conftest import Line, Start

TURNAROUND_S = 0.15
SMALL = {"context_tokens": 20, "output_tokens": 100}
MODELS: dict[str, Any] = {"m": {}, "e": {"serves": ["embeddings"], "vector": 256}, "small": SMALL}
Begin = Callable[..., Awaitable[tuple[Line, BatchApi, Provider]]]


@pytest.fixture
async def begin(simulate: Start, provider_of: Connect) -> AsyncIterator[Begin]:
    """Connects to a simulated vendor, by batch and online; closed after the test."""
    opened: list[BatchApi] = []

    async def connected(kind: str, batch: dict[str, Any] | None = None, **more: Any) -> tuple[Line, BatchApi, Provider]:
        batch = {"turnaround": {"kind": "fixed", "value_s": TURNAROUND_S}, **(batch or {})}
        line = await simulate(accounts={kind: {"models": MODELS, "batch": batch}}, **more)
        opened.append(connect_batch(Endpoint("p", kind, line.url + BASE[kind], KEY, 20.0)))
        return line, opened[-1], provider_of(kind, line.url)

    yield connected
    for api in opened:
        await api.close()


def wires(provider: Provider, count: int = 6) -> dict[str, Wire]:
    """Chat requests by custom id; each text holds what ends a line elsewhere."""
    texts = [f"Question {n}:\u2028should I\u0085 sell\n my {'house' * n}?" for n in range(count)]
    calls = [chat_call(Params(200), messages=(Message(Role.USER, text),)) for text in texts]
    return {f"row-{n}": provider.chat(call, entry("m")) for n, call in enumerate(calls)}


def packed(api: BatchApi, wires: dict[str, Wire], tag: str = "hab-run-1", model: str = "m") -> BatchJob:
    lines = b"".join(api.line(custom_id, wire) + b"\n" for custom_id, wire in wires.items())
    first = next(iter(wires.values()))
    return BatchJob(tag, model, first.path, first.version, lines, len(wires))


async def ended(api: BatchApi, batch_id: str) -> BatchStatus:
    async with asyncio.timeout(20):
        while not (status := await api.poll(batch_id)).ended:
            assert status.known and status.problem is None
            await asyncio.sleep(0.05)
    return status


async def harvest(api: BatchApi, job: BatchJob) -> tuple[BatchStatus, list[ResultLine]]:
    status = await ended(api, await api.submit(job))
    return status, [line async for line in api.results(status)]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_batch_brings_what_the_same_bodies_bring_online(kind: str, begin: Begin) -> None:
    _, api, provider = await begin(kind, {"separators": 1.0})
    sent = wires(provider, 30)
    status, lines = await harvest(api, packed(api, sent))
    assert (status.done, status.failed, status.problem) == (30, 0, None)
    assert {one.custom_id for one in lines} == set(sent) and len(lines) == 30
    assert [one.custom_id for one in lines] != list(sent)
    answers: dict[str, Answer] = {}
    for one in lines:
        assert one.body is not None, one.error
        answers[one.custom_id] = provider.read_chat(one.body)
    for custom_id, wire in list(sent.items())[:5]:
        online = provider.read_chat((await provider.send(wire)).body)
        batch = answers[custom_id]
        assert (batch.finish, batch.model_reported) == (online.finish, online.model_reported)
        assert batch.usage.input == online.usage.input
        assert batch.text.replace("\u2028", " ").split() == online.text.split()
    assert any("\u2028" in answer.text for answer in answers.values())


@pytest.mark.parametrize("kind", ["openai", "google"])
async def test_embeddings_are_those_of_online(kind: str, begin: Begin) -> None:
    _, api, provider = await begin(kind)
    sent = {f"row-{n}": provider.embed([EmbedCall("p", "e", None, f"cat {n}", 128)], entry("e")) for n in range(8)}
    _, lines = await harvest(api, packed(api, sent, model="e"))
    assert len(lines) == 8
    for one in lines:
        assert one.body is not None, one.error
        batch = provider.read_embeddings(one.body, 1)
        online = provider.read_embeddings((await provider.send(sent[one.custom_id])).body, 1)
        assert batch.vectors == online.vectors and batch.usage == online.usage


@pytest.mark.parametrize("kind", KINDS)
async def test_the_list_finds_a_batch_whose_answer_was_lost(kind: str, begin: Begin) -> None:
    line, api, provider = await begin(kind, batch_faults=[{"kind": "lost_create", "account": kind, "ordinal": 2}])
    job = packed(api, wires(provider), "hab-run-2")
    first = await api.submit(packed(api, wires(provider, 2)))
    assert await api.newest() == first
    with pytest.raises(InDoubt):
        await api.submit(job)
    assert len(await line.get("/_batches")) == 2
    (orphan,) = await api.since(first)
    assert orphan.id != first and orphan.created is not None
    if kind != "anthropic":
        assert orphan.tag == "hab-run-2"
    assert orphan.rows in (None, 6) if kind == "openai" else orphan.rows == 6
    status = await ended(api, orphan.id)
    assert len([one async for one in api.results(status)]) == 6


@pytest.mark.parametrize("kind", KINDS)
async def test_a_batch_can_be_ended_and_everything_deleted(kind: str, begin: Begin) -> None:
    _, api, provider = await begin(kind, batch_faults=[{"kind": "stuck", "done": 0.5}])
    batch_id = await api.submit(packed(api, wires(provider)))
    await asyncio.sleep(TURNAROUND_S * 1.5)
    assert not (await api.poll(batch_id)).ended
    await api.cancel(batch_id)
    status = await ended(api, batch_id)
    await api.cancel(batch_id)
    kept = [one async for one in api.results(status)]
    assert len(kept) == (0 if kind == "google" else 6)
    await api.clean_up(status)
    await api.clean_up(status)
    if kind == "google":
        with pytest.raises(ResultsGone):
            await api.poll(batch_id)
    elif kind == "xai":
        assert len([one async for one in api.results(status)]) == 6
    else:
        with pytest.raises(ResultsGone):
            assert [one async for one in api.results(status)]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_text_too_long_is_its_rows_fault_and_a_limit_too_high_the_models(kind: str, begin: Begin) -> None:
    _, api, provider = await begin(kind)
    long, small = "a" * 99, entry("small")
    chats = {
        "long": provider.chat(chat_call(messages=(Message(Role.USER, long),)), small),
        "limit": provider.chat(chat_call(Params(101)), small),
    }
    files = [chats]
    if kind in ("openai", "google"):
        files.append({"long": provider.embed([EmbedCall("p", "small", None, long)], small)})
    for sent in files:
        _, lines = await harvest(api, packed(api, sent, model="small"))
        by_batch = {line.custom_id: line.error for line in lines}
        for custom_id, wire in sent.items():
            with pytest.raises(CallError) as online:
                await provider.send(wire)
            expected = (RowError, Kind.TOO_LONG) if custom_id == "long" else (ModelError, Kind.BAD_REQUEST)
            for refused in (online.value, by_batch[custom_id]):
                assert refused and (type(refused), refused.kind) == expected, refused
