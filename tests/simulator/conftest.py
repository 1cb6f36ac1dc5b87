"""A simulator for each test, and its controls as plain functions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from hab_simulator import Profile, simulator

KEYS = {"Authorization": "Bearer k", "x-goog-api-key": "k", "anthropic-version": "2023-06-01"}


@dataclass(frozen=True)
class Line:
    """A line to a running simulator."""

    url: str
    session: aiohttp.ClientSession

    async def get(self, path: str) -> Any:
        async with self.session.get(self.url + path) as response:
            return await response.json()

    async def control(self, path: str, body: Any) -> int:
        async with self.session.post(self.url + path, json=body) as response:
            return response.status

    async def post(self, path: str, body: Any, headers: dict[str, str] = KEYS) -> tuple[int, dict[str, str], Any]:
        """Status, headers (lower case) and JSON of a call."""
        async with self.session.post(self.url + path, json=body, headers=headers) as response:
            found = {name.lower(): value for name, value in response.headers.items()}
            return response.status, found, await response.json()


async def until(line: Line, *, in_flight: int) -> Any:
    """The meter as soon as so many calls are in flight."""
    async with asyncio.timeout(10):
        while (meter := await line.get("/_meter"))["in_flight"] != in_flight:
            await asyncio.sleep(0.02)
        return meter


Start = Callable[..., Awaitable[Line]]


@asynccontextmanager
async def starting(**defaults: Any) -> AsyncIterator[Start]:
    """Starts simulators with these settings and further ones, which run until the end of the block."""
    async with AsyncExitStack() as stack:

        async def begin(**settings: Any) -> Line:
            url = await stack.enter_async_context(simulator(Profile.model_validate(defaults | settings)))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            return Line(url, session)

        yield begin


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    async with starting() as begin:
        yield begin
