"""One HTTP exchange: under a permit, with money set aside for the most that it can cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hab_ray.calls import Answer, Call, ChatCall, EmbedCall
from hab_ray.catalog import ModelEntry
from hab_ray.engine.gate import Gate
from hab_ray.engine.jobs import Counters, OpenKind
from hab_ray.engine.wallet import Wallet
from hab_ray.errors import BadUsage, CallError, FailureKind, Intercepted, RateLimited, Unreachable
from hab_ray.fences import FenceCodes
from hab_ray.prices import Mode, Price, input_bytes, rate
from hab_ray.providers.base import Exchange, Provider, Wire

BYTES_A_TOKEN = 4
TOKENS_AROUND = 10
_BILL_UNKNOWN = frozenset({FailureKind.TIMEOUT, FailureKind.CONNECTION, FailureKind.MALFORMED})


@dataclass(frozen=True)
class Unit:
    """What goes out in one request: one call, or a list of texts to embed.

    `tokens` is what rate limits count. It can use `most_input` and `most_output` tokens, and cost `bound` nano-dollars.
    """

    model: str
    calls: Sequence[Call]
    wire: Wire
    tokens: int
    most_input: int
    most_output: int
    bound: int


@dataclass(frozen=True)
class Refusal:
    """Why a unit will not be sent in this run."""

    kind: OpenKind
    reason: str


class Sender:
    """Sends units to one provider."""

    def __init__(
        self,
        provider: Provider,
        models: Mapping[str, ModelEntry],
        gate: Gate,
        wallet: Wallet,
        guard: Callable[[], None],
        tally: Counters,
        clock: Callable[[], float],
        codes: FenceCodes,
    ) -> None:
        self._provider, self._models, self._tally, self._clock = provider, models, tally, clock
        self._gate, self._wallet, self._guard, self._codes = gate, wallet, guard, codes
        self._rates: dict[str, Price] = {name: rate(entry, Mode.ONLINE) for name, entry in models.items()}

    def unit(self, model: str, calls: Sequence[Call]) -> Unit:
        """The request for these calls of a model."""
        entry, first = self._models[model], calls[0]
        if isinstance(first, ChatCall):
            filled = self._codes.filled(first)
            wire, output = self._provider.chat(filled, entry), entry.output_limit(first.params.max_tokens)
        else:
            wire, output = self._provider.embed([c for c in calls if isinstance(c, EmbedCall)], entry), 0
        said = sum(map(input_bytes, calls))
        size = _wire_bytes(wire)
        return Unit(
            model=model,
            calls=calls,
            wire=wire,
            tokens=said // BYTES_A_TOKEN + TOKENS_AROUND + output,
            most_input=size,
            most_output=output,
            bound=self._rates[model].bound(size, output),
        )

    def longest_list(self, model: str) -> int:
        """How many texts of a model go out together: as the catalogue has it, and no more than the vendor takes."""
        return min(self._models[model].list_size, self._provider.list_limits.texts)

    def units(self, model: str, calls: Sequence[Call]) -> list[Unit]:
        """Calls of one kind in as few requests as the vendor takes them."""
        texts = [call for call in calls if isinstance(call, EmbedCall)]
        if not texts:
            return [self.unit(model, [call]) for call in calls]
        return [self.unit(model, packed) for packed in self._provider.list_limits.packed(texts)]

    async def admitted(self, unit: Unit) -> Refusal | None:
        """Wait for a permit and set money aside; the refusal, if there will never be either."""
        refusal = self._wallet.refusal(unit.bound)
        if refusal:
            return Refusal(OpenKind.BUDGET, refusal)
        reason = await self._gate.permit(unit.model, unit.tokens)
        if reason is not None:
            return Refusal(OpenKind.STOPPED if self._gate.closed else OpenKind.UNANSWERED, reason)
        try:
            refusal = await self._wallet.reserve(unit.bound)
        except BaseException:
            self._gate.ended(unit.model)
            raise
        if refusal:
            self._gate.ended(unit.model)
            return Refusal(OpenKind.BUDGET, refusal)
        if self._gate.closed is not None:
            self._give_back(unit)
            return Refusal(OpenKind.STOPPED, self._gate.closed)
        return None

    def _give_back(self, unit: Unit) -> None:
        self._gate.ended(unit.model)
        self._wallet.release(unit.bound)

    async def send(self, unit: Unit) -> tuple[Answer, int]:
        """Send an admitted unit once; its answer and what that cost, in nano-dollars.

        A cancellation cuts the request off: it counts as spent at its bound, since its bill will never be known.

        Raises:
            BadUsage: it was answered, and the whole bound is spent.
            CallError: as the provider says.
            LeaseLost: nothing may be spent any more, and nothing was sent.
        """
        try:
            self._guard()
        except BaseException:
            self._give_back(unit)
            raise
        self._tally.calls += 1
        self._tally.in_flight[unit.model] += 1
        exchange: Exchange | None = None
        started = self._clock()
        try:
            exchange = await self._provider.send(unit.wire)
            answer = self._read(unit, exchange)
        except BaseException as error:
            self._tell_gate(unit, exchange, error)
            self._book_failed(unit, exchange, error)
            raise
        finally:
            self._tally.in_flight[unit.model] -= 1
        self._gate.answered(unit.model, exchange.limits)
        cost = self._billed(unit, answer)
        self._wallet.settle(unit.bound, cost)
        self._tally.answered[unit.model] += 1
        self._tally.waited_s[unit.model] += self._clock() - started
        return answer, cost

    def _billed(self, unit: Unit, answer: Answer) -> int:
        billing = self._tally.billing
        if not answer.usage.fits(unit.most_input, unit.most_output):
            billing.beyond[unit.model] += 1
        return billing.cost(unit.model, answer, self._rates[unit.model], unit.bound)

    def _book_failed(self, unit: Unit, exchange: Exchange | None, error: BaseException) -> None:
        """Settle what was set aside for a call without an answer that can be kept."""
        if isinstance(error, BadUsage):
            return self._wallet.settle(unit.bound, unit.bound)
        refused = isinstance(error, Unreachable) or getattr(error, "kind", None) not in _BILL_UNKNOWN
        if exchange is None and isinstance(error, CallError) and refused:
            return self._wallet.release(unit.bound)
        self._wallet.lose(unit.bound)
        if isinstance(error, asyncio.CancelledError):
            self._tally.cut[unit.model] += 1
            self._tally.cut_nanousd += unit.bound

    def _read(self, unit: Unit, exchange: Exchange) -> Answer:
        if isinstance(unit.calls[0], ChatCall):
            return self._provider.read_chat(exchange.body)
        return self._provider.read_embeddings(exchange.body, len(unit.calls))

    def _tell_gate(self, unit: Unit, exchange: Exchange | None, error: BaseException) -> None:
        match error:
            case Unreachable() | Intercepted():
                self._gate.unreachable(unit.model, str(error))
            case RateLimited():
                self._gate.refused(unit.model, error)
            case CallError():
                self._gate.answered(unit.model, exchange.limits if exchange else None)
            case _:
                self._gate.ended(unit.model)


def _wire_bytes(wire: Wire) -> int:
    return len(json.dumps(wire.body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
