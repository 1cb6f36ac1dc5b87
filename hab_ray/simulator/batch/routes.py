"""Which requests belong to the batch half."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from hab_ray.simulator import anthropic, google, openai, xai
from hab_ray.simulator.batch import anthropic as anthropic_batches
from hab_ray.simulator.batch import google as google_batches
from hab_ray.simulator.batch import openai as openai_batches
from hab_ray.simulator.batch import xai as xai_batches
from hab_ray.simulator.batch.desk import Desk
from hab_ray.simulator.vendor import Route

Handler = Callable[[Desk, Route, web.BaseRequest], Awaitable[web.StreamResponse]]


def keyless(place: Route, request: web.BaseRequest) -> bool:
    """Whether a request needs no key: the URL that Gemini gives for an upload is one."""
    return place.vendor is google and place.path == "upload/files" and "upload_id" in request.query


def handler(place: Route) -> Handler | None:
    """What answers a request about files or batches; None if it is about neither."""
    parts = place.path.split("/")
    if place.vendor is openai and parts[0] in ("files", "batches"):
        return openai_batches.handle
    if place.vendor is xai and parts[0] in ("files", "batches"):
        return xai_batches.handle
    if place.vendor is anthropic and parts[:2] == ["messages", "batches"]:
        return anthropic_batches.handle
    if place.vendor is google and (
        parts[0] in ("upload", "download", "batches")
        or parts[0].startswith("files")
        or place.path.endswith((":batchGenerateContent", ":asyncBatchEmbedContent"))
    ):
        return google_batches.handle
    return None
