"""What the vendors' batch APIs have in common over HTTP: creating under faults, polling, paging, sending files."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from hab_simulator.asks import WireAnswer
from hab_simulator.batch.dialect import Dialect
from hab_simulator.batch.faults import CutResults, LostCreate, PollError, RefusedCreate, SlowCreate
from hab_simulator.batch.jobs import Job, Order
from hab_simulator.batch.service import BatchService
from hab_simulator.sending import json_response, response, send_half_file, send_reset

Item = TypeVar("Item")


async def create(
    service: BatchService, request: web.BaseRequest, order: Order, dialect: Dialect, view: Callable[[Job], object]
) -> web.StreamResponse:
    """Make a batch and answer with its view, or what the faults leave of that."""
    if service.exhausted(order.account):
        return response(dialect.vendor.no_quota(order.model))
    struck = service.strike(order.account)
    refused = struck.find(RefusedCreate)
    if refused:
        return response(dialect.vendor.fault(refused.status, None))
    job = service.start(order, dialect, struck)
    slow = struck.find(SlowCreate)
    if slow:
        await asyncio.sleep(slow.seconds)
    if struck.find(LostCreate):
        return send_reset(request)
    return json_response(view(job))


def poll(job: Job, dialect: Dialect, missing: WireAnswer, view: Callable[[Job], object]) -> web.Response:
    """Count a poll and answer with the batch's view, or with an error. `missing` is the vendor's 404."""
    job.polls += 1
    job.polls_after_end += job.state.ended
    fault = job.struck.find(PollError)
    if fault is None or job.polls > fault.polls:
        return json_response(view(job))
    return response(missing if fault.status == missing.status else dialect.vendor.fault(fault.status, None))


async def download(request: web.BaseRequest, path: Path, job: Job | None, content_type: str) -> web.StreamResponse:
    """Send a file; half of it if it holds the results of a batch whose downloads break off."""
    if job is None or not breaks_off(job):
        return web.FileResponse(path, headers={"Content-Type": content_type})
    return await send_half_file(request, path, content_type)


def breaks_off(job: Job) -> bool:
    """Count a download of a batch's results; whether it breaks off."""
    fault = job.struck.find(CutResults)
    if fault is None:
        return False
    job.downloads += 1
    return job.downloads <= fault.downloads


def page(items: Sequence[Item], start: int, limit: int) -> tuple[Sequence[Item], bool]:
    """The part of a list from `start` with at most `limit` items, and whether there are more."""
    return items[start : start + limit], len(items) > start + limit


def page_after(items: Sequence[Item], ids: Sequence[str], after: str | None, limit: int) -> tuple[Sequence[Item], bool]:
    """The same from the item behind an id on, which must be one of theirs."""
    return page(items, 0 if after is None else ids.index(after) + 1, limit)


def listing(data: Sequence[dict[str, Any]], more: bool) -> dict[str, Any]:
    """A page of a list whose next one is asked for by the last id."""
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"data": data, "first_id": first, "last_id": last, "has_more": more}
