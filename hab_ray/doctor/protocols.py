"""What the shape of a vendor's answers does not show: sums that must hold, and fields whose texts are words of a few.

Everything else that the doctor expects is what the simulator answers to the same request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hab_ray.providers.vendor import WireProtocol

# Fields whose texts come from a short list that code decides by; any other text is free.
WORDS = {
    *("object", "role", "type", "endpoint", "finish_reason", "stop_reason", "finishReason", "modality"),
    *("status", "state", "processing_status", "completion_window", "purpose", "encoding_format"),
}
STATES = {"status", "state", "processing_status"}
# The words for a batch that has not ended; the simulator may pass through some too fast to be seen.
OPEN_STATES: Mapping[WireProtocol, frozenset[str]] = {
    WireProtocol.OPENAI: frozenset({"validating", "in_progress", "finalizing"}),
    WireProtocol.ANTHROPIC: frozenset({"in_progress"}),
    WireProtocol.GOOGLE: frozenset({"BATCH_STATE_PENDING", "BATCH_STATE_RUNNING"}),
    WireProtocol.XAI: frozenset(),
}
# Words for an end that means the same to a sweep as the ordinary one.
SAME_ENDS: Mapping[WireProtocol, frozenset[str]] = {
    WireProtocol.OPENAI: frozenset({"stop"}),
    WireProtocol.ANTHROPIC: frozenset({"end_turn", "stop_sequence"}),
    WireProtocol.GOOGLE: frozenset({"STOP"}),
    WireProtocol.XAI: frozenset({"stop"}),
}


def is_open(protocol: WireProtocol, batch: Any) -> bool:
    """Whether a batch, as its vendor shows it, has not ended. xAI has counters in the place of a word."""
    if not isinstance(batch, dict):
        return True
    if protocol is WireProtocol.XAI:
        return (_count(batch, "state.num_pending") or 0) > 0 or not _count(batch, "state.num_requests")
    within = batch.get("metadata") if protocol is WireProtocol.GOOGLE else batch
    words = {within.get(name) for name in STATES} if isinstance(within, dict) else set()
    return bool(words & OPEN_STATES[protocol])


@dataclass(frozen=True)
class Sum:
    """A count that is the sum of others in the same object, dots leading into objects within; absent ones are 0."""

    total: str
    parts: tuple[str, ...]

    def problem(self, counts: Mapping[str, Any]) -> str | None:
        """What is wrong with the counts of one object; None where nothing is, or where it has no such sum."""
        total, first = _count(counts, self.total), _count(counts, self.parts[0])
        if total is None or first is None:
            return None
        added = sum(_count(counts, part) or 0 for part in self.parts)
        return None if added == total else f"`{self.total}` is {total}, and {' + '.join(self.parts)} is {added}"


@dataclass(frozen=True)
class AtMost:
    """A count that is a part of another in the same object."""

    part: str
    whole: str

    def problem(self, counts: Mapping[str, Any]) -> str | None:
        """See Sum."""
        part, whole = _count(counts, self.part), _count(counts, self.whole)
        if part is None or whole is None or part <= whole:
            return None
        return f"`{self.part}` is {part}, more than `{self.whole}` ({whole})"


_USAGE: Mapping[WireProtocol, tuple[Sum | AtMost, ...]] = {
    WireProtocol.OPENAI: (
        Sum("total_tokens", ("prompt_tokens", "completion_tokens")),
        Sum("total_tokens", ("input_tokens", "output_tokens")),
        AtMost("prompt_tokens_details.cached_tokens", "prompt_tokens"),
        AtMost("completion_tokens_details.reasoning_tokens", "completion_tokens"),
    ),
    WireProtocol.XAI: (
        Sum("total_tokens", ("prompt_tokens", "completion_tokens", "completion_tokens_details.reasoning_tokens")),
        AtMost("prompt_tokens_details.cached_tokens", "prompt_tokens"),
    ),
    WireProtocol.ANTHROPIC: (AtMost("output_tokens_details.thinking_tokens", "output_tokens"),),
    WireProtocol.GOOGLE: (
        Sum(
            "totalTokenCount",
            ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount"),
        ),
        AtMost("cachedContentTokenCount", "promptTokenCount"),
    ),
}


def wrong_sums(protocol: WireProtocol, document: Any) -> Iterator[str]:
    """Each sum that does not hold anywhere in an answer."""
    if isinstance(document, dict):
        for law in _USAGE[protocol]:
            problem = law.problem(document)
            if problem:
                yield problem
    members = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    for member in members:
        yield from wrong_sums(protocol, member)


def _count(counts: Mapping[str, Any], path: str) -> int | None:
    value: Any = counts
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
