"""xAI's batches: POST and GET /v1/batches, GET /v1/batches/{id}, .../results, POST /v1/batches/{id}:cancel."""

import json
from pathlib import Path
from typing import Any

from aiohttp import web
from pydantic import ValidationError

from hab_simulator.accounts import ByBatch
from hab_simulator.asks import WireAnswer, compact
from hab_simulator.batch.clock import rfc3339
from hab_simulator.batch.faults import RevertedCancel
from hab_simulator.batch.jobs import BatchState, Job, Order
from hab_simulator.batch.replies import breaks_off, create, page, poll
from hab_simulator.batch.service import BatchService
from hab_simulator.batch.spool import Lines
from hab_simulator.openai import batch_files
from hab_simulator.openai.batch_lines import OpenAiLines
from hab_simulator.openai.bodies import error
from hab_simulator.openai.requests import Body
from hab_simulator.sending import json_response, response, send_half
from hab_simulator.settings import first_problem
from hab_simulator.vendor import Route
from hab_simulator.xai.online import XaiOnline

_ENDPOINT = "/v1/chat/completions"
_PURPOSES = frozenset({"", "batch"})
_LIMIT, _MOST = 100, 1000
_KEPT_S = 30 * 86_400
_STOPPED = (BatchState.CANCELLING, BatchState.CANCELLED, BatchState.FAILED)
_UNDONE = {BatchState.EXPIRED: "Batch expired", BatchState.CANCELLED: "Batch cancelled"}


class XaiLines(OpenAiLines):
    """OpenAI's requests in, {"batch_request_id", "batch_result"} out; an error is a bare string."""

    error_file = False

    def result(self, handle: bytes, answer: WireAnswer) -> bytes:
        if answer.status < 400:
            return _line(handle, b'{"response":{"chat_get_completion":%b}}' % answer.body)
        return _error(handle, json.loads(answer.body)["error"]["message"])

    def undone(self, handle: bytes, state: BatchState) -> bytes:
        return _error(handle, _UNDONE[state])


def _error(handle: bytes, message: str) -> bytes:
    return _line(handle, b'{"error":%b}' % compact(message))


def _line(handle: bytes, result: bytes) -> bytes:
    return b'{"batch_request_id":%b,"batch_result":%b}' % (handle, result)


_LINES = XaiLines(XaiOnline())


class _Create(Body):
    name: str
    input_file_id: str


async def handle(service: BatchService, place: Route, request: web.BaseRequest) -> web.StreamResponse:
    """Answer a request about files or batches."""
    match request.method, place.path.split("/"):
        case _, ["files", *rest]:
            return await batch_files.handle(service, place, request, rest, _PURPOSES)
        case "POST", ["batches"]:
            return await _create(service, place, request)
        case "GET", ["batches"]:
            return _list(service, place, request)
        case method, ["batches", call, *rest]:
            name, _, verb = call.partition(":")
            job = service.find(place.account, name)
            if job is None:
                return response(_missing(name))
            return await _about(service, job, request, (method, verb, *rest))
        case _:
            return response(error(404, f"Invalid URL ({request.method} /v1/{place.path})"))


async def _about(
    service: BatchService, job: Job, request: web.BaseRequest, wanted: tuple[str, ...]
) -> web.StreamResponse:
    match wanted:
        case "GET", "":
            return poll(job, _LINES, _missing(job.id), lambda job: _view(service, job))
        case "GET", "", "results":
            return await _results(job, request)
        case "POST", "cancel":
            job.cancel(service.clock.now())
            return json_response(_view(service, job))
        case _:
            return response(error(404, f"Invalid URL ({request.method} {request.path})"))


async def _create(service: BatchService, place: Route, request: web.BaseRequest) -> web.StreamResponse:
    try:
        wanted = _Create.model_validate_json(await request.content.read())
    except ValidationError as failure:
        where, problem, _ = first_problem(failure)
        return response(error(400, f"Invalid request: {where}: {problem}"))
    file = service.files.find(place.account, wanted.input_file_id.removeprefix(batch_files.PREFIX))
    if file is None:
        return response(error(400, f"No file {wanted.input_file_id}."))
    model = _first_model(file.path)
    known = service.profile.account(place.account).model(model)
    if known and known.by_batch is ByBatch.REFUSED:
        return response(error(400, f"Model {model} is not supported for batch processing."))
    order = Order(
        account=place.account,
        source=file.path,
        path=_ENDPOINT.removeprefix("/v1/"),
        model="",
        tag=wanted.name,
        details={"endpoint": _ENDPOINT, "input_file_id": wanted.input_file_id},
    )
    return await create(service, request, order, _LINES, lambda job: _view(service, job))


