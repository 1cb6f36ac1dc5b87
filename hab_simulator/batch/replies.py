"""What the vendors' batch APIs have in common over HTTP: creating under faults, polling, paging, sending files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from aiohttp import web

from hab_simulator.asks import WireAnswer, compact
from hab_simulator.batch.dialect import Dialect
from hab_simulator.batch.faults import CutResults, LostCreate, PollError, RefusedCreate, SlowCreate
from hab_simulator.batch.jobs import Job, Order
from hab_simulator.batch.service import BatchService
from hab_simulator.sending import response, send_file, send_half_file, send_reset

Item = TypeVar("Item")


def ok(body: object) -> web.Response:
    """A whole answer of status 200."""
    return response(WireAnswer(200, compact(body)))


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
    return ok(view(job))


def poll_refusal(job: Job, dialect: Dialect, missing: WireAnswer) -> WireAnswer | None:
    """Count a poll; the error it is answered with, if any. `missing` is the vendor's 404."""
    job.polls += 1
    job.polls_after_end += job.state.ended
    fault = job.struck.find(PollError)
    if fault is None or job.polls > fault.polls:
        return None
    return missing if fault.status == missing.status else dialect.vendor.fault(fault.status, None)


async def download(request: web.BaseRequest, path: Path, job: Job | None, content_type: str) -> web.StreamResponse:
    """Send a file; half of it if it holds the results of a batch whose downloads break off."""
    if job is None or not breaks_off(job):
        return send_file(path, content_type)
    return await send_half_file(request, path, content_type)


def breaks_off(job: Job) -> bool:
    """Count a download of a batch's results; whether it breaks off."""
    fault = job.struck.find(CutResults)
    if fault is None:
        return False
    job.downloads += 1
    return job.downloads <= fault.downloads


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A part of a list."""

    items: Sequence[Item]
    more: bool


def page(items: Sequence[Item], start: int, limit: int) -> Page[Item]:
    """The part from `start` with at most `limit` items."""
    return Page(items[start : start + limit], len(items) > start + limit)
