"""Connections that fail, each told apart, each request sent once."""

from __future__ import annotations

import asyncio
import socket

import pytest

from hab_ray.errors import CallError, FailureKind, ProviderError, TransientError, Unreachable
from tests.providers.conftest import KINDS, Connect, Script, chat_call, entry
from tests.simulator.conftest import Start

MORE_THAN_AIOHTTP_GIVES = 130
MAX_S = 6.0


async def failure(kind: str, url: str, provider_of: Connect, timeout_s: float = 20.0) -> CallError:
    """What one call ends with."""
    provider = provider_of(kind, url, timeout_s)
    wire = provider.chat(chat_call(), entry("m"))
    with pytest.raises(CallError) as caught:
        async with asyncio.timeout(MAX_S):
            await provider.send(wire)
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
async def test_a_closed_port_is_unreachable_at_once(kind: str, provider_of: Connect) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        error = await failure(kind, f"http://{address}", provider_of)
    assert isinstance(error, Unreachable)
    assert str(error) == f"cannot connect: connection refused at {address}"


@pytest.mark.parametrize("kind", KINDS)
async def test_an_unknown_host_is_unreachable(kind: str, provider_of: Connect) -> None:
    assert isinstance(await failure(kind, "http://no-such-host.invalid", provider_of), Unreachable)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["reset", "truncated"])
async def test_a_connection_that_breaks_is_transient_and_not_sent_again(
    kind: str, fault: str, simulate: Start, provider_of: Connect
) -> None:
    line = await simulate(faults=[{"kind": fault, "probability": 1}], accounts={kind: {}})
    error = await failure(kind, line.url, provider_of)
    assert type(error) is TransientError
    assert error.kind is FailureKind.CONNECTION
    assert (await line.get("/_meter"))["received"] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "fault", [{"kind": "hang", "probability": 1}, {"kind": "slow", "probability": 1, "seconds": 8}]
)
async def test_no_whole_answer_in_time_is_a_timeout(
    kind: str, fault: dict[str, object], simulate: Start, provider_of: Connect
) -> None:
    """A body that keeps dribbling is bounded too, not each read by itself."""
    line = await simulate(faults=[fault], accounts={kind: {}})
    error = await failure(kind, line.url, provider_of, timeout_s=1.2)
    assert type(error) is TransientError
    assert error.kind is FailureKind.TIMEOUT
    assert (await line.get("/_meter"))["received"] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_the_sdk_never_sends_again_by_itself(
    kind: str, status: int, simulate: Start, provider_of: Connect
) -> None:
    line = await simulate(faults=[{"kind": "status", "probability": 1, "status": status}], accounts={kind: {}})
    assert isinstance(await failure(kind, line.url, provider_of), TransientError)
    assert (await line.get("/_meter"))["received"] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", ["", "<html>busy</html>", '{"half": ', "[1, 2]", "null", b"\xff\xfe\xfa"])
async def test_a_success_that_is_no_json_object_is_malformed(
    kind: str, body: str | bytes, script: Script, provider_of: Connect
) -> None:
    script.says(200, body)
    error = await failure(kind, script.url, provider_of)
    assert type(error) is TransientError
    assert error.kind is FailureKind.MALFORMED


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content_type", ["text/html", "application/json"])
async def test_a_gateways_error_page_is_a_servers_failure(
    kind: str, content_type: str, script: Script, provider_of: Connect
) -> None:
    script.says(502, "<html>bad gateway</html>", content_type=content_type)
    assert type(await failure(kind, script.url, provider_of)) is TransientError


@pytest.mark.parametrize("kind", KINDS)
async def test_calls_in_flight_are_not_bounded_by_the_transport(
    kind: str, simulate: Start, provider_of: Connect
) -> None:
    line = await simulate(latency={"kind": "fixed", "value_s": 2.0}, accounts={kind: {"models": {"m": {}}}})
    provider = provider_of(kind, line.url)
    wire = provider.chat(chat_call(), entry("m"))
    await asyncio.gather(*(provider.send(wire) for _ in range(MORE_THAN_AIOHTTP_GIVES)))
    assert (await line.get("/_meter"))["in_flight_max"] == MORE_THAN_AIOHTTP_GIVES


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_redirect_is_followed(
    kind: str, status: int, script: Script, simulate: Start, provider_of: Connect
) -> None:
    """Keys in headers of the vendor's own, other headers and prompts would go where nobody chose."""
    elsewhere = await simulate(accounts={kind: {}})
    script.says(status, "<html>moved</html>", location=elsewhere.url.replace("127.0.0.1", "localhost"))
    error = await failure(kind, script.url, provider_of)
    assert isinstance(error, ProviderError)
    assert "redirects to another address" in str(error) and "url" in str(error)
    assert len(script.paths) == 1
    assert await elsewhere.get("/_requests") == []
