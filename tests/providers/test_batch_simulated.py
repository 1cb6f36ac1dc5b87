"""Round trips through the simulator, which plays the vendor and not our friend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hab_ray.calls import Answer, EmbedCall, Message, Params, Role
from hab_ray.errors import CallError, FailureKind, ModelError, RateLimited, RowError, TransientError
from hab_ray.providers import connect_batch
from hab_ray.providers.base import Endpoint, Wire
from hab_ray.providers.batching import BatchApi, BatchJob, BatchStatus, InDoubt, Line, ResultsGone
from tests.providers.batch_vendor import KINDS
from tests.providers.conftest import BASE, KEY, Connect, Simulate, Simulated, chat_call, entry

TURNAROUND_S = 0.15
MODELS: dict[str, Any] = {"m": {}, "e": {"serves": ["embeddings"], "vector": 256}}
ConnectBatch = Callable[[str, str], BatchApi]


@pytest.fixture
async def batches_of() -> AsyncIterator[ConnectBatch]:
    """Connect to the batch API of a simulated vendor; closed after the test."""
    opened: list[BatchApi] = []

    def begin(kind: str, url: str) -> BatchApi:
        opened.append(connect_batch(Endpoint("p", kind, url + BASE[kind], KEY, 20.0)))
        return opened[-1]

    yield begin
    for api in opened:
        await api.close()


def account(kind: str, **more: Any) -> dict[str, Any]:
    batch = {"turnaround": {"kind": "fixed", "value_s": TURNAROUND_S}, **more.pop("batch", {})}
    return {"accounts": {kind: {"models": MODELS, "batch": batch, **more.pop("account", {})}}, **more}


def wires(kind: str, url: str, provider_of: Connect, count: int = 6) -> dict[str, Wire]:
    """Chat requests by custom id; each text holds what ends a line elsewhere."""
    provider = provider_of(kind, url)
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


async def harvest(api: BatchApi, job: BatchJob) -> tuple[BatchStatus, list[Line]]:
    status = await ended(api, await api.submit(job))
    return status, [line async for line in api.results(status)]


async def made(line: Simulated) -> int:
    """The batches the simulator holds, seen by nobody's client."""
    async with line.session.get(f"{line.url}/_batches") as response:
        return len(await response.json())


