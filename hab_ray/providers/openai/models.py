"""OpenAI's list of models, which compatible endpoints and xAI have too: GET /models, on one page."""

from __future__ import annotations

from hab_ray.providers.base import Endpoint
from hab_ray.providers.batch_http import reading
from hab_ray.providers.model_list import ModelPage, all_names
from hab_ray.providers.openai.files import FileAccount


async def list_models(endpoint: Endpoint) -> frozenset[str]:
    """The models of the key."""
    account = FileAccount(endpoint)

    async def page_after(_: str | None) -> ModelPage:
        body = account.read(await account.get("/models"))
        with reading():
            return ModelPage.of((model["id"] for model in body["data"]), None)

    try:
        return await all_names(page_after)
    finally:
        await account.close()
