"""xAI's batch lines: OpenAI's requests in, {"batch_request_id", "batch_result"} out; an error is a bare string."""

from __future__ import annotations

import json

from hab_ray.simulator import xai
from hab_ray.simulator.asks import WireAnswer, compact
from hab_ray.simulator.batch.jobs import BatchState
from hab_ray.simulator.batch.openai_lines import OpenAiLines
from hab_ray.simulator.vendor import Vendor

_UNDONE = {BatchState.EXPIRED: "Batch expired", BatchState.CANCELLED: "Batch cancelled"}


class XaiLines(OpenAiLines):
    """OpenAI's requests with results of its own. See Dialect."""

    vendor: Vendor = xai
    error_file = False

    def result(self, handle: bytes, answer: WireAnswer) -> bytes:
        """See Dialect."""
        if answer.status < 400:
            return _line(handle, b'{"response":{"chat_get_completion":%b}}' % answer.body)
        return _error(handle, json.loads(answer.body)["error"]["message"])

    def undone(self, handle: bytes, state: BatchState) -> bytes:
        """See Dialect."""
        return _error(handle, _UNDONE[state])


def _error(handle: bytes, message: str) -> bytes:
    return _line(handle, b'{"error":%b}' % compact(message))


def _line(handle: bytes, result: bytes) -> bytes:
    return b'{"batch_request_id":%b,"batch_result":%b}' % (handle, result)
