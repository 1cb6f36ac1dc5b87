"""xAI's batch lines: OpenAI's requests in, {"batch_request_id", "batch_result"} out."""

from __future__ import annotations

import json

from hab_ray.simulator import xai
from hab_ray.simulator.asks import Answer, compact
from hab_ray.simulator.batch.jobs import State
from hab_ray.simulator.batch.openai_lines import OpenAiLines
from hab_ray.simulator.vendor import Vendor

# gRPC's codes, by the HTTP status each stands for.
_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 408: 4, 409: 10, 429: 8, 500: 13, 502: 14, 503: 14, 504: 4, 529: 14}
_UNDONE = {State.EXPIRED: (4, "The batch expired."), State.CANCELLED: (1, "The batch was cancelled.")}
_UNKNOWN = 2


class XaiLines(OpenAiLines):
    """OpenAI's requests with results of its own. See Dialect."""

    vendor: Vendor = xai
    error_file = False

    def result(self, handle: bytes, answer: Answer) -> bytes:
        """See Dialect."""
        if answer.status < 400:
            return _line(handle, b'{"response":{"chat_get_completion":%b}}' % answer.body)
        problem = json.loads(answer.body)["error"]
        return _error(handle, _CODES.get(answer.status, _UNKNOWN), problem["message"])

    def undone(self, handle: bytes, state: State) -> bytes:
        """See Dialect."""
        return _error(handle, *_UNDONE[state])


def _error(handle: bytes, code: int, message: str) -> bytes:
    return _line(handle, b'{"error":%b}' % compact({"code": code, "message": message}))


def _line(handle: bytes, result: bytes) -> bytes:
    return b'{"batch_request_id":%b,"batch_result":%b}' % (handle, result)
