"""Gemini's batches: models/M:batchGenerateContent and :asyncBatchEmbedContent, batches, batches/{id}, :cancel.

Their lines are {"key", "request"} in; the same back with a response, inline with the key in its metadata. An error
stands in a line as a google.rpc.Status, whose code is gRPC's and not HTTP's.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from aiohttp import web
from pydantic import ValidationError

from hab_simulator.accounts import ByBatch, Service
from hab_simulator.asks import Refused, WireAnswer, compact
from hab_simulator.batch.clock import Pacer, rfc3339
from hab_simulator.batch.dialect import BadInput, LineAsk
from hab_simulator.batch.jobs import BatchState, Job, Order
from hab_simulator.batch.replies import create, page, poll
from hab_simulator.batch.service import BatchService
from hab_simulator.batch.spool import Lines
from hab_simulator.batch.work import count_tokens
from hab_simulator.google import batch_files, online
from hab_simulator.google.bodies import error, find_model
from hab_simulator.google.requests import Body
from hab_simulator.sending import json_response, response
from hab_simulator.settings import first_problem
from hab_simulator.truth.draws import unit
from hab_simulator.vendor import Route, Vendor

_TYPES = "type.googleapis.com/google.ai.generativelanguage.v1main."
_LIMIT, _MOST = 50, 100
_INVALID_ARGUMENT, _CANCELLED = 3, 1
_ODD_STATE = "BATCH_STATE_UNDER_REVIEW"
_STATE = {
    BatchState.VALIDATING: "PENDING",
    BatchState.RUNNING: "RUNNING",
    BatchState.CANCELLING: "RUNNING",
    BatchState.FINALIZING: "RUNNING",
    BatchState.COMPLETED: "SUCCEEDED",
    BatchState.FAILED: "FAILED",
    BatchState.EXPIRED: "EXPIRED",
    BatchState.CANCELLED: "CANCELLED",
}
_METHODS = {
    "batchGenerateContent": ("generateContent", Service.CHAT),
    "asyncBatchEmbedContent": ("embedContent", Service.EMBEDDINGS),
}
_GRPC = {
    "CANCELLED": 1,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "ABORTED": 10,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
}


class GoogleLines:
    """Google's lines: requests and results in files."""

    vendor: Vendor = online
    keeps_partial = False
    error_file = False
    fails_whole = True

    def checked(self, order: Order, lines: Iterable[bytes]) -> Iterator[str]:
        """Every line must be a JSON object with a request."""
        empty = True
        for line in lines:
            empty = False
            try:
                value = json.loads(line.decode())
            except ValueError:
                raise BadInput("INVALID_ARGUMENT", "Failed to parse the input file as JSONL.") from None
            if not isinstance(value, dict) or not isinstance(value.get("request"), dict):
                raise BadInput("INVALID_ARGUMENT", "A line of the input file has no request.")
            yield order.model
        if empty:
            raise BadInput("INVALID_ARGUMENT", "The input file holds no request.")

    def read(self, order: Order, line: bytes) -> LineAsk:
        value = json.loads(line.decode())
        return LineAsk(_handle(order, value.get("key", "")), order.path, value["request"])

    def result(self, handle: bytes, answer: WireAnswer) -> bytes:
        if answer.status == 200:
            return b'{%b,"response":%b}' % (handle, answer.body)
        failure = json.loads(answer.body)["error"]
        return b'{%b,"error":%b}' % (handle, compact({"code": _GRPC[failure["status"]], "message": failure["message"]}))

    def undone(self, handle: bytes, state: BatchState) -> bytes:
        """Never called: a batch that is not completed has no results."""
        raise NotImplementedError

    def stranger(self, order: Order, number: int) -> bytes:
        return _handle(order, f"stranger-{number}")


_LINES = GoogleLines()


def _handle(order: Order, key: object) -> bytes:
    """A key as it stands in a result: at its top in a file, in its metadata inline."""
    return b'"metadata":' + compact({"key": key}) if order.details["inline"] else b'"key":' + compact(key)


