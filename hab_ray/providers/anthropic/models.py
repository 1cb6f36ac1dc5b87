"""Anthropic's list of models: GET /v1/models, newest first, retired ones marked."""

from __future__ import annotations

from collections.abc import Iterable

from hab_ray.providers.anthropic.chat import SDK
from hab_ray.providers.base import Endpoint
from hab_ray.providers.model_list import all_names
from hab_ray.providers.sdk import SdkAccount

_PAGE = 1000
_RETIRED = "retired"


async def list_models(endpoint: Endpoint) -> frozenset[str]:
    """Return the models of the key that are not retired."""
    account = SdkAccount(endpoint, SDK)

    async def page_after(last: str | None) -> tuple[Iterable[object], object]:
        query = {"limit": _PAGE} | ({"after_id": last} if last else {})
        body = account.read(await account.get("/v1/models", query))
        names = [model["id"] for model in body["data"] if model.get("lifecycle") != _RETIRED]
        return names, body["last_id"] if body.get("has_more") else None

    return await all_names(page_after, account.close)
