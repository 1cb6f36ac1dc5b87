"""Anthropic's batch lines: {"custom_id", "params"} in, {"custom_id", "result"} out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from hab_simulator.anthropic import online
from hab_simulator.asks import WireAnswer, compact
from hab_simulator.batch.dialect import LineAsk
from hab_simulator.batch.jobs import BatchState, Order
from hab_simulator.vendor import Vendor

_OK = 200
_UNDONE = {BatchState.EXPIRED: b"expired", BatchState.CANCELLED: b"canceled"}


class AnthropicLines:
    """Anthropic's requests and results."""

    vendor: Vendor = online
    keeps_partial = True
    error_file = False
    fails_whole = False

    def checked(self, order: Order, lines: Iterable[bytes]) -> Iterator[str]:
        """Nothing is left to check: the create request was."""
        return (order.model for _ in lines)

    def read(self, order: Order, line: bytes) -> LineAsk:
        value = json.loads(line.decode())
        return LineAsk(compact(value["custom_id"]), order.path, value["params"])

    def result(self, handle: bytes, answer: WireAnswer) -> bytes:
        if answer.status == _OK:
            return b'{"custom_id":%b,"result":{"type":"succeeded","message":%b}}' % (handle, answer.body)
        return b'{"custom_id":%b,"result":{"type":"errored","error":%b}}' % (handle, answer.body)

    def undone(self, handle: bytes, state: BatchState) -> bytes:
        return b'{"custom_id":%b,"result":{"type":"%b"}}' % (handle, _UNDONE[state])

    def stranger(self, order: Order, number: int) -> bytes:
        return b'"stranger-%d"' % number
