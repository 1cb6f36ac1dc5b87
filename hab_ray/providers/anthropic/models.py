"""Anthropic's list of models: GET /v1/models, newest first, retired ones marked."""

from __future__ import annotations

from hab_ray.providers.anthropic.batch import account_of
from hab_ray.providers.base import Endpoint
from hab_ray.providers.batch_http import reading
from hab_ray.providers.model_list import ModelPage, all_names

_PAGE = 1000
_RETIRED = "retired"


async def list_models(endpoint: Endpoint) -> frozenset[str]:
    """The models of the key, without those that the vendor lists as retired."""
    account = account_of(endpoint)

    async def page_after(last: str | None) -> ModelPage:
        params = {"limit": _PAGE} if last is None else {"limit": _PAGE, "after_id": last}
        body = account.read(await account.get("/v1/models", params))
        with reading():
            names = (model["id"] for model in body["data"] if model.get("lifecycle") != _RETIRED)
            return ModelPage.of(names, body["last_id"] if body.get("has_more") else None)

    try:
        return await all_names(page_after)
    finally:
        await account.close()
