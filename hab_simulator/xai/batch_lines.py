"""xAI's batch lines: OpenAI's requests in, {"batch_request_id", "batch_result"} out; an error is a bare string."""

from __future__ import annotations

import json

from hab_simulator.asks import WireAnswer, compact
from hab_simulator.batch.jobs import BatchState
from hab_simulator.openai.batch_lines import OpenAiLines

_UNDONE = {BatchState.EXPIRED: "Batch expired", BatchState.CANCELLED: "Batch cancelled"}


class XaiLines(OpenAiLines):
    """OpenAI's requests with results of its own."""

    error_file = False

    def result(self, handle: bytes, answer: WireAnswer) -> bytes:
        if answer.status < 400:
            return _line(handle, b'{"response":{"chat_get_completion":%b}}' % answer.body)
        return _error(handle, json.loads(answer.body)["error"]["message"])

    def undone(self, handle: bytes, state: BatchState) -> bytes:
        return _error(handle, _UNDONE[state])


def _error(handle: bytes, message: str) -> bytes:
    return _line(handle, b'{"error":%b}' % compact(message))


def _line(handle: bytes, result: bytes) -> bytes:
    return b'{"batch_request_id":%b,"batch_result":%b}' % (handle, result)
