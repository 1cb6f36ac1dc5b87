"""An OpenAI-like vendor that answers chats as a test says, in a thread of this process."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.cli.hostile_vendor import serving

USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
Said = tuple[int, Mapping[str, Any]]
Record = dict[str, Any]


def answer(text: str) -> Said:
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    return 200, {"model": "m", "choices": [choice], "usage": USAGE}


def refusal(words: str) -> Said:
    return 400, {"error": {"message": words, "type": "invalid_request_error"}}


@dataclass
class Scripted:
    """A vendor that answers the body of each request as `say` does."""

    say: Callable[[Record], Said]
    url: str = ""
    calls: int = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = json.loads(await request.read())
        self.calls += 1
        status, said = self.say(asked)
        return web.json_response(said, status=status)


@contextmanager
def scripted(say: Callable[[Record], Said]) -> Iterator[Scripted]:
    vendor = Scripted(say)
    with serving(vendor.handle) as url:
        vendor.url = f"{url}/v1"
        yield vendor
