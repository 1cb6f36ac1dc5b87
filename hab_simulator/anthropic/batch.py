"""Anthropic's batches below /v1/messages/batches: create, list, get, results, cancel, delete.

Their lines are {"custom_id", "params"} in, {"custom_id", "result"} out.
"""

import json
import re
from collections.abc import Iterable, Iterator
from io import TextIOBase
from pathlib import Path
from typing import Any

from aiohttp import web

from hab_simulator.anthropic import online
from hab_simulator.anthropic.bodies import VERSIONS, error
from hab_simulator.asks import Refused, WireAnswer, compact
from hab_simulator.batch.clock import Pacer, rfc3339
from hab_simulator.batch.dialect import LineAsk
from hab_simulator.batch.jobs import BatchState, Job, Order
from hab_simulator.batch.replies import create, download, listing, page_after, poll
from hab_simulator.batch.service import BatchService
from hab_simulator.sending import json_response, response
from hab_simulator.vendor import Route, Vendor

_LIMIT, _MOST = 20, 1000
_MAX_ROWS = 100_000
_MAX_BYTES = 256 * 1024**2
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ODD_STATE = "paused"
_WINDOW = 1 << 18
_START = re.compile(r'\s*\{\s*"requests"\s*:\s*\[')
_ELEMENT = re.compile(r"[^\s,]")
_END = re.compile(r"\s*\]\s*\}\s*\Z")
_DECODER = json.JSONDecoder()
_VERSION = "anthropic-version"
_ITEM = {"custom_id", "params"}
_OWNER = {"anthropic-organization-id": "org-simulated", "anthropic-workspace-id": "wrkspc-simulated"}
_UNDONE = {BatchState.EXPIRED: b"expired", BatchState.CANCELLED: b"canceled"}


class AnthropicLines:
    """Anthropic's requests and results."""

    vendor: Vendor = online
    keeps_partial = True
    error_file = False
    fails_whole = False

    def checked(self, order: Order, lines: Iterable[bytes]) -> Iterator[str]:
        """Nothing is left to check: the create request was."""
        return (order.model for _ in lines)

    def read(self, order: Order, line: bytes) -> LineAsk:
        value = json.loads(line.decode())
        return LineAsk(compact(value["custom_id"]), order.path, value["params"])

    def result(self, handle: bytes, answer: WireAnswer) -> bytes:
        if answer.status == 200:
            return b'{"custom_id":%b,"result":{"type":"succeeded","message":%b}}' % (handle, answer.body)
        return b'{"custom_id":%b,"result":{"type":"errored","error":%b}}' % (handle, answer.body)

    def undone(self, handle: bytes, state: BatchState) -> bytes:
        return b'{"custom_id":%b,"result":{"type":"%b"}}' % (handle, _UNDONE[state])

    def stranger(self, order: Order, number: int) -> bytes:
        return b'"stranger-%d"' % number


_LINES = AnthropicLines()


async def handle(service: BatchService, place: Route, request: web.BaseRequest) -> web.StreamResponse:
    """Answer a request about batches."""
    if request.headers.get(_VERSION) not in VERSIONS:
        return response(_invalid("anthropic-version: header is required"))
    match request.method, place.path.split("/")[2:]:
        case "POST", []:
            return await _create(service, place, request)
        case "GET", []:
            return _list(service, place, request)
        case method, [name, *rest]:
            job = service.find(place.account, name.removeprefix("msgbatch_"))
            if job is None:
                return response(_missing(name))
            return await _about(service, request, job, method, rest)
        case _:
            return response(error(404, "not_found_error", "Not Found"))


async def _about(
    service: BatchService, request: web.BaseRequest, job: Job, method: str, rest: list[str]
) -> web.StreamResponse:
    match method, rest:
        case "GET", []:
            return poll(job, _LINES, _missing(_name(job)), lambda job: _view(job, request))
        case "POST", ["cancel"] if job.state.ended:
            return response(_invalid(f"{_name(job)} has ended and cannot be canceled."))
        case "POST", ["cancel"]:
            job.cancel(service.clock.now())
            return json_response(_view(job, request))
        case "GET", ["results"] if job.output and not job.withholds_results:
            return await download(request, job.output, job, "application/x-jsonl")
        case "GET", ["results"]:
            return response(error(404, "not_found_error", f"{_name(job)} has no results yet."))
        case "DELETE", [] if job.state.ended:
            service.delete(job)
            return json_response({"id": _name(job), "type": "message_batch_deleted"})
        case "DELETE", []:
            return response(_invalid(f"{_name(job)} is still being processed; cancel it first."))
        case _:
            return response(error(404, "not_found_error", "Not Found"))


async def _create(service: BatchService, place: Route, request: web.BaseRequest) -> web.StreamResponse:
    _, body = service.files.fresh()
    _, source = service.files.fresh()
    try:
        await _store(request, body)
        rows, model = await _unpack(body, source)
        _check_queue(service, place, rows)
        order = Order(
            account=place.account,
            source=source,
            path="messages",
            model=model,
            headers={_VERSION: request.headers[_VERSION]},
            rows=rows,
        )
        return await create(service, request, order, _LINES, lambda job: _view(job, request))
    except Refused as refusal:
        return response(refusal.answer)
    finally:
        for path in (body, source):
            path.unlink(missing_ok=True)


