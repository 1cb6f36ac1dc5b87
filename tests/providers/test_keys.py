"""No key reaches an error, a log or a URL, online or in the batch verbs, even where a vendor echoes it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hab_ray.errors import CallError
from hab_ray.providers.batching import BatchApi
from tests.providers.batch_vendor import KINDS as BATCH_KINDS
from tests.providers.batch_vendor import ROUTES, Scripted, job, sent_results, vendor
from tests.providers.conftest import KEY, KINDS, Hear, Play, Script, send

ECHO = {"error": {"message": "x" * 470 + KEY, "code": KEY, "type": KEY, "status": KEY}}


def told(error: BaseException | None) -> str:
    assert error is not None
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, {"error": {"message": f"Incorrect API key provided: {KEY}.", "code": "invalid_api_key"}}),
        (403, {"error": {"message": "x" * 490 + KEY, "status": "PERMISSION_DENIED"}}),
        (400, {"error": {"message": "bad", "code": KEY, "type": KEY, "status": KEY}}),
        (500, f"<html>{KEY}</html>"),
        (200, f"not json {KEY}"),
        (200, {"error": {"message": f"key {KEY}", "code": 500}}),
    ],
    ids=["in words", "at the cut", "as code", "in a page", "in a success", "under 200"],
)
async def test_a_key_echoed_by_the_vendor_is_scrubbed(
    kind: str, status: int, body: object, hear: Hear, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(CallError) as caught:
        await hear(kind, status, body)
    assert KEY[:20] not in told(caught.value)
    assert KEY in str(script.sent_headers)
    assert KEY not in "".join(script.paths)
    assert KEY not in caplog.text


@pytest.mark.parametrize("kind", KINDS)
async def test_working_and_broken_calls_log_no_key(kind: str, play: Play, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    line, provider = await play(kind, {"models": {"m": {}}})
    await send(provider, "m")
    assert await line.control("/_faults", [{"kind": "reset", "probability": 1}]) == 200
    with pytest.raises(CallError) as caught:
        await send(provider, "m")
    assert KEY not in told(caught.value)
    assert KEY not in caplog.text
    assert KEY not in repr(provider)


@pytest.mark.parametrize("kind", BATCH_KINDS)
@pytest.mark.parametrize("status", [400, 401, 404, 500])
@pytest.mark.parametrize("body", [ECHO, f"<html>{KEY}</html>"], ids=["json", "page"])
async def test_refused_verbs_of_batches(
    kind: str, status: int, body: dict[str, object] | str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    verbs: list[Callable[[BatchApi], Awaitable[object]]] = [
        lambda api: api.submit(job(kind)),
        lambda api: api.since(None),
        lambda api: api.poll(ROUTES[kind].id),
        lambda api: api.cancel(ROUTES[kind].id),
    ]
    async with vendor(kind) as line:
        for route in (line.at.create, line.at.list, line.at.one, line.at.cancel, line.at.upload):
            line.says(route, Scripted(body, status))
        for verb in verbs:
            with pytest.raises(CallError) as caught:
                await verb(line.api)
            assert KEY[:20] not in told(caught.value)
    assert KEY in str(line.got[0].headers)
    assert all(KEY not in got.route and KEY not in str(got.query) for got in line.got)
    assert KEY not in caplog.text and KEY not in repr(line.api)


ERROR_LINES: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"custom_id": "1", "response": {"status_code": 400, "body": ECHO}},
        {"custom_id": "2", "response": None, "error": {"code": "batch_expired", "message": KEY}},
    ],
    "anthropic": [
        {"custom_id": "1", "result": {"type": "errored", "error": {"type": "error", **ECHO}}},
        {"custom_id": "2", "result": {"type": "expired", "message": KEY}},
    ],
    "google": [
        {"key": "1", "error": {"code": 3, "message": "x" * 470 + KEY}},
        {"key": "2", "error": {"code": 429, "message": KEY, "status": KEY}},
    ],
    "xai": [
        {"batch_request_id": "1", "batch_result": {"error": {"code": 3, "message": "x" * 470 + KEY}}},
        {"batch_request_id": "2", "error_message": KEY},
        {"batch_request_id": KEY, "batch_result": {"error": {"code": 1, "message": KEY}}},
    ],
}


@pytest.mark.parametrize("kind", BATCH_KINDS)
async def test_error_lines_of_batches(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.one, line.at.ended)
        results = sent_results(kind, *ERROR_LINES[kind])
        line.says(line.at.results, results + f"{KEY}\n".encode() if isinstance(results, bytes) else results)
        lines = await line.lines()
        line.says(line.at.results, Scripted(ECHO, 500))
        with pytest.raises(CallError) as caught:
            await line.lines()
    assert len(lines) == 3
    assert all(KEY[:20] not in told(error) for error in [one.error for one in lines] + [caught.value])


FAILED: dict[str, dict[str, Any]] = {
    "openai": {"status": "failed", "errors": {"data": [{"code": "invalid_json_line", "message": KEY}]}},
    "google": {"metadata": {"state": "BATCH_STATE_FAILED"}, "error": {"code": 3, "message": KEY}},
    "xai": {"state": {"num_requests": 0}, "cancel_by_xai_message": KEY},
}


@pytest.mark.parametrize("kind", FAILED)
async def test_why_a_batch_failed(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.one, FAILED[kind])
        assert KEY[:20] not in told((await line.poll()).problem)
