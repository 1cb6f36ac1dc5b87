"""Gemini's batch lines: {"key", "request"} in; the same back with a response, inline with the key in its metadata.

An error stands in a line as a google.rpc.Status, whose code is gRPC's and not HTTP's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from hab_simulator.asks import WireAnswer, compact
from hab_simulator.batch.dialect import BadInput, LineAsk
from hab_simulator.batch.jobs import BatchState, Order
from hab_simulator.google import online
from hab_simulator.vendor import Vendor

_OK = 200
_GRPC = {
    "CANCELLED": 1,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "ABORTED": 10,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
}


class GoogleLines:
    """Google's lines: requests and results in files."""

    vendor: Vendor = online
    keeps_partial = False
    error_file = False
    fails_whole = True

    def checked(self, order: Order, lines: Iterable[bytes]) -> Iterator[str]:
        """Every line must be a JSON object with a request."""
        empty = True
        for line in lines:
            empty = False
            try:
                value = json.loads(line.decode())
            except ValueError:
                raise BadInput("INVALID_ARGUMENT", "Failed to parse the input file as JSONL.") from None
            if not isinstance(value, dict) or not isinstance(value.get("request"), dict):
                raise BadInput("INVALID_ARGUMENT", "A line of the input file has no request.")
            yield order.model
        if empty:
            raise BadInput("INVALID_ARGUMENT", "The input file holds no request.")

    def read(self, order: Order, line: bytes) -> LineAsk:
        value = json.loads(line.decode())
        return LineAsk(_handle(order, value.get("key", "")), order.path, value["request"])

    def result(self, handle: bytes, answer: WireAnswer) -> bytes:
        if answer.status == _OK:
            return b'{%b,"response":%b}' % (handle, answer.body)
        error = json.loads(answer.body)["error"]
        return b'{%b,"error":%b}' % (handle, compact({"code": _GRPC[error["status"]], "message": error["message"]}))

    def undone(self, handle: bytes, state: BatchState) -> bytes:
        """Never called: a batch that is not completed has no results."""
        raise NotImplementedError

    def stranger(self, order: Order, number: int) -> bytes:
        return _handle(order, f"stranger-{number}")


def _handle(order: Order, key: object) -> bytes:
    """A key as it stands in a result: at its top in a file, in its metadata inline."""
    return b'"metadata":' + compact({"key": key}) if order.details["inline"] else b'"key":' + compact(key)