async def _store(request: web.BaseRequest, path: Path) -> None:
    """Write the body to disk. Raises Refused if it is too large."""
    size = 0
    with path.open("wb") as file:
        async for piece in request.content.iter_any():
            size += len(piece)
            if size <= _MAX_BYTES:
                file.write(piece)
    if size > _MAX_BYTES:
        raise Refused(error(413, "request_too_large", "Request exceeds the maximum size of 256 MB."))


async def _unpack(body: Path, source: Path) -> tuple[int, str]:
    """Write each request as a line of its own; their number, and the model of the first."""
    seen: set[str] = set()
    model = ""
    pacer = Pacer()
    try:
        with body.open(encoding="utf-8") as packed, source.open("w", encoding="utf-8") as lines:
            for number, (text, value) in enumerate(requests(packed)):
                name = _checked_id(number, value)
                if name in seen:
                    raise Refused(_invalid(f"requests.{number}.custom_id: Duplicate custom_id '{name}'"))
                seen.add(name)
                model = model or str(value["params"].get("model", ""))
                lines.write(text.replace("\n", " ") + "\n")
                await pacer.pause()
    except (NotRequests, UnicodeDecodeError) as failure:
        raise Refused(_invalid(str(failure))) from None
    if not 1 <= len(seen) <= _MAX_ROWS:
        raise Refused(_invalid(f"requests: List should have 1 to {_MAX_ROWS} items, not {len(seen)}"))
    return len(seen), model


class NotRequests(ValueError):
    """The body is not {"requests": [...]}."""


def requests(body: TextIOBase) -> Iterator[tuple[str, Any]]:
    """The text and the value of each element of a large JSON body, one at a time, without holding it in memory.

    Raises NotRequests where the body is anything else.
    """
    window = body.read(_WINDOW)
    start = _START.match(window)
    if start is None:
        raise NotRequests("requests: Field required")
    position = start.end()
    while True:
        element = _ELEMENT.search(window, position)
        position = element.start() if element else len(window)
        try:
            value, end = _DECODER.raw_decode(window, position)
        except json.JSONDecodeError:
            more = body.read(max(_WINDOW, len(window)))
            if more:
                window, position = window[position:] + more, 0
                continue
            if _END.match(window, position):
                return
            raise NotRequests("The request body is not valid JSON") from None
        yield window[position:end], value
        position = end


def _checked_id(number: int, value: Any) -> str:
    """The custom id of a request. Raises Refused where request or id cannot be used."""
    place = f"requests.{number}"
    if not isinstance(value, dict) or value.keys() != _ITEM or not isinstance(value["params"], dict):
        raise Refused(_invalid(f"{place}: a request has a custom_id and params, and nothing else"))
    name = value["custom_id"]
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise Refused(_invalid(f"{place}.custom_id: String should match pattern '^{_ID.pattern}$'"))
    return name


def _check_queue(service: BatchService, place: Route, rows: int) -> None:
    limit = service.profile.account(place.account).batch_queue_rows
    queued = sum(job.rows for job in service.open(place.account))
    if limit is not None and queued + rows > limit:
        message = f"Your organization would have {queued + rows} batch requests in processing; the limit is {limit}."
        raise Refused(error(429, "rate_limit_error", message))


def _list(service: BatchService, place: Route, request: web.BaseRequest) -> web.StreamResponse:
    jobs = service.listed(place.account)
    ids = [_name(job) for job in jobs]
    after, limit = request.query.get("after_id"), request.query.get("limit", str(_LIMIT))
    if after is not None and after not in ids:
        return response(_invalid(f"{after} is not the id of a batch"))
    if not limit.isdecimal() or not 1 <= int(limit) <= _MOST:
        return response(_invalid(f"limit: must be between 1 and {_MOST}"))
    items, more = page_after(jobs, ids, after, int(limit))
    answer = json_response(listing([_view(job, request) for job in items], more))
    answer.headers.update(_OWNER)
    return answer


def _invalid(message: str) -> WireAnswer:
    return error(400, "invalid_request_error", message)


def _missing(name: str) -> WireAnswer:
    return error(404, "not_found_error", f"Message batch {name} not found")


def _name(job: Job) -> str:
    return f"msgbatch_{job.id}"


def _view(job: Job, request: web.BaseRequest) -> dict[str, Any]:
    """The batch as JSON; its counts tell nothing before it has ended."""
    cancelled, ended = job.times.get(BatchState.CANCELLING), job.ended_at
    status = "ended" if job.state.ended else "in_progress" if cancelled is None else "canceling"
    tally, counts = job.tally, {"processing": job.rows, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    if job.state.ended:
        undone = "expired" if job.state is BatchState.EXPIRED else "canceled"
        counts |= {
            "processing": 0,
            "succeeded": tally.succeeded + tally.missing,
            "errored": tally.failed,
            undone: tally.undone,
        }
    results = f"http://{request.host}/{job.account}/v1/messages/batches/{_name(job)}/results"
    return {
        "id": _name(job),
        "type": "message_batch",
        "processing_status": _ODD_STATE if job.shows_odd_state else status,
        "request_counts": counts,
        "created_at": rfc3339(job.created),
        "expires_at": rfc3339(job.expires),
        "ended_at": rfc3339(ended) if ended is not None else None,
        "cancel_initiated_at": rfc3339(cancelled) if cancelled is not None else None,
        "archived_at": None,
        "results_url": results if ended is not None and not job.withholds_results else None,
    }
