"""How many tokens a request counts towards a vendor's limits, estimated before the vendor has counted them."""

from __future__ import annotations

from hab_ray.catalog.prices import BYTES_PER_TOKEN

TOKENS_PER_REQUEST = 10  # roles and separators around the texts


def estimated_input_tokens(input_bytes: int) -> int:
    """The input tokens of a request whose texts have this many UTF-8 bytes."""
    return input_bytes // BYTES_PER_TOKEN + TOKENS_PER_REQUEST
