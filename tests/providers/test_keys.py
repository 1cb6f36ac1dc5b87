"""No key reaches an exception, a log or a URL."""

from __future__ import annotations

import logging
import traceback

import pytest

from hab_ray.errors import CallError
from tests.providers.conftest import KEY, KINDS, Hear, Play, Script, send


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
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + str(caught.value)
    assert KEY[:20] not in told
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
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert KEY not in caplog.text
    assert KEY not in repr(provider)
