"""Gemini's list of models: GET models, in pages."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from hab_ray.providers.base import Endpoint
from hab_ray.providers.google.connection import Connection
from hab_ray.providers.model_list import all_names

_PAGE = 1000


async def list_models(endpoint: Endpoint) -> frozenset[str]:
    """Return the models of the key, without the prefix "models/"."""
    connection = Connection(endpoint)

    async def page_after(token: str | None) -> tuple[Iterable[object], object]:
        path = f"models?pageSize={_PAGE}" + (f"&pageToken={quote(token, safe='')}" if token else "")
        body = await connection.ask("GET", path)
        return [model["name"].removeprefix("models/") for model in body.get("models", [])], body.get("nextPageToken")

    return await all_names(page_after, connection.close)