class _Input(Body):
    file_name: str


class _Batch(Body):
    display_name: str | None = None
    input_config: _Input


class _CreateBatch(Body):
    batch: _Batch


async def handle(service: BatchService, place: Route, request: web.BaseRequest) -> web.StreamResponse:
    """Answer a request about files or batches."""
    parts = place.path.split("/")
    match request.method, parts:
        case "POST", ["upload", "files"]:
            return await batch_files.upload(service, place, request)
        case _, ["files", *rest] | ["download", "files", *rest]:
            return await batch_files.handle(service, place, request, "/".join(rest))
        case "POST", ["models", call]:
            name, _, method = call.rpartition(":")
            return await _create(service, place, request, name, method)
        case "GET", ["batches"]:
            return _list(service, place, request)
        case method, ["batches", call]:
            name, _, verb = call.partition(":")
            job = service.find(place.account, name)
            if job is None:
                return response(_missing(name))
            return _about(service, job, method, verb)
        case _:
            return response(error(404, f"Requested entity {request.path} was not found."))


def _list(service: BatchService, place: Route, request: web.BaseRequest) -> web.StreamResponse:
    """Newest first, `_LIMIT` batches a page where the request names no size."""
    start, size = request.query.get("pageToken", "0"), request.query.get("pageSize", str(_LIMIT))
    if not (start.isdecimal() and size.isdecimal()):
        return response(error(400, "Request contains an invalid argument."))
    some, more = page(service.listed(place.account), int(start), min(int(size) or _LIMIT, _MOST))
    token = {"nextPageToken": str(int(start) + len(some))} if more else {}
    return json_response({"operations": [_view(one) for one in some], **token})


def _about(service: BatchService, job: Job, method: str, verb: str) -> web.StreamResponse:
    match method, verb:
        case "GET", "":
            return poll(job, _LINES, _missing(job.id), _view)
        case "POST", "cancel" if job.state.ended:
            return response(error(400, "Operation has already ended and cannot be cancelled."))
        case "POST", "cancel":
            job.cancel(service.clock.now())
            return json_response({})
        case "DELETE", "":
            service.delete(job)
            return json_response({})
        case _:
            return response(error(404, f"Requested entity batches/{job.id}:{verb} was not found."))


async def _create(
    service: BatchService, place: Route, request: web.BaseRequest, name: str, method: str
) -> web.StreamResponse:
    raw = await request.content.read()
    online_method, kind = _METHODS[method]
    try:
        model = find_model(service.account(place.account), name, kind)
        if model.by_batch is ByBatch.REFUSED:
            message = f"models/{name} is not found for API version v1beta, or is not supported for {method}."
            raise Refused(error(404, message), name)
        order = _order(service, place, f"models/{name}:{online_method}", name, raw)
        await _check_lines(service, order)
        order = await _check_room(service, place, order)
        return await create(service, request, order, _LINES, _view)
    except Refused as refusal:
        return response(refusal.answer)


async def _check_lines(service: BatchService, order: Order) -> None:
    """Raises Refused where a line is malformed: then there is no batch, and nothing says which line it was."""
    faults, pacer, lines = service.settings(order.account).lines, Pacer(), Lines(order.source)
    try:
        for _, line in zip(_LINES.checked(order, lines), lines, strict=True):
            await pacer.pause()
            if faults.malformed and unit(service.profile.seed, "malformed", line) < faults.malformed:
                raise BadInput("INVALID_ARGUMENT", "Request contains an invalid argument.")
    except BadInput as bad:
        raise _refused(str(bad)) from None


