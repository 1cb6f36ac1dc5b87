"""Exchanges of the shapes that vendors really send: 30 of each, from a body of each kind and its variations.

A variation names a field by its path, and what it is there; `...` leaves it out.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]
Variation = Mapping[str, Any]


@dataclass(frozen=True)
class Recorded:
    """An answer of a vendor to a request like `verb`, a pattern of "METHOD path"; `is_refusal` for a malformed one."""

    provider: str
    verb: str
    body: Body
    status: int = 200
    is_refusal: bool = False
    headers: Mapping[str, str] | None = None


def varied(body: Body, variation: Variation) -> Body:
    """A body with some fields otherwise."""
    made = copy.deepcopy(body)
    for path, value in variation.items():
        *above, name = path.split(".")
        place: Any = made
        for step in above:
            place = place[int(step)] if step.isdecimal() else place[step]
        if value is ...:
            place.pop(name)
        else:
            place[name] = value
    return made


def each(provider: str, verb: str, body: Body, variations: Sequence[Variation]) -> Iterator[Recorded]:
    """An exchange of each variation."""
    return (Recorded(provider, verb, varied(body, one)) for one in variations)


OPENAI_CHAT: Body = {
    "id": "chatcmpl-DqR7", "object": "chat.completion", "created": 1795000000, "model": "openai-one-2026-04-14",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": '{"assessment": {}, "issues": []}', "refusal": None,
         "annotations": []}, "logprobs": None, "finish_reason": "stop"}
    ],
    "usage": {
        "prompt_tokens": 310, "completion_tokens": 44, "total_tokens": 354,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0
        },
    },
    "service_tier": "default", "system_fingerprint": "fp_b1442291a8",
}  # fmt: skip
OPENAI_CHATS: list[Variation] = [
    {},
    {"system_fingerprint": None},
    {"system_fingerprint": ...},
    {"service_tier": ...},
    {"service_tier": None},
    {"choices.0.message.annotations": ...},
    {"choices.0.message.refusal": ...},
    {"choices.0.logprobs": ...},
    {"usage.completion_tokens_details": ...},
    {"usage.prompt_tokens_details": ...},
    {"usage.prompt_tokens_details.audio_tokens": ..., "usage.completion_tokens_details.audio_tokens": ...},
    {"usage.completion_tokens_details.reasoning_tokens": 32},
    {"usage.prompt_tokens_details.cached_tokens": 256, "usage.prompt_tokens_details.cache_write_tokens": 54},
    {"choices.0.message.tool_calls": None, "choices.0.message.audio": None, "choices.0.message.function_call": None},
    {"choices.0.message.content": "", "choices.0.finish_reason": "length"},
]
OPENAI_BATCH: Body = {
    "id": "batch_68", "object": "batch", "endpoint": "/v1/chat/completions", "model": None, "errors": None,
    "input_file_id": "file-Ab", "completion_window": "24h", "status": "validating", "output_file_id": None,
    "error_file_id": None, "created_at": 1795000000, "in_progress_at": None, "expires_at": 1795086400,
    "finalizing_at": None, "completed_at": None, "failed_at": None, "expired_at": None, "cancelling_at": None,
    "cancelled_at": None, "request_counts": {"total": 0, "completed": 0, "failed": 0}, "metadata": {"hab_tag": "t"},
}  # fmt: skip
OPENAI_USAGE = {
    "input_tokens": 0, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0,
}  # fmt: skip
OPENAI_OPEN: list[Variation] = [
    {},
    {"usage": OPENAI_USAGE},
    {"errors": ..., "output_expires_after": None},
    {"status": "in_progress", "in_progress_at": 1795000050, "request_counts.total": 2},
    {
        "status": "finalizing",
        "model": "openai-one-2026-04-14",
        "finalizing_at": 1795000100,
        "in_progress_at": 1795000050,
    },
]
OPENAI_ENDED = {
    "status": "completed", "output_file_id": "file-Out", "in_progress_at": 1795000050, "finalizing_at": 1795000100,
    "completed_at": 1795000130, "request_counts": {"total": 2, "completed": 2, "failed": 0},
    "model": "openai-one-2026-04-14", "usage": OPENAI_USAGE,
}  # fmt: skip
OPENAI_FILE: Body = {
    "id": "file-Ab", "object": "file", "bytes": 812, "created_at": 1795000000, "expires_at": 1797592000,
    "filename": "hab-1.jsonl", "purpose": "batch", "status": "processed", "status_details": None,
}  # fmt: skip
FILES: list[Variation] = [{}, {"expires_at": None}, {"expires_at": ..., "status_details": ...}, {"status": "uploaded"}]
OPENAI_ERROR: Body = {
    "error": {"message": "Invalid 'messages': empty array.", "type": "invalid_request_error", "param": "messages",
              "code": "empty_array"}
}  # fmt: skip
ANTHROPIC_CHAT: Body = {
    "id": "msg_01X", "type": "message", "role": "assistant", "model": "anthropic-one",
    "content": [{"type": "text", "text": "Take the one near your friends."}],
    "stop_reason": "end_turn", "stop_sequence": None,
    "usage": {
        "input_tokens": 40, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}, "output_tokens": 12,
        "service_tier": "standard",
    },
}  # fmt: skip
ANTHROPIC_CHATS: list[Variation] = [
    {},
    {"usage.cache_creation": ...},
    {"usage.service_tier": ...},
    {"usage.service_tier": None},
    {"usage.inference_geo": "not_available"},
    {"usage.server_tool_use": {"web_search_requests": 0}},
    {"stop_details": None, "container": None},
    {"context_management": {"applied_edits": []}},
    {"content.0.citations": None},
    {"content.0.citations": []},
    {"content": [{"type": "thinking", "thinking": "Hm.", "signature": "Eq"}, {"type": "text", "text": "Yes."}]},
    {"content": [{"type": "redacted_thinking", "data": "Em"}, {"type": "text", "text": "Yes."}]},
    {"usage.output_tokens_details": {"thinking_tokens": 3}},
    {"usage.cache_creation_input_tokens": ..., "usage.cache_read_input_tokens": ..., "usage.cache_creation": ...},
    {"stop_reason": "stop_sequence", "stop_sequence": "END"},
    {"stop_reason": "max_tokens"},
]
ANTHROPIC_BATCH: Body = {
    "id": "msgbatch_01", "type": "message_batch", "processing_status": "in_progress",
    "request_counts": {"processing": 2, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0},
    "created_at": "2026-11-20T18:37:24.100435+00:00", "ended_at": None,
    "expires_at": "2026-11-21T18:37:24.100435+00:00",
    "archived_at": None, "cancel_initiated_at": None, "results_url": None,
}  # fmt: skip
ANTHROPIC_OPEN: list[Variation] = [
    {},
    {"archived_at": ..., "cancel_initiated_at": ...},
    {"created_at": "2026-11-20T18:37:24Z", "workspace_id": "wrkspc_1"},
    {"results_url": ..., "ended_at": ...},
]
ANTHROPIC_ENDED = {
    "processing_status": "ended", "ended_at": "2026-11-20T18:39:24Z", "results_url": "https://api.anthropic.com/r",
    "request_counts": {"processing": 0, "succeeded": 2, "errored": 0, "canceled": 0, "expired": 0},
}  # fmt: skip
ANTHROPIC_ERROR: Body = {
    "type": "error", "error": {"type": "invalid_request_error", "message": "messages: at least one is required"},
    "request_id": "req_011",
}  # fmt: skip
GOOGLE_CHAT: Body = {
    "candidates": [
        {"content": {"parts": [{"text": "Take the one near your friends."}], "role": "model"}, "finishReason": "STOP",
         "index": 0}
    ],
    "usageMetadata": {
        "promptTokenCount": 40, "candidatesTokenCount": 12, "totalTokenCount": 52,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 40}],
    },
    "modelVersion": "google-one", "responseId": "aBc",
}  # fmt: skip
GOOGLE_CHATS: list[Variation] = [
    {},
    {"candidates.0.index": ...},
    {"candidates.0.avgLogprobs": -0.21},
    {"candidates.0.content.role": ...},
    {"candidates.0.safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}]},
    {"candidates.0.citationMetadata": {"citationSources": [{"startIndex": 1, "endIndex": 5}]}},
    {"candidates.0.content.parts": [{"text": "Yes.", "thoughtSignature": "Eq"}]},
    {"candidates.0.content.parts": [{"text": "Hm.", "thought": True}, {"text": "Yes."}]},
    {"candidates.0.content.parts": [{"text": "Yes."}, {"thoughtSignature": "Eq"}]},
    {"usageMetadata.thoughtsTokenCount": 8, "usageMetadata.totalTokenCount": 60},
    {"usageMetadata.candidatesTokensDetails": [{"modality": "TEXT", "tokenCount": 12}]},
    {"usageMetadata.promptTokensDetails": ...},
    {"usageMetadata.serviceTier": "standard", "usageMetadata.trafficType": "ON_DEMAND"},
    {"usageMetadata.cachedContentTokenCount": 20, "usageMetadata.cacheTokensDetails": []},
    {"responseId": ..., "createTime": "2026-11-20T18:39:24Z"},
    {"modelStatus": {"modelStage": "STABLE"}},
    {"candidates.0.finishReason": "MAX_TOKENS"},
]
GOOGLE_BATCH: Body = {
    "name": "batches/x1",
    "metadata": {
        "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
        "model": "models/google-one", "displayName": "t", "inputConfig": {"fileName": "files/x"},
        "createTime": "2026-11-20T18:37:24.1Z", "updateTime": "2026-11-20T18:37:24.1Z",
        "batchStats": {"requestCount": "2", "pendingRequestCount": "2"}, "state": "BATCH_STATE_PENDING",
        "name": "batches/x1",
    },
}  # fmt: skip
GOOGLE_OPEN: list[Variation] = [
    {},
    {"metadata.state": "BATCH_STATE_RUNNING"},
    {"metadata.priority": "0", "done": False},
    {"metadata.name": ..., "metadata.inputConfig": ...},
]
_OUTPUT = {"responsesFile": "files/batch-x1"}
GOOGLE_ENDED = {
    "metadata.state": "BATCH_STATE_SUCCEEDED", "metadata.endTime": "2026-11-20T18:39:24Z", "metadata.output": _OUTPUT,
    "metadata.batchStats": {"requestCount": "2", "successfulRequestCount": "2"}, "done": True,
    "response": {"@type": "type.googleapis.com/google.ai.generativelanguage.v1main.Output", **_OUTPUT},
}  # fmt: skip
GOOGLE_FILE: Body = {
    "file": {
        "name": "files/x", "displayName": "t", "mimeType": "application/jsonl", "sizeBytes": "812",
        "createTime": "2026-11-20T18:37:24.1Z", "updateTime": "2026-11-20T18:37:24.1Z",
        "expirationTime": "2026-11-22T18:37:24.1Z", "sha256Hash": "YWI=", "uri": "https://g/v1beta/files/x",
        "state": "ACTIVE", "source": "UPLOADED",
    }
}  # fmt: skip
GOOGLE_ERROR: Body = {
    "error": {"code": 400, "message": "* GenerateContentRequest.contents: contents is not specified\n",
              "status": "INVALID_ARGUMENT"}
}  # fmt: skip
XAI_CHAT: Body = {
    "id": "1f0a-c9", "object": "chat.completion", "created": 1795000000, "model": "xai-one",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Near your friends.", "refusal": None},
         "finish_reason": "stop"}
    ],
    "usage": {
        "prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 241,
        "prompt_tokens_details": {"text_tokens": 12, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 4},
        "completion_tokens_details": {
            "reasoning_tokens": 228, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0
        },
        "num_sources_used": 0, "cost_in_usd_ticks": 1373600,
    },
    "system_fingerprint": "fp_86",
}  # fmt: skip
XAI_CHATS: list[Variation] = [
    {},
    {"choices.0.message.reasoning_content": "Hm."},
    {"choices.0.message.refusal": ...},
    {"choices.0.logprobs": None},
    {"usage.num_sources_used": ...},
    {"usage.cost_in_usd_ticks": ...},
    {"usage.prompt_tokens_details.text_tokens": ...},
    {"system_fingerprint": None},
    {"system_fingerprint": ...},
    {"service_tier": "default"},
    {"citations": None},
    {"choices.0.message.tool_calls": None},
    {"usage.completion_tokens_details.reasoning_tokens": 0, "usage.total_tokens": 13},
    {"usage.cost_in_nano_usd": 137360},
    {"choices.0.finish_reason": "length"},
]
XAI_BATCH: Body = {
    "batch_id": "b-1", "name": "t", "create_time": "2026-11-20T18:37:24.1Z", "expire_time": "2026-12-20T18:37:24.1Z",
    "create_api_key_id": "k-1", "cancel_time": None, "cancel_by_xai_message": None,
    "state": {"num_requests": 2, "num_pending": 2, "num_success": 0, "num_error": 0, "num_cancelled": 0},
}  # fmt: skip
XAI_OPEN: list[Variation] = [
    {},
    {"cancel_time": ..., "cancel_by_xai_message": ...},
    {"cost_breakdown": {"total_cost_usd_ticks": 0}},
    {"state.num_pending": 1, "state.num_success": 1},
]
XAI_ENDED = {"state.num_pending": 0, "state.num_success": 2}
XAI_FILE: Body = {
    "id": "file-1", "object": "file", "bytes": 812, "created_at": 1795000000, "filename": "t.jsonl", "purpose": "",
    "create_api_key_id": "k-1",
}  # fmt: skip


def _refused(provider: str, verb: str, bodies: Sequence[Body], status: int = 400) -> Iterator[Recorded]:
    return (Recorded(provider, verb, body, status, is_refusal=True) for body in bodies)


def exchanges(provider: str) -> list[Recorded]:
    """30 exchanges of one vendor."""
    made = {"openai": _of_openai, "anthropic": _of_anthropic, "google": _of_google, "xai": _of_xai}[provider]()
    return list(made)


def _of_openai() -> Iterator[Recorded]:
    chat, look, file = "POST chat/completions", r"GET batches/[^/?]+$", "POST files"
    yield from each("openai", chat, OPENAI_CHAT, OPENAI_CHATS)
    yield from each("openai", "POST batches", OPENAI_BATCH, OPENAI_OPEN[:1])
    yield from each("openai", look, OPENAI_BATCH, OPENAI_OPEN)
    ends: list[Variation] = [{}, {"error_file_id": ""}, {"model": None, "usage": ...}]
    yield from each("openai", look, varied(OPENAI_BATCH, OPENAI_ENDED), ends)
    yield from each("openai", file, OPENAI_FILE, FILES)
    nulls = varied(OPENAI_ERROR, {"error.param": None, "error.code": None})
    yield from _refused("openai", chat, [OPENAI_ERROR, nulls])


def _of_anthropic() -> Iterator[Recorded]:
    chat, look = "POST v1/messages$", r"GET v1/messages/batches/[^/?]+$"
    yield from each("anthropic", chat, ANTHROPIC_CHAT, ANTHROPIC_CHATS)
    yield from each("anthropic", "POST v1/messages/batches", ANTHROPIC_BATCH, ANTHROPIC_OPEN[:2])
    yield from each("anthropic", look, ANTHROPIC_BATCH, ANTHROPIC_OPEN)
    ends: list[Variation] = [{}, {"archived_at": ...}, {"workspace_id": "wrkspc_1"}]
    yield from each("anthropic", look, varied(ANTHROPIC_BATCH, ANTHROPIC_ENDED), ends)
    line = {"custom_id": "a", "result": {"type": "succeeded", "message": ANTHROPIC_CHAT}}
    yield from each("anthropic", "GET .*results", line, [{}, {"result.message.usage.service_tier": "batch"}])
    details = varied(ANTHROPIC_ERROR, {"error.details": None})
    yield from _refused("anthropic", chat, [ANTHROPIC_ERROR, details, varied(ANTHROPIC_ERROR, {"request_id": ...})])


def _of_google() -> Iterator[Recorded]:
    chat, look = "POST .*:generateContent", r"GET v1beta/batches/[^/?]+$"
    yield from each("google", chat, GOOGLE_CHAT, GOOGLE_CHATS)
    yield from each("google", "POST .*:batchGenerateContent", GOOGLE_BATCH, GOOGLE_OPEN[:2])
    yield from each("google", look, GOOGLE_BATCH, GOOGLE_OPEN)
    ends: list[Variation] = [{}, {"metadata.batchStats.pendingRequestCount": "0"}]
    yield from each("google", look, varied(GOOGLE_BATCH, GOOGLE_ENDED), ends)
    headers = {"x-goog-upload-status": "final"}
    for body in each("google", "", GOOGLE_FILE, [{}, {"file.sha256Hash": ..., "file.displayName": ...}]):
        yield Recorded("google", r"POST upload/v1beta/files\?upload_id", body.body, headers=headers)
    violations = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": []}]
    detailed = varied(GOOGLE_ERROR, {"error.details": violations})
    yield from _refused("google", chat, [GOOGLE_ERROR, detailed, varied(GOOGLE_ERROR, {"error.status": ...})])


def _of_xai() -> Iterator[Recorded]:
    chat, look, file = "POST chat/completions", r"GET batches/[^/?]+$", "POST files"
    yield from each("xai", chat, XAI_CHAT, XAI_CHATS)
    yield from each("xai", "POST batches", XAI_BATCH, [{}, {"state.num_requests": 0, "state.num_pending": 0}])
    yield from each("xai", look, XAI_BATCH, XAI_OPEN)
    yield from each(
        "xai", look, varied(XAI_BATCH, XAI_ENDED), [{}, {"cost_breakdown": {"total_cost_usd_ticks": 2747200}}]
    )
    yield from each("xai", file, XAI_FILE, [{}, {"purpose": "batch"}, {"expires_at": 1797592000}])
    listed = {"batches": [XAI_BATCH], "pagination_token": None}
    yield from each("xai", r"GET batches\?", listed, [{}, {"batches": ...}])
    told = {"code": "Client specified an invalid argument", "error": "messages: must not be empty"}
    yield from _refused("xai", chat, [told])
    yield from _refused("xai", chat, [{"error": "messages: must not be empty", "code": "invalid-argument"}], 422)
