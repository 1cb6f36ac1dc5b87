"""An OpenAI-like batch API that answers with hostile texts wherever a vendor's text goes."""

import asyncio
import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Record = dict[str, Any]


@dataclass
class HostileVendor:
    """Accounts below one URL; what an account does is in its name, the first part of the path.

    `answers`: every answer is a hostile text. `rows`: every row is refused with one. `fails`: each batch fails with
    them. `closed-<n>`: every request is answered 401 with the n-th group of texts.
    """

    texts: Sequence[str]
    groups: Sequence[str]
    url: str = ""
    files: dict[str, list[Record]] = field(default_factory=dict)
    batches: dict[str, Record] = field(default_factory=dict)
    polls: dict[str, int] = field(default_factory=dict)
    answered: int = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        account, _, path = request.path.lstrip("/").partition("/v1/")
        if account.startswith("closed-"):
            text = self.groups[int(account.removeprefix("closed-"))]
            return _json({"error": {"message": text, "code": "invalid_api_key"}}, 401)
        body = await request.content.read()
        name = f"{len(self.files) + len(self.batches)}-{account}"
        match request.method, path.split("/"):
            case "POST", ["files"]:
                self.files[name] = [json.loads(line) for line in re.findall(rb'^{"custom_id".*$', body, re.MULTILINE)]
                return _json({"id": name})
            case "POST", ["batches"]:
                made = json.loads(body)
                self.batches[name] = {"id": name, "metadata": made["metadata"], "input_file_id": made["input_file_id"]}
                return _json(self.batches[name] | {"status": "validating"})
            case "GET", ["batches"]:
                return _json({"data": [], "has_more": False})
            case "GET", ["batches", batch]:
                return _json(self._state(batch))
            case "GET", ["files", file, "content"]:
                lines = [self._line(file, record) for record in self.files[file.removeprefix("results-")]]
                return web.Response(body="".join(json.dumps(line) + "\n" for line in lines).encode())
            case _:
                return _json({"id": name, "deleted": True})

    def _state(self, name: str) -> Record:
        polls = self.polls[name] = self.polls.get(name, 0) + 1
        batch = self.batches[name]
        if polls == 1:
            return batch | {"status": self.texts[len(self.polls) % len(self.texts)]}
        if name.endswith("fails"):
            problems = [{"code": text, "message": text, "line": text} for text in self.texts]
            return batch | {"status": "failed", "errors": {"data": problems}}
        return batch | {"status": "completed", "output_file_id": f"results-{batch['input_file_id']}"}

    def _line(self, file: str, record: Record) -> Record:
        text = self.texts[self.answered % len(self.texts)]
        self.answered += 1
        if file.endswith("rows"):
            refusal = {"error": {"message": text, "code": text, "type": text}}
            return {"custom_id": record["custom_id"], "response": {"status_code": 400, "body": refusal}}
        judged = "response_format" in record["body"]
        content = json.dumps({"assessment": text, "issues": ["A"]}) if judged else text
        body = {
            "model": text,
            "provider": text,
            "choices": [{"message": {"content": content}, "finish_reason": text}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1},
        }
        return {"custom_id": record["custom_id"], "response": {"status_code": 200, "body": body}}


def _json(body: Record, status: int = 200) -> web.Response:
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json")


@contextmanager
def serving(handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> Iterator[str]:
    """The URL of a server in a thread of this process."""
    loop = asyncio.new_event_loop()

    async def begin() -> web.ServerRunner:
        runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    runner = loop.run_until_complete(begin())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextmanager
def hostile_vendor(texts: Sequence[str], groups: Sequence[str]) -> Iterator[HostileVendor]:
    """The vendor, in a thread of this process."""
    vendor = HostileVendor(texts, groups)
    with serving(vendor.handle) as vendor.url:
        yield vendor
