"""xAI's batch lines: OpenAI's requests in, {"batch_request_id", "batch_result"} out."""

from __future__ import annotations

import json

from hab_ray.simulator import openai
from hab_ray.simulator.asks import Answer, compact
from hab_ray.simulator.batch.dialect import LineAsk
from hab_ray.simulator.batch.jobs import Order, State
from hab_ray.simulator.batch.openai_lines import Intake, OpenAiLines
from hab_ray.simulator.vendor import Vendor

# gRPC's codes, by the HTTP status each stands for.
_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 408: 4, 409: 10, 429: 8, 500: 13, 502: 14, 503: 14, 504: 4, 529: 14}
_UNDONE = {State.EXPIRED: (4, "The batch expired."), State.CANCELLED: (1, "The batch was cancelled.")}
_UNKNOWN = 2


class XaiLines:
    """See Dialect."""

    vendor: Vendor = openai
    keeps_partial = True
    error_file = False
    fails_whole = True

    def __init__(self) -> None:
        self._requests = OpenAiLines()

    def intake(self, order: Order) -> Intake:
        """See Dialect."""
        return self._requests.intake(order)

    def read(self, order: Order, line: bytes) -> LineAsk:
        """See Dialect."""
        return self._requests.read(order, line)

    def result(self, handle: bytes, answer: Answer) -> bytes:
        """See Dialect."""
        if answer.status < 400:
            return _line(handle, b'{"response":{"chat_get_completion":%b}}' % answer.body)
        problem = json.loads(answer.body)["error"]
        return _error(handle, _CODES.get(answer.status, _UNKNOWN), problem["message"])

    def undone(self, handle: bytes, state: State) -> bytes:
        """See Dialect."""
        return _error(handle, *_UNDONE[state])

    def stranger(self, order: Order, number: int) -> bytes:
        """See Dialect."""
        return self._requests.stranger(order, number)


def _error(handle: bytes, code: int, message: str) -> bytes:
    return _line(handle, b'{"error":%b}' % compact({"code": code, "message": message}))


def _line(handle: bytes, result: bytes) -> bytes:
    return b'{"batch_request_id":%b,"batch_result":%b}' % (handle, result)
