"""Ranks a difference by its consequence for a sweep, according to what the clients of the four vendors read.

A field that no client reads is cosmetic.
"""

import re
from enum import IntEnum


class Rank(IntEnum):
    """Consequence of a difference, the worst first."""

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
# Google's batches have their name twice.
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
# Some parts of the content may be of another type, such as thoughts.
_OF_SOME_PARTS = {"text"}
# Statuses that blame account, address, model or limit, not the request itself.
_NOT_THE_REQUEST = {401, 402, 403, 404, 408, 409, 429}


def of_field(verb: str, path: str, is_in_some: bool) -> Rank:
    """Rank a field that is missing, missing in some objects only (`is_in_some`), or different."""
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
    """Rank a missing header."""
    return Rank.STOPS if name.startswith("x-goog-upload") else Rank.COSMETIC


def of_status(verb: str, status: int | None, is_refused_by_all: bool) -> Rank:
    """Rank a different status; `is_refused_by_all` says that every vendor should refuse the request."""
    is_refusal = status is not None and 400 <= status < 500 and status not in _NOT_THE_REQUEST
    is_harmless = (is_refused_by_all and is_refusal) or (_DELETION.match(verb) and status is not None)
    return Rank.COSMETIC if is_harmless else Rank.STOPS
