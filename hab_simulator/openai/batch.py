"""OpenAI's batches: POST and GET /v1/batches, GET /v1/batches/{id}, POST /v1/batches/{id}/cancel."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import Field, ValidationError

from hab_simulator.asks import WireAnswer
from hab_simulator.batch.dialect import Dialect
from hab_simulator.batch.jobs import BatchState, Job, Order
from hab_simulator.batch.replies import create, listing, page_after, poll
from hab_simulator.batch.service import BatchService
from hab_simulator.openai import batch_files
from hab_simulator.openai.bodies import error
from hab_simulator.openai.requests import Body
from hab_simulator.sending import json_response, response
from hab_simulator.settings import first_problem
from hab_simulator.truth.draws import unit
from hab_simulator.vendor import Route

_PURPOSES = frozenset({"batch"})
_LIMIT, _MOST = 20, 100
_ODD_STATE = "awaiting_review"
_STATUS = {BatchState.RUNNING: "in_progress"}
_STAMPS = {
    BatchState.RUNNING: "in_progress_at",
    BatchState.CANCELLING: "cancelling_at",
    BatchState.FINALIZING: "finalizing_at",
    BatchState.COMPLETED: "completed_at",
    BatchState.FAILED: "failed_at",
    BatchState.EXPIRED: "expired_at",
    BatchState.CANCELLED: "cancelled_at",
}
_ENDPOINTS = Literal["/v1/chat/completions", "/v1/embeddings"]


class _Create(Body):
    completion_window: Literal["24h"]
    endpoint: _ENDPOINTS
    input_file_id: str
    metadata: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]] | None = Field(
        default=None, max_length=16
    )


async def handle(lines: Dialect, service: BatchService, place: Route, request: web.BaseRequest) -> web.StreamResponse:
    """Answer a request about files or batches, whose lines are these."""
    match request.method, place.path.split("/"):
        case _, ["files", *rest]:
            return await batch_files.handle(service, place, request, rest, _PURPOSES)
        case "POST", ["batches"]:
            return await _create(lines, service, place, request)
        case "GET", ["batches"]:
            return _list(service, place, request)
        case method, ["batches", name, *rest]:
            job = service.find(place.account, name.removeprefix("batch_"))
            if job is None:
                return response(_missing(name))
            return _about(lines, service, job, method, rest)
        case _:
            return response(error(404, f"Invalid URL ({request.method} /v1/{place.path})"))


def _about(lines: Dialect, service: BatchService, job: Job, method: str, rest: list[str]) -> web.StreamResponse:
    match method, rest:
        case "GET", []:
            return poll(job, lines, _missing(_name(job)), lambda job: _view(service, job))
        case "POST", ["cancel"] if job.state.ended:
            return response(error(409, f"Cannot cancel a batch with status '{job.state}'."))
        case "POST", ["cancel"]:
            job.cancel(service.clock.now())
            return json_response(_view(service, job))
        case _:
            return response(error(404, f"Invalid URL ({method} /v1/batches/{'/'.join([_name(job), *rest])})"))


async def _create(lines: Dialect, service: BatchService, place: Route, request: web.BaseRequest) -> web.StreamResponse:
    try:
        wanted = _Create.model_validate_json(await request.content.read())
    except ValidationError as failure:
        param, message, _ = first_problem(failure)
        return response(error(400, f"Invalid value for '{param}': {message}.", param=param, code="invalid_value"))
    file = service.files.find(place.account, wanted.input_file_id.removeprefix(batch_files.PREFIX))
    if file is None or file.purpose != "batch":
        message = f"Invalid input_file_id: no such file {wanted.input_file_id} with purpose batch."
        return response(error(400, message, param="input_file_id"))
    order = Order(
        account=place.account,
        source=file.path,
        path=wanted.endpoint.removeprefix("/v1/"),
        model="",
        tag=wanted.metadata,
        details=wanted.model_dump(),
    )
    return await create(service, request, order, lines, lambda job: _view(service, job))


def _list(service: BatchService, place: Route, request: web.BaseRequest) -> web.StreamResponse:
    jobs = service.listed(place.account)
    ids = [_name(job) for job in jobs]
    after, limit = request.query.get("after"), request.query.get("limit", str(_LIMIT))
    if after is not None and after not in ids:
        return response(error(400, f"No batch found with id '{after}'.", param="after"))
    if not limit.isdecimal() or not 1 <= int(limit) <= _MOST:
        return response(error(400, f"'limit' must be between 1 and {_MOST}.", param="limit"))
    items, more = page_after(jobs, ids, after, int(limit))
    return json_response({"object": "list", **listing([_view(service, job) for job in items], more)})


def _missing(name: str) -> WireAnswer:
    return error(404, f"No batch found with id '{name}'.", code="not_found")


def _name(job: Job) -> str:
    return f"batch_{job.id}"


def _view(service: BatchService, job: Job) -> dict[str, Any]:
    ordered = job.order.details
    view: dict[str, Any] = {
        "id": _name(job),
        "object": "batch",
        "endpoint": ordered["endpoint"],
        "model": job.model or None,
        "errors": None,
        "input_file_id": ordered["input_file_id"],
        "completion_window": ordered["completion_window"],
        "status": _ODD_STATE if job.shows_odd_state else _STATUS.get(job.state, job.state),
        "output_file_id": None,
        "error_file_id": None,
        "created_at": int(job.created),
        "expires_at": int(job.expires),
        "request_counts": _counts(service, job),
        "metadata": job.order.tag,
    }
    view |= {stamp: int(job.times[state]) if state in job.times else None for state, stamp in _STAMPS.items()}
    if job.problems:
        view["errors"] = {"object": "list", "data": [asdict(one) for one in job.problems]}
    elif job.state.ended:
        view |= _results(service, job)
    return view


def _counts(service: BatchService, job: Job) -> dict[str, int]:
    if job.state.ended:
        done = job.tally.succeeded + job.tally.missing
        failed = job.tally.failed + (job.tally.undone if job.state is BatchState.EXPIRED else 0)
    else:
        done, failed = int(job.rows * job.progress(service.clock.now())), 0
    return {"total": job.rows, "completed": done, "failed": failed}


def _results(service: BatchService, job: Job) -> dict[str, Any]:
    """The files that hold the results, and the tokens used."""
    tally, clean = job.tally, unit(service.profile.seed, "clean", job.id) < job.settings.clean_error_file
    output, errors = (None, None) if job.withholds_results else (job.output, job.errors)
    return {
        "output_file_id": f"{batch_files.PREFIX}{job.output_id}" if output else None,
        "error_file_id": f"{batch_files.PREFIX}{job.errors_id}" if errors else "" if clean else None,
        "usage": {
            "input_tokens": tally.input_tokens,
            "input_tokens_details": {"cached_tokens": tally.cached_tokens},
            "output_tokens": tally.output_tokens,
            "output_tokens_details": {"reasoning_tokens": tally.reasoning_tokens},
            "total_tokens": tally.input_tokens + tally.output_tokens,
        },
    }