@pytest.mark.parametrize("kind", KINDS)
async def test_a_batch_brings_what_the_same_bodies_bring_online(
    kind: str, simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    line = await simulate(**account(kind, batch={"separators": 1.0}))
    api, provider = batches_of(kind, line.url), provider_of(kind, line.url)
    sent = wires(kind, line.url, provider_of, 30)
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
        assert (batch.finish, batch.model_reported, batch.usage.input) == (
            online.finish,
            online.model_reported,
            online.usage.input,
        )
        assert batch.text.replace("\u2028", " ").split() == online.text.split()
    assert any("\u2028" in answer.text for answer in answers.values())


@pytest.mark.parametrize("kind", ["openai", "google"])
async def test_embeddings_are_those_of_online(
    kind: str, simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    line = await simulate(**account(kind))
    api, provider = batches_of(kind, line.url), provider_of(kind, line.url)
    sent = {f"row-{n}": provider.embed([EmbedCall("p", "e", None, f"cat {n}", 128)], entry("e")) for n in range(8)}
    _, lines = await harvest(api, packed(api, sent, model="e"))
    assert len(lines) == 8
    for one in lines:
        assert one.body is not None, one.error
        batch = provider.read_embeddings(one.body, 1)
        online = provider.read_embeddings((await provider.send(sent[one.custom_id])).body, 1)
        assert batch.vectors == online.vectors and batch.usage == online.usage


async def test_gemini_may_answer_inline(simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch) -> None:
    kind = "google"
    line = await simulate(**account(kind, batch={"inline_rows": 100}))
    api = batches_of(kind, line.url)
    sent = wires(kind, line.url, provider_of)
    status, lines = await harvest(api, packed(api, sent))
    assert status.results == (status.id,)
    assert {one.custom_id for one in lines if one.body} == set(sent)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_list_finds_a_batch_whose_answer_was_lost(
    kind: str, simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    lost = {"kind": "lost_create", "account": kind, "ordinal": 2}
    line = await simulate(**account(kind), batch_faults=[lost])
    api = batches_of(kind, line.url)
    job = packed(api, wires(kind, line.url, provider_of), "hab-run-2")
    first = await api.submit(packed(api, wires(kind, line.url, provider_of, 2)))
    assert await api.newest() == first
    with pytest.raises(InDoubt):
        await api.submit(job)
    assert await made(line) == 2
    (orphan,) = await api.since(first)
    assert orphan.id != first and orphan.created is not None
    if kind != "anthropic":
        assert orphan.tag == "hab-run-2"
    assert orphan.rows in (None, 6) if kind == "openai" else orphan.rows == 6
    status = await ended(api, orphan.id)
    assert len([one async for one in api.results(status)]) == 6


@pytest.mark.parametrize("kind", KINDS)
async def test_a_create_answered_by_500_leaves_an_empty_list(
    kind: str, simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    line = await simulate(**account(kind), batch_faults=[{"kind": "refused_create", "status": 500}])
    api = batches_of(kind, line.url)
    with pytest.raises(InDoubt):
        await api.submit(packed(api, wires(kind, line.url, provider_of)))
    assert await api.newest() is None and await api.since(None) == [] and await made(line) == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_more_batches_than_a_page_holds(
    kind: str, simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    line = await simulate(**account(kind, batch={"turnaround": {"kind": "fixed", "value_s": 600}}))
    api = batches_of(kind, line.url)
    job = packed(api, wires(kind, line.url, provider_of, 1))
    ids = [await api.submit(job) for _ in range(103)]
    assert [batch.id for batch in await api.since(None)] == ids[::-1]
    assert [batch.id for batch in await api.since(ids[1])] == ids[:1:-1]
    assert await api.newest() == ids[-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["expired", "cancelled"])
async def test_what_was_done_before_the_end_is_kept_where_the_vendor_keeps_it(
    kind: str, fault: str, simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    line = await simulate(**account(kind), batch_faults=[{"kind": fault, "done": 0.5}])
    api = batches_of(kind, line.url)
    status, lines = await harvest(api, packed(api, wires(kind, line.url, provider_of, 40)))
    assert status.ended and status.problem is None
    if kind == "google":
        assert lines == []
        return
    undone = FailureKind.TIMEOUT if fault == "expired" else FailureKind.STOPPED
    errors = [one.error for one in lines if one.error]
    assert {(type(error), error.kind) for error in errors} == {(TransientError, undone)}
    assert len({one.custom_id for one in lines}) == 40 and 10 < len(errors) < 30
    assert status.done == 40 - len(errors)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_batch_can_be_ended_and_everything_deleted(
    kind: str, simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    line = await simulate(**account(kind), batch_faults=[{"kind": "stuck", "done": 0.5}])
    api = batches_of(kind, line.url)
    batch_id = await api.submit(packed(api, wires(kind, line.url, provider_of)))
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


@pytest.mark.parametrize("kind", ["openai", "google", "xai"])
async def test_a_batch_refused_for_its_input_says_why(
    kind: str, simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    line = await simulate(**account(kind), batch_faults=[{"kind": "invalid"}])
    api = batches_of(kind, line.url)
    status, lines = await harvest(api, packed(api, wires(kind, line.url, provider_of)))
    assert type(status.problem) is RowError and lines == []


async def test_anthropic_refuses_the_lines_instead(
    simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    kind = "anthropic"
    line = await simulate(**account(kind), batch_faults=[{"kind": "invalid"}])
    api = batches_of(kind, line.url)
    _, lines = await harvest(api, packed(api, wires(kind, line.url, provider_of)))
    assert [type(one.error) for one in lines] == [RowError] * 6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("faults", "error"),
    [
        ({"failed": 1.0, "failed_status": 500}, TransientError),
        ({"failed": 1.0, "failed_status": 429}, RateLimited),
        ({"refused": 1.0}, RowError),
    ],
)
async def test_a_batch_in_which_every_line_failed(
    kind: str,
    faults: dict[str, object],
    error: type[CallError],
    simulate: Simulate,
    provider_of: Connect,
    batches_of: ConnectBatch,
) -> None:
    line = await simulate(**account(kind, batch={"lines": faults}))
    api = batches_of(kind, line.url)
    status, lines = await harvest(api, packed(api, wires(kind, line.url, provider_of)))
    assert (status.done, status.failed, status.problem) == (0, 6, None)
    assert sorted(one.custom_id for one in lines) == [f"row-{n}" for n in range(6)]
    assert [type(one.error) for one in lines] == [error] * 6


@pytest.mark.parametrize("kind", KINDS)
async def test_missing_doubled_and_foreign_lines_are_handed_on_as_they_are(
    kind: str, simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    line = await simulate(**account(kind, batch={"lines": {"missing": 0.3, "doubled": 0.3, "foreign": 0.2}}))
    api = batches_of(kind, line.url)
    sent = wires(kind, line.url, provider_of, 40)
    _, lines = await harvest(api, packed(api, sent))
    ids = [one.custom_id for one in lines]
    assert set(sent) - set(ids) and set(ids) - set(sent) and len(ids) > len(set(ids))


@pytest.mark.parametrize("kind", KINDS)
async def test_polls_that_fail_say_nothing_of_the_batch(
    kind: str, simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    faults = [
        {"kind": "poll_error", "ordinal": 1, "status": 404},
        {"kind": "poll_error", "ordinal": 2, "status": 503},
        {"kind": "odd_state", "ordinal": 3},
    ]
    slow = {"turnaround": {"kind": "fixed", "value_s": 2}}
    line = await simulate(**account(kind, batch=slow), batch_faults=faults)
    api = batches_of(kind, line.url)
    ids = [await api.submit(packed(api, wires(kind, line.url, provider_of))) for _ in range(3)]
    with pytest.raises(ResultsGone):
        await api.poll(ids[0])
    with pytest.raises(TransientError):
        await api.poll(ids[1])
    odd = await api.poll(ids[2])
    assert not odd.known and not odd.ended and odd.word
    assert [(await ended(api, batch_id)).done for batch_id in ids] == [6, 6, 6]


@pytest.mark.parametrize("kind", KINDS)
async def test_results_that_break_off_can_be_read_again(
    kind: str, simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    line = await simulate(**account(kind), batch_faults=[{"kind": "cut_results", "downloads": 1}])
    api = batches_of(kind, line.url)
    status = await ended(api, await api.submit(packed(api, wires(kind, line.url, provider_of))))
    with pytest.raises(TransientError):
        assert [one async for one in api.results(status)]
    assert len([one async for one in api.results(status)]) == 6


async def test_a_full_queue_at_openai_is_told_by_the_batch(
    simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    kind = "openai"
    models = {"m": {"batch_queue_tokens": 20}}
    line = await simulate(**account(kind, account={"models": models}))
    api = batches_of(kind, line.url)
    status, lines = await harvest(api, packed(api, wires(kind, line.url, provider_of)))
    assert type(status.problem) is RateLimited and status.results == () and lines == []


@pytest.mark.parametrize(
    ("kind", "limits"),
    [
        ("anthropic", {"batch_queue_rows": 5}),
        ("google", {"models": {"m": {"batch_queue_tokens": 20}}}),
    ],
)
async def test_a_full_queue_elsewhere_is_told_at_once(
    kind: str, limits: dict[str, Any], simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    line = await simulate(**account(kind, account=limits))
    api = batches_of(kind, line.url)
    with pytest.raises(RateLimited):
        await api.submit(packed(api, wires(kind, line.url, provider_of)))
    assert await made(line) == 0


async def test_gemini_takes_so_many_batches_at_once(
    simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    kind = "google"
    line = await simulate(
        **account(kind, account={"batch_jobs": 1}, batch={"turnaround": {"kind": "fixed", "value_s": 60}})
    )
    api = batches_of(kind, line.url)
    job = packed(api, wires(kind, line.url, provider_of))
    await api.submit(job)
    with pytest.raises(RateLimited):
        await api.submit(job)


async def test_gemini_knows_models_when_the_batch_is_made(
    simulate: Simulate, provider_of: Connect, batches_of: ConnectBatch
) -> None:
    kind = "google"
    line = await simulate(**account(kind))
    api = batches_of(kind, line.url)
    wire = provider_of(kind, line.url).chat(chat_call(), entry("nobodys"))
    with pytest.raises(ModelError):
        await api.submit(packed(api, {"row-1": wire}))
