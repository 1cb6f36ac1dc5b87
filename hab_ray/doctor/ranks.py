"""What a difference means for a sweep, judged by what the clients of the four vendors read.

A field that no client reads is cosmetic, whatever a vendor makes of it.
"""

from __future__ import annotations

import re
from enum import IntEnum


class Rank(IntEnum):
    """What follows from a difference, the worst first."""

    STOPS = 0
    COSTS = 1
    LOSES = 2
    COSMETIC = 3

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Rank.STOPS: "your sweep will not work",
    Rank.COSTS: "costs more",
    Rank.LOSES: "may lose rows",
    Rank.COSMETIC: "cosmetic",
}
_DELETION, _UPLOAD = re.compile("^DELETE "), re.compile(r"^POST (upload/\w+/)?files\b")
_BATCH = re.compile(r"^(POST|GET) (\S+/)?(batches|batches/\{id\}|\S+:(async)?[bB]atch\w+)( at its end)?$")
STATES = {"status", "state", "processing_status"}
_NAMES = {"id", "batch_id", "name", "file"}
# A batch of Google's has its name twice.
_UNREAD = {"metadata.name"}
_OF_BATCHES = {
    **dict.fromkeys([*_NAMES, *STATES, "metadata", "data"], Rank.STOPS),
    **dict.fromkeys(["output_file_id", "results_url", "output", "responsesFile"], Rank.STOPS),
    **dict.fromkeys(["request_counts", "total", "completed", "failed"], Rank.LOSES),
    **dict.fromkeys(["processing", "succeeded", "errored", "canceled", "expired"], Rank.LOSES),
    **dict.fromkeys(["num_requests", "num_pending", "num_success", "num_error", "num_cancelled"], Rank.LOSES),
    **dict.fromkeys(["batchStats", "requestCount", "successfulRequestCount", "pendingRequestCount"], Rank.LOSES),
}
_OF_REPLIES = {
    **dict.fromkeys(["choices", "message", "content", "text", "candidates", "parts", "embedding"], Rank.STOPS),
    **dict.fromkeys(["data", "embeddings", "values", "results"], Rank.STOPS),
    **dict.fromkeys(["custom_id", "key", "batch_request_id", "result", "response", "body"], Rank.STOPS),
    **dict.fromkeys(["batch_result", "chat_get_completion", "status_code"], Rank.STOPS),
    **dict.fromkeys(["usage", "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens"], Rank.COSTS),
    **dict.fromkeys(["usageMetadata", "promptTokenCount", "candidatesTokenCount"], Rank.COSTS),
    **dict.fromkeys(["finish_reason", "stop_reason", "finishReason"], Rank.LOSES),
}
# A list of the content's parts may have some of other types, such as thoughts.
_OF_SOME_PARTS = {"text"}
# What a vendor may say to a request that nobody could answer: no account, address, model or limit is at fault.
_NOT_THE_REQUEST = {401, 402, 403, 404, 408, 409, 429}


def of_field(verb: str, path: str, is_in_some: bool) -> Rank:
    """What it means that a field of an answer is gone or another, or gone from some objects only."""
    name = path.rpartition(".")[2].removesuffix("[]")
    if _DELETION.match(verb) or (is_in_some and name in _OF_SOME_PARTS):
        return Rank.COSMETIC
    if _UPLOAD.match(verb):
        return Rank.STOPS if name in _NAMES else Rank.COSMETIC
    if _BATCH.match(verb):
        is_unread = path.startswith("usage.") or path in _UNREAD
        return Rank.COSMETIC if is_unread else _OF_BATCHES.get(name, Rank.COSMETIC)
    return _OF_REPLIES.get(name, Rank.COSMETIC)


def of_header(name: str) -> Rank:
    """What it means that a header is gone."""
    return Rank.STOPS if name.startswith("x-goog-upload") else Rank.COSMETIC


def of_status(verb: str, status: int | None, is_refused_by_all: bool) -> Rank:
    """What it means that a request is answered by another status; `is_refused_by_all` where all is well refused."""
    is_refusal = status is not None and 400 <= status < 500 and status not in _NOT_THE_REQUEST
    is_harmless = (is_refused_by_all and is_refusal) or (_DELETION.match(verb) and status is not None)
    return Rank.COSMETIC if is_harmless else Rank.STOPS
