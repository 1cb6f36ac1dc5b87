"""Which requests belong to the batch half."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from hab_ray.simulator.accounts import Kind
from hab_ray.simulator.batch import anthropic as anthropic_batches
from hab_ray.simulator.batch import google as google_batches
from hab_ray.simulator.batch import openai as openai_batches
from hab_ray.simulator.batch import xai as xai_batches
from hab_ray.simulator.batch.service import BatchService
from hab_ray.simulator.vendor import Route

Handler = Callable[[BatchService, Route, web.BaseRequest], Awaitable[web.StreamResponse]]


def keyless(place: Route, request: web.BaseRequest) -> bool:
    """Whether a request needs no key: the URL that Gemini gives for an upload is one."""
    return place.kind is Kind.GOOGLE and place.path == "upload/files" and "upload_id" in request.query


def handler(place: Route) -> Handler | None:
    """What answers a request about files or batches; None if it is about neither."""
    parts = place.path.split("/")
    match place.kind:
        case Kind.OPENAI if parts[0] in ("files", "batches"):
            return openai_batches.handle
        case Kind.XAI if parts[0] in ("files", "batches"):
            return xai_batches.handle
        case Kind.ANTHROPIC if parts[:2] == ["messages", "batches"]:
            return anthropic_batches.handle
        case Kind.GOOGLE if _is_googles(place.path):
            return google_batches.handle
        case _:
            return None


def _is_googles(path: str) -> bool:
    first = path.split("/")[0]
    return (
        first in ("upload", "download", "batches")
        or first.startswith("files")
        or path.endswith((":batchGenerateContent", ":asyncBatchEmbedContent"))
    )
