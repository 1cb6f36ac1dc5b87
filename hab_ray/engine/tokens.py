"""Estimates how many tokens a request counts towards a vendor's limits, before the vendor has counted them."""

from __future__ import annotations

BYTES_PER_TOKEN = 4
TOKENS_PER_REQUEST = 10  # roles and separators between the texts


def estimated_input_tokens(input_bytes: int) -> int:
    """Return the estimated input tokens of a request whose texts have this many UTF-8 bytes."""
    return input_bytes // BYTES_PER_TOKEN + TOKENS_PER_REQUEST
