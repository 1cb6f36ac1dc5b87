"""Whether a server on this machine is a simulator is asked of that server alone, and not for long."""

import asyncio
import time

import pytest
from aiohttp import web

from hab_ray.storage import simulated
from hab_ray.storage.simulated import is_simulator
from tests.cli.hostile_vendor import serving

METER = b'{"billed_more_than_once": {}}'


async def meter(request: web.BaseRequest) -> web.StreamResponse:
    """A simulator's meter."""
    return web.Response(body=METER)


def test_a_server_with_a_meter_is_one_whatever_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving(meter) as url:
        assert is_simulator(f"{url}/x/sim/v1")


def test_a_redirect_is_not_followed() -> None:
    with serving(meter) as there:

        async def elsewhere(request: web.BaseRequest) -> web.StreamResponse:
            raise web.HTTPFound(f"{there}/_meter")

        with serving(elsewhere) as url:
            assert not is_simulator(url)


def test_a_server_that_never_ends_its_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drip(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b" ")
            await asyncio.sleep(0.1)

    monkeypatch.setattr(simulated, "_TIMEOUT_S", 0.5)
    began = time.monotonic()
    with serving(drip) as url:
        assert not is_simulator(url)
        assert time.monotonic() - began < 5


def test_what_is_no_http_is_none() -> None:
    assert not is_simulator("http://127.0.0.1:9")
    assert not is_simulator("ftp://127.0.0.1/")
    assert not is_simulator("http://vendor.invalid/")
