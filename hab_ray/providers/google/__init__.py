"""Google's Gemini Developer API."""

import os

from hab_ray.providers.base import JsonObject
from hab_ray.providers.vendor import AtMost, Sum, Vendor, WireProtocol, later

VERSION_ENV = "GOOGLE_GENAI_API_VERSION"
DEFAULT_VERSION = "v1beta"
VERSIONS = (DEFAULT_VERSION, "v1")
_OPEN = frozenset({"BATCH_STATE_PENDING", "BATCH_STATE_RUNNING"})


def stated_version(api_version: str | None) -> str | None:
    """Return the API version that the provider's entry or the environment states, or None."""
    return api_version or os.environ.get(VERSION_ENV) or None


def _is_open(batch: JsonObject) -> bool:
    metadata = batch.get("metadata")
    return isinstance(metadata, dict) and metadata.get("state") in _OPEN


PROTOCOL = WireProtocol(
    played_as="google",
    version="",
    is_openais_online=False,
    sums=(
        Sum(
            "totalTokenCount",
            ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount"),
        ),
        AtMost("cachedContentTokenCount", "promptTokenCount"),
    ),
    open_states=_OPEN,
    same_ends=frozenset({"STOP"}),
    is_open=_is_open,
)
VENDOR = Vendor(
    later("hab_ray.providers.google.chat:GoogleProvider"),
    later("hab_ray.providers.google.batch:GoogleBatches"),
    PROTOCOL,
    later("hab_ray.providers.google.chat:list_models"),
)
