"""What passes through the doctor's tap."""

import aiohttp
from aiohttp import web

from hab_ray.doctor.tap import tapping
from hab_ray.providers.base import Endpoint
from hab_simulator.sending import serving


async def test_a_large_request_is_forwarded_whole() -> None:
    async def size(request: web.BaseRequest) -> web.Response:
        return web.Response(text=str(len(await request.content.read())))

    async with serving(size) as url, tapping() as tap, aiohttp.ClientSession() as session:
        address = tap.address("question", "x/lab", Endpoint("lab", "openai", f"{url}/v1", "a key", 5.0))
        async with session.post(f"{address}/chat/completions", data=b"x " * (1 << 20)) as answer:
            assert (answer.status, await answer.text()) == (200, str(2 << 20))