def _asked_page(request: web.BaseRequest) -> tuple[int, int] | None:
    """Where the page begins and how much it holds; None where that makes no sense."""
    start, limit = request.query.get("pagination_token", "0"), request.query.get("limit", str(_LIMIT))
    if not (start.isdecimal() and limit.isdecimal() and 1 <= int(limit) <= _MOST):
        return None
    return int(start), int(limit)


def _list(service: BatchService, place: Route, request: web.BaseRequest) -> web.StreamResponse:
    """Oldest first: the vendor does not say in which order its list is."""
    asked = _asked_page(request)
    if asked is None:
        return response(error(400, "Invalid pagination."))
    items, more = page(service.listed(place.account)[::-1], *asked)
    token = str(asked[0] + len(items)) if more else None
    return json_response({"batches": [_view(service, job) for job in items], "pagination_token": token})


def _first_model(source: Path) -> str:
    """The model of a file's first request, where it has one."""
    try:
        with source.open("rb") as lines:
            return str(json.loads(lines.readline())["body"]["model"])
    except (ValueError, KeyError, TypeError):
        return ""


def _hides_results(job: Job) -> bool:
    """Whether a cancelled batch still shows nothing of what was done."""
    fault = job.struck.find(RevertedCancel)
    return fault is not None and job.state is BatchState.CANCELLED and job.polls_after_end <= fault.polls


async def _results(job: Job, request: web.BaseRequest) -> web.StreamResponse:
    """The results of a batch that has ended; before, there are none yet."""
    asked = _asked_page(request)
    if asked is None:
        return response(error(400, "Invalid pagination."))
    start, limit = asked
    lines = Lines(job.output) if job.output and not job.withholds_results else None
    rows = len(lines) if lines else 0
    end = min(start + limit, rows)
    found = [lines[number] for number in range(start, end)] if lines else []
    if _hides_results(job):
        found = [_LINES.undone(compact(json.loads(line)["batch_request_id"]), BatchState.CANCELLED) for line in found]
    results = b",".join(found)
    token = b'"%d"' % end if end < rows else b"null"
    answer = WireAnswer(200, b'{"results":[%b],"pagination_token":%b}' % (results, token))
    return await send_half(request, answer) if breaks_off(job) else response(answer)


def _missing(name: str) -> WireAnswer:
    return error(404, f"Batch {name} not found.")


def _view(service: BatchService, job: Job) -> dict[str, Any]:
    """The batch as JSON; one that was refused has counted nothing and says why in one place."""
    return {
        "batch_id": job.id,
        "name": job.order.tag,
        "create_time": rfc3339(job.created),
        "expire_time": rfc3339(job.created + _KEPT_S),
        "cancel_time": next((rfc3339(job.times[state]) for state in _STOPPED if state in job.times), None),
        "cancel_by_xai_message": job.problems[0].message if job.problems else None,
        "state": {} if job.shows_odd_state else _counts(service, job),
        "input_file_id": job.order.details["input_file_id"],
    }


def _counts(service: BatchService, job: Job) -> dict[str, int]:
    """All are 0 until the vendor has looked into the file. Something is pending until there are all results."""
    tally, pending = job.tally, 0
    done, failed, cancelled = tally.succeeded + tally.missing, tally.failed, tally.undone
    if not job.state.ended:
        pending = max(min(job.rows, 1), job.rows - int(job.rows * job.progress(service.clock.now())))
        done, failed, cancelled = job.rows - pending, 0, 0
    elif job.state is not BatchState.CANCELLED:
        failed, cancelled = failed + cancelled, 0
    elif _hides_results(job):
        done, failed, cancelled = 0, 0, job.rows
    return {
        "num_requests": job.rows,
        "num_pending": pending,
        "num_success": done,
        "num_error": failed,
        "num_cancelled": cancelled,
    }
