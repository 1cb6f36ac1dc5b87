"""OpenAI, and all endpoints with its protocol."""

from hab_ray.providers.vendor import AtMost, Sum, Vendor, WireProtocol, later

PROTOCOL = WireProtocol(
    played_as="openai",
    version="/v1",
    is_openais_online=True,
    sums=(
        Sum("total_tokens", ("prompt_tokens", "completion_tokens")),
        Sum("total_tokens", ("input_tokens", "output_tokens")),
        AtMost("prompt_tokens_details.cached_tokens", "prompt_tokens"),
        AtMost("completion_tokens_details.reasoning_tokens", "completion_tokens"),
    ),
    open_states=frozenset({"validating", "in_progress", "finalizing"}),
    same_ends=frozenset({"stop"}),
)
VENDOR = Vendor(
    later("hab_ray.providers.openai.chat:OpenAIProvider"),
    later("hab_ray.providers.openai.batch:OpenAIBatches"),
    PROTOCOL,
    later("hab_ray.providers.openai.files:list_models"),
)