def _order(service: BatchService, place: Route, path: str, name: str, raw: bytes) -> Order:
    """The create request. Raises Refused."""
    try:
        wanted = _CreateBatch.model_validate_json(raw).batch
    except ValidationError as failure:
        where, message, _ = first_problem(failure)
        raise _refused(f"Invalid value at '{where}': {message}") from None
    given = wanted.input_config.file_name
    file = service.files.find(place.account, given.removeprefix(batch_files.PREFIX))
    if file is None:
        raise _refused(f"The file {given} does not exist.")
    rows = len(Lines(file.path))
    return Order(
        account=place.account,
        source=file.path,
        path=path,
        model=name,
        tag=wanted.display_name,
        details={"inline": rows <= service.settings(place.account).inline_rows, "file": given},
        rows=rows,
    )


async def _check_room(service: BatchService, place: Route, order: Order) -> Order:
    """The order with its tokens counted. Raises Refused where jobs or tokens are too many."""
    account = service.account(place.account)
    if account.batch_jobs is not None and len(service.open(place.account)) >= account.batch_jobs:
        raise Refused(error(429, f"You exceeded your current quota: {account.batch_jobs} concurrent batch jobs."))
    try:
        tokens = await count_tokens(_LINES, account, order, Lines(order.source))
    except BadInput:
        return order
    problem = service.over_quota(place.account, tokens)
    if problem is not None:
        raise Refused(error(429, f"You exceeded your current quota. {problem.message}"))
    return replace(order, tokens=tokens)


def _refused(message: str) -> Refused:
    return Refused(error(400, message))


def _missing(name: str) -> WireAnswer:
    return error(404, f"Requested entity batches/{name} was not found.")


def _view(job: Job) -> dict[str, Any]:
    embeds = job.order.path.endswith(":embedContent")
    kind = "EmbedContentBatch" if embeds else "GenerateContentBatch"
    metadata: dict[str, Any] = {
        "@type": f"{_TYPES}{kind}",
        "model": f"models/{job.order.model}",
        "displayName": job.order.tag or "",
        "createTime": rfc3339(job.created),
        "updateTime": rfc3339(job.times[job.state]),
        "batchStats": _stats(job),
        "state": _ODD_STATE if job.shows_odd_state else f"BATCH_STATE_{_STATE[job.state]}",
        "name": f"batches/{job.id}",
        "inputConfig": {"fileName": job.order.details["file"]},
    }
    view: dict[str, Any] = {"name": metadata["name"], "metadata": metadata}
    if not job.state.ended:
        return view
    metadata["endTime"] = rfc3339(job.times[job.state])
    view["done"] = True
    if job.problems:
        view["error"] = {"code": _INVALID_ARGUMENT, "message": job.problems[0].message}
    elif job.state is not BatchState.COMPLETED:
        view["error"] = {"code": _CANCELLED, "message": f"The batch was {job.state}."}
    elif not job.withholds_results:
        metadata["output"] = _output(job, embeds)
        view["response"] = {"@type": f"{_TYPES}{kind}Output", **metadata["output"]}
    return view


def _stats(job: Job) -> dict[str, str]:
    """Counts as the vendor writes them: int64 as text, no zero but the first."""
    tally = job.tally
    counts = {"successfulRequestCount": tally.succeeded + tally.missing, "failedRequestCount": tally.failed}
    if not job.state.ended:
        counts["pendingRequestCount"] = job.rows
    return {"requestCount": str(job.rows)} | {name: str(count) for name, count in counts.items() if count}


def _output(job: Job, embeds: bool) -> dict[str, Any]:
    """Where the results are, or the results themselves."""
    if not job.order.details["inline"]:
        return {"responsesFile": f"{batch_files.PREFIX}{job.output_id}"}
    lines = job.output.read_bytes().split(b"\n") if job.output else []
    results = [json.loads(line) for line in lines if line]
    if not embeds:
        return {"inlinedResponses": {"inlinedResponses": results}}
    for one in results:
        answer = one.get("response")
        if answer is not None:
            answer["tokenCount"] = str(answer.pop("usageMetadata")["promptTokenCount"])
    return {"inlinedEmbedContentResponses": {"inlinedResponses": results}}
