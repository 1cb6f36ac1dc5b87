"""Anthropic's batch lines: {"custom_id", "params"} in, {"custom_id", "result"} out."""

from __future__ import annotations

import json

from hab_ray.simulator import anthropic
from hab_ray.simulator.asks import WireAnswer, compact
from hab_ray.simulator.batch.dialect import LineAsk
from hab_ray.simulator.batch.jobs import BatchState, Order
from hab_ray.simulator.vendor import Vendor

_OK = 200
_UNDONE = {BatchState.EXPIRED: b"expired", BatchState.CANCELLED: b"canceled"}


class Intake:
    """Nothing left to check: the create request was."""

    def __init__(self, order: Order) -> None:
        self.model = order.model

    def check(self, line: bytes) -> None:
        """See dialect.Intake."""

    def finish(self) -> None:
        """See dialect.Intake."""


class AnthropicLines:
    """See Dialect."""

    vendor: Vendor = anthropic
    keeps_partial = True
    error_file = False
    fails_whole = False

    def intake(self, order: Order) -> Intake:
        """See Dialect."""
        return Intake(order)

    def read(self, order: Order, line: bytes) -> LineAsk:
        """See Dialect."""
        value = json.loads(line.decode())
        return LineAsk(compact(value["custom_id"]), order.path, value["params"])

    def result(self, handle: bytes, answer: WireAnswer) -> bytes:
        """See Dialect."""
        if answer.status == _OK:
            return b'{"custom_id":%b,"result":{"type":"succeeded","message":%b}}' % (handle, answer.body)
        return b'{"custom_id":%b,"result":{"type":"errored","error":%b}}' % (handle, answer.body)

    def undone(self, handle: bytes, state: BatchState) -> bytes:
        """See Dialect."""
        return b'{"custom_id":%b,"result":{"type":"%b"}}' % (handle, _UNDONE[state])

    def stranger(self, order: Order, number: int) -> bytes:
        """See Dialect."""
        return b'"stranger-%d"' % number
