"""A server that answers each batch request as a test says, keeps what it was sent, and knows no batches."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from aiohttp import web

from hab_ray.catalog.vendors import VENDORS
from hab_ray.providers import connect_batch
from hab_ray.providers.base import Endpoint
from hab_ray.providers.batching import BatchApi, BatchJob, BatchStatus, Line
from hab_simulator.sending import serving
from tests.providers.conftest import KEY

KINDS = tuple(VENDORS.built_in)
JSONL = "application/jsonl"
TAG = "hab-run-7"


@dataclass(frozen=True)
class Routes:
    """A vendor's requests about its batch `id`, by method and path, and what it says of the batch once that has ended.

    `online` is the path of a chat call; a vendor without `upload` takes no files.
    """

    online: str
    create: str
    list: str
    id: str
    cancel: str
    results: str
    ended: dict[str, Any]
    upload: str = ""

    @property
    def one(self) -> str:
        """The request for the batch itself."""
        return f"{self.list}/{self.id.removeprefix('batches/')}"


ROUTES = {
    "openai": Routes(
        online="/chat/completions",
        create="POST /batches",
        list="GET /batches",
        id="batch_1",
        cancel="POST /batches/batch_1/cancel",
        results="GET /files/out/content",
        ended={"id": "batch_1", "status": "completed", "output_file_id": "out", "input_file_id": "in"},
        upload="POST /files",
    ),
    "anthropic": Routes(
        online="/v1/messages",
        create="POST /v1/messages/batches",
        list="GET /v1/messages/batches",
        id="msgbatch_1",
        cancel="POST /v1/messages/batches/msgbatch_1/cancel",
        results="GET /v1/messages/batches/msgbatch_1/results",
        ended={
            "id": "msgbatch_1",
            "processing_status": "ended",
            "request_counts": {"processing": 0, "succeeded": 2, "errored": 1, "canceled": 1, "expired": 1},
            "results_url": "https://api.example/somewhere/else",
        },
    ),
    "google": Routes(
        online="/models/m:generateContent",
        create="POST /v1beta/models/m:batchGenerateContent",
        list="GET /v1beta/batches",
        id="batches/1",
        cancel="POST /v1beta/batches/1:cancel",
        results="GET /v1beta/files/out:download",
        ended={
            "name": "batches/1",
            "metadata": {
                "state": "BATCH_STATE_SUCCEEDED",
                "inputConfig": {"fileName": "files/in"},
                "output": {"responsesFile": "files/out"},
            },
            "done": True,
        },
        upload="POST /upload/v1beta/files",
    ),
    "xai": Routes(
        online="/chat/completions",
        create="POST /batches",
        list="GET /batches",
        id="batch_1",
        cancel="POST /batches/batch_1:cancel",
        results="GET /batches/batch_1/results",
        ended={
            "batch_id": "batch_1",
            "state": {"num_requests": 5, "num_pending": 0, "num_success": 2, "num_error": 2, "num_cancelled": 1},
            "input_file_id": "in",
        },
        upload="POST /files",
    ),
}


class Trouble(Enum):
    """Ways not to answer."""

    RESET = auto()
    HANG = auto()


@dataclass(frozen=True)
class Scripted:
    """One answer: a status with JSON, text or bytes, or trouble."""

    body: Any = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    trouble: Trouble | None = None
    missing_bytes: int = 0

    @property
    def content(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


RESET = Scripted(trouble=Trouble.RESET)
HANG = Scripted(trouble=Trouble.HANG)


def patience_s(answer: Scripted) -> float:
    """A time limit that a busy machine keeps, and a short one where it is to run out."""
    return 0.4 if answer.trouble is Trouble.HANG else 20.0


@dataclass(frozen=True)
class Got:
    """One request as it came."""

    route: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class FakeVendor:
    """What is answered by route (`GET /batches`), each list's last answer again and again; 404 for other routes."""

    api: BatchApi
    url: str
    at: Routes
    answers: dict[str, list[Scripted]] = field(default_factory=dict)
    got: list[Got] = field(default_factory=list)

    def says(self, route: str, *answers: Scripted | dict[str, Any] | str | bytes) -> None:
        self.answers[route] = [answer if isinstance(answer, Scripted) else Scripted(answer) for answer in answers]

    def sent(self, route: str) -> list[Got]:
        return [got for got in self.got if got.route == route]

    def takes_uploads(self, file: str = "in") -> None:
        """Scripted uploads as OpenAI (one request) and Gemini (two) do."""
        self.says(ROUTES["openai"].upload, {"id": file, "object": "file"})
        self.says(ROUTES["google"].upload, Scripted(headers={"X-Goog-Upload-URL": f"{self.url}/to-here?upload_id=7"}))
        done = {"file": {"name": f"files/{file}", "newField": 1}}
        self.says("POST /to-here", Scripted(done, headers={"X-Goog-Upload-Status": "final"}))

    async def poll(self) -> BatchStatus:
        return await self.api.poll(self.at.id)

    async def ended(self) -> BatchStatus:
        """The batch, which has ended from now on."""
        self.says(self.at.one, self.at.ended)
        return await self.poll()

    async def lines(self, status: BatchStatus | None = None) -> list[Line]:
        """The results of a batch, by default of the one that is polled."""
        return [line async for line in self.api.results(status or await self.poll())]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        route = f"{request.method} {request.path}"
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.append(Got(route, dict(request.query), headers, await request.content.read()))
        waiting = self.answers.get(route) or [Scripted({"error": {"message": f"no {route}"}}, 404)]
        answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if answer.trouble is Trouble.HANG:
            await asyncio.sleep(60)
        if answer.trouble is Trouble.RESET and request.transport:
            request.transport.abort()
            return web.Response()
        kind = "text/html" if isinstance(answer.body, str | bytes) else "application/json"
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": kind, **answer.headers})
        response.content_length = len(answer.content) + answer.missing_bytes
        await response.prepare(request)
        await response.write(answer.content)
        if answer.missing_bytes and request.transport:
            request.transport.close()
        return response


@asynccontextmanager
async def vendor(kind: str, timeout_s: float = 20.0) -> AsyncIterator[FakeVendor]:
    """A server that knows no route yet, and the client of a vendor's batch API for its URL."""
    told: list[FakeVendor] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return await told[0].handle(request)

    async with serving(handle) as url:
        api = connect_batch(Endpoint("p", kind, url, KEY, timeout_s))
        told.append(FakeVendor(api, url, ROUTES[kind]))
        try:
            yield told[0]
        finally:
            await api.close()


def job(kind: str, lines: bytes = b'{"a":1}\n{"b":2}\n', version: str | None = None) -> BatchJob:
    return BatchJob(TAG, "m", ROUTES[kind].online, version, lines, lines.count(b"\n"))


def jsonl(*records: object) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def sent_results(kind: str, *records: object) -> bytes | dict[str, Any]:
    """Results as the vendor sends them: a file of lines, or xAI's only page."""
    return {"results": list(records), "pagination_token": None} if kind == "xai" else jsonl(*records)


def answered(kind: str, custom_id: str, body: dict[str, Any]) -> dict[str, Any]:
    """A result line with the body that the request would have brought online."""
    match kind:
        case "openai":
            return {"id": "r", "custom_id": custom_id, "response": {"status_code": 200, "body": body}, "error": None}
        case "anthropic":
            return {"custom_id": custom_id, "result": {"type": "succeeded", "message": body}}
        case "google":
            return {"key": custom_id, "response": body}
        case _:
            return {"batch_request_id": custom_id, "batch_result": {"response": {"chat_get_completion": body}}}
