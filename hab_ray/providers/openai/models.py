"""The list of models of OpenAI, xAI and compatible endpoints: GET /models, a single page."""

from __future__ import annotations

from collections.abc import Iterable

from hab_ray.providers.base import Endpoint
from hab_ray.providers.model_list import all_names
from hab_ray.providers.openai.files import FileAccount


async def list_models(endpoint: Endpoint) -> frozenset[str]:
    """Return the models of the key."""
    account = FileAccount(endpoint)

    async def page_after(_: str | None) -> tuple[Iterable[object], object]:
        body = account.read(await account.get("/models"))
        return [model["id"] for model in body["data"]], None

    return await all_names(page_after, account.close)
