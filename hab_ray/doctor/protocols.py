"""What the shape of a vendor's answers does not show: sums that must hold, and fields whose texts are words of a few.

Everything else that the doctor expects is what the simulator answers to the same request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hab_ray.providers.vendor import WireProtocol

# Fields whose texts come from a short list that code decides by; any other text is free.
WORDS = {
    *("object", "role", "type", "endpoint", "finish_reason", "stop_reason", "finishReason", "modality"),
    *("status", "state", "processing_status", "completion_window", "purpose", "encoding_format"),
}
STATES = {"status", "state", "processing_status"}


def is_open(protocol: WireProtocol, batch: Any) -> bool:
    """Whether a batch, as its vendor shows it, has not ended."""
    if not isinstance(batch, dict):
        return True
    if protocol.is_open is not None:
        return protocol.is_open(batch)
    return bool({str(batch.get(name)) for name in STATES} & protocol.open_states)


def wrong_sums(protocol: WireProtocol, document: Any) -> Iterator[str]:
    """Each sum that does not hold anywhere in an answer."""
    if isinstance(document, dict):
        for law in protocol.sums:
            problem = law.problem(document)
            if problem:
                yield problem
    members = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    for member in members:
        yield from wrong_sums(protocol, member)
