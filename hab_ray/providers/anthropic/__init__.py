"""Anthropic."""

from hab_ray.providers.vendor import AtMost, Vendor, WireProtocol, later

PROTOCOL = WireProtocol(
    played_as="anthropic",
    version="",
    is_openais_online=False,
    sums=(AtMost("output_tokens_details.thinking_tokens", "output_tokens"),),
    open_states=frozenset({"in_progress"}),
    same_ends=frozenset({"end_turn", "stop_sequence"}),
)
VENDOR = Vendor(
    later("hab_ray.providers.anthropic.chat:AnthropicProvider"),
    later("hab_ray.providers.anthropic.batch:AnthropicBatches"),
    PROTOCOL,
    later("hab_ray.providers.anthropic.chat:list_models"),
)
