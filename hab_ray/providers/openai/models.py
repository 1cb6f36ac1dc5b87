"""OpenAI's list of models, which compatible endpoints and xAI have too: GET /models, on one page."""

from __future__ import annotations

import httpx2
from openai import APIConnectionError, APIStatusError

from hab_ray.providers.base import Endpoint
from hab_ray.providers.batch_http import SdkErrors, answered, json_of, reading
from hab_ray.providers.model_list import ModelPage, all_names
from hab_ray.providers.openai.chat import connection
from hab_ray.providers.openai.errors import classify

_ERRORS = SdkErrors(APIStatusError, APIConnectionError)


async def list_models(endpoint: Endpoint) -> frozenset[str]:
    """The models of the key."""
    client = connection(endpoint)

    async def page_after(_: str | None) -> ModelPage:
        request = client.get("/models", cast_to=httpx2.Response)
        body = json_of(endpoint, await answered(request, endpoint, _ERRORS, classify))
        with reading():
            return ModelPage.of((model["id"] for model in body["data"]), None)

    try:
        return await all_names(page_after)
    finally:
        await client.close()
