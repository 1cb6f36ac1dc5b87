"""No key reaches an error, a log or a URL of the batch verbs, even where a vendor echoes it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hab_ray.errors import CallError
from hab_ray.providers.batching import BatchApi
from tests.providers.batch_vendor import KINDS, ROUTES, Scripted, job, sent_results, vendor
from tests.providers.conftest import KEY

ECHO = {"error": {"message": "x" * 470 + KEY, "code": KEY, "type": KEY, "status": KEY}}


def told(error: BaseException | None) -> str:
    assert error is not None
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [400, 401, 404, 500])
@pytest.mark.parametrize("body", [ECHO, f"<html>{KEY}</html>"], ids=["json", "page"])
async def test_refused_verbs(
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


LINES: dict[str, list[dict[str, Any]]] = {
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


@pytest.mark.parametrize("kind", KINDS)
async def test_error_lines(kind: str) -> None:
    async with vendor(kind) as line:
        line.says(line.at.one, line.at.ended)
        results = sent_results(kind, *LINES[kind])
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
