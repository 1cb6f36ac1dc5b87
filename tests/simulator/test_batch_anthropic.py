"""Anthropic's message batches, seen through the vendor's SDK in strict mode."""

import asyncio
from datetime import timedelta
from typing import Any

import anthropic
import pytest
from anthropic.types.messages import MessageBatchIndividualResponse

from hab_simulator.anthropic import batch as batches
from tests.simulator.batches import SOON, AnthropicClient, params, parsed
from tests.simulator.conftest import KEYS, Start

PATH = "/anthropic/v1/messages/batches"


async def test_from_create_to_delete(start: Start) -> None:
    line = await start(batch={"turnaround": {"kind": "fixed", "value_s": 1.0}})
    client = AnthropicClient(line)
    made = await client.submit(6)
    counts = {"processing": 6, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    assert (made.processing_status, made.request_counts.to_dict()) == ("in_progress", counts)
    assert made.expires_at - made.created_at == timedelta(days=1) and made.results_url is None
    with pytest.raises(anthropic.AnthropicError, match="results_url"):
        await client.messages.batches.results(made.id)
    with pytest.raises(anthropic.BadRequestError):
        await client.messages.batches.delete(made.id)
    ended = await client.end(made.id)
    assert ended.ended_at and ended.request_counts.to_dict() == counts | {"processing": 0, "succeeded": 6}
    assert str(ended.results_url).startswith(line.url)
    found = await client.results(made.id)
    assert set(found) == {f"c{number}" for number in range(6)}
    assert {one.message.usage.service_tier for one in found.values()} == {"batch"}
    _, _, online = await line.post("/anthropic/v1/messages", params(0))
    online["usage"]["service_tier"] = "batch"
    assert found["c0"].message.to_dict(mode="json") == online
    async with line.session.get(str(ended.results_url), headers=KEYS) as reply:
        for one in parsed(await reply.read()):
            MessageBatchIndividualResponse.model_validate(one)
    with pytest.raises(anthropic.BadRequestError):
        await client.messages.batches.cancel(made.id)
    assert (await client.messages.batches.delete(made.id)).type == "message_batch_deleted"
    with pytest.raises(anthropic.NotFoundError):
        await client.messages.batches.retrieve(made.id)
    assert [one["deleted"] for one in await line.get("/_batches")] == [True]


async def test_bad_params_are_errored_results_under_the_version_of_the_create(start: Start) -> None:
    line = await start(batch=SOON)
    bodies = [params(0), params(1) | {"temperature": 0}, params(2) | {"model": "claude-3-opus-20240229"}]
    requests = [{"custom_id": f"c{number}", "params": body} for number, body in enumerate(bodies)]
    client = AnthropicClient(line)
    for version, temperature in (("2023-06-01", "succeeded"), ("2026-10-21", "errored")):
        batch = await client.messages.batches.create(
            requests=requests,  # type: ignore[arg-type]
            extra_headers={"anthropic-version": version},
        )
        ended = await client.end(batch.id)
        found = await client.results(batch.id)
        assert [found[f"c{number}"].type for number in range(3)] == ["succeeded", temperature, "errored"]
        assert found["c2"].error.error.type == "not_found_error"
        assert ended.request_counts.succeeded + ended.request_counts.errored == 3
    meter = (await line.get("/_meter"))["batch"]
    assert (meter["lines_billed"], meter["lines_failed"]) == (3, 3)


async def test_lists_page_newest_first(start: Start) -> None:
    client = AnthropicClient(await start(batch=SOON))
    made = [(await client.submit(1)).id for _ in range(5)]
    first = await client.messages.batches.list(limit=2)
    assert [one.id for one in first.data] == made[:2:-1] and first.has_more and first.last_id == made[3]
    assert [one.id async for one in client.messages.batches.list(limit=2)] == made[::-1]


def item(name: Any, body: Any = None) -> dict[str, Any]:
    return {"custom_id": name, "params": params(1) if body is None else body}


BAD_BODIES: list[tuple[Any, str]] = [
    ({"requests": []}, "1 to"),
    ({"inputs": []}, "requests"),
    ({"requests": [item("a"), item("a")]}, "Duplicate"),
    ({"requests": [item("a" * 65)]}, "pattern"),
    ({"requests": [item("a b")]}, "pattern"),
    ({"requests": [item(1)]}, "pattern"),
    ({"requests": [item("a", "text")]}, "params"),
    ({"requests": [item("a") | {"more": 1}]}, "nothing else"),
    ({"requests": [item("a")], "more": 1}, "valid JSON"),
]


@pytest.mark.parametrize(("body", "words"), BAD_BODIES)
async def test_a_bad_envelope_is_refused_at_once(start: Start, body: Any, words: str) -> None:
    line = await start()
    status, _, reply = await line.post(PATH, body)
    assert (status, reply["error"]["type"]) == (400, "invalid_request_error") and words in reply["error"]["message"]
    assert await line.get("/_batches") == []


async def test_sizes_queue_and_version(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    line = await start(accounts={"anthropic": {"batch_queue_rows": 5}})
    client = AnthropicClient(line)
    await client.submit(4)
    with pytest.raises(anthropic.RateLimitError):
        await client.submit(2)
    await client.submit(1)
    assert (await line.post(PATH, {"requests": [item("a")]}, {"x-api-key": "k"}))[0] == 400
    monkeypatch.setattr(batches, "_MAX_BYTES", 100)
    with pytest.raises(anthropic.RequestTooLargeError):
        await client.submit(4)


async def test_cancel_keeps_what_was_done(start: Start) -> None:
    settings = {"turnaround": {"kind": "fixed", "value_s": 3600.0}, "cancelling_s": 360.0}
    line = await start(batch=settings, speed=3600)
    client = AnthropicClient(line)
    batch = await client.submit(40)
    await asyncio.sleep(0.4)
    canceling = await client.messages.batches.cancel(batch.id)
    assert canceling.processing_status == "canceling" and canceling.cancel_initiated_at
    ended = await client.end(batch.id)
    counts = ended.request_counts
    assert counts.succeeded and counts.canceled and counts.succeeded + counts.canceled == 40
    assert (await line.get("/_meter"))["batch"]["lines_billed"] == counts.succeeded
    kinds = [one.type for one in (await client.results(batch.id)).values()]
    assert (kinds.count("succeeded"), kinds.count("canceled")) == (counts.succeeded, counts.canceled)
