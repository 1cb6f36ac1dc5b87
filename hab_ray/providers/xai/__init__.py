"""xAI: OpenAI's protocol with different token counts, and its own batch API."""

from dataclasses import replace

from hab_ray.providers.base import JsonObject
from hab_ray.providers.openai import PROTOCOL as OPENAIS
from hab_ray.providers.vendor import AtMost, Sum, Vendor, count, later


def _is_open(batch: JsonObject) -> bool:
    """Read the counters: the vendor names no state."""
    return (count(batch, "state.num_pending") or 0) > 0 or not count(batch, "state.num_requests")


PROTOCOL = replace(
    OPENAIS,
    played_as="xai",
    sums=(
        Sum("total_tokens", ("prompt_tokens", "completion_tokens", "completion_tokens_details.reasoning_tokens")),
        AtMost("prompt_tokens_details.cached_tokens", "prompt_tokens"),
    ),
    open_states=frozenset(),
    is_open=_is_open,
)
VENDOR = Vendor(
    later("hab_ray.providers.xai.chat:XaiProvider"),
    later("hab_ray.providers.xai.batch:XaiBatches"),
    PROTOCOL,
    later("hab_ray.providers.openai.files:list_models"),
)
