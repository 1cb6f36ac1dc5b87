"""Gemini's list of models: GET models, by pages."""

from __future__ import annotations

from urllib.parse import quote

from hab_ray.providers.base import Endpoint
from hab_ray.providers.batch_http import reading
from hab_ray.providers.google.connection import Connection
from hab_ray.providers.http import json_object
from hab_ray.providers.model_list import ModelPage, all_names

_PAGE = 1000


async def list_models(endpoint: Endpoint) -> frozenset[str]:
    """The models of the key, without the prefix "models/"."""
    connection = Connection(endpoint)

    async def page_after(token: str | None) -> ModelPage:
        path = f"{connection.versioned('models')}?pageSize={_PAGE}"
        path += f"&pageToken={quote(token, safe='')}" if token else ""
        body = json_object(endpoint.body_without_key(await connection.send("GET", path)))
        with reading():
            names = [model["name"].removeprefix("models/") for model in body.get("models", [])]
            return ModelPage.of(names, body.get("nextPageToken"))

    try:
        return await all_names(page_after)
    finally:
        await connection.close()
