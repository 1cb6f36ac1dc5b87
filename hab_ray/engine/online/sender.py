"""Builds requests and sends each one once, with a permit and with the most that it can cost reserved."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from hab_ray.calls import Answer, Call, ChatCall, EmbedCall
from hab_ray.catalog.models import Model, ModelEntry
from hab_ray.catalog.prices import Mode, Price, estimated_input_tokens, input_bytes, rates
from hab_ray.engine.budget.client import BudgetClient
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.engine.clock import utc_now
from hab_ray.engine.jobs import Counters, OpenKind
from hab_ray.engine.limits.client import RateLimitClient
from hab_ray.engine.limits.protocol import LimiterClient, Report
from hab_ray.engine.online.reply_writer import OpenReason
from hab_ray.errors import (
    BadUsage,
    CallError,
    FailureKind,
    Intercepted,
    Overloaded,
    RateLimited,
    Unreachable,
    Untrusted,
)
from hab_ray.fences import FenceCodes
from hab_ray.providers.base import Exchange, Provider, Wire, read_answer
from hab_ray.providers.batching import PageNotFound
from hab_ray.providers.write_check import WriteCheck
from hab_ray.resources import exits_refused
from hab_ray.storage.lease.watches import Watch, until_held

_COST_UNKNOWN = frozenset({FailureKind.TIMEOUT, FailureKind.CONNECTION, FailureKind.MALFORMED})
_NOT_SENT = (Unreachable, Untrusted)


@dataclass(frozen=True)
class SharedServices:
    """The rate limits, budget and lease that an engine shares with others. `clock` gives monotonic seconds."""

    limiter: LimiterClient
    budget: BudgetService
    watch: Watch
    clock: Callable[[], float] = monotonic
    today: Callable[[], datetime] = utc_now


@dataclass(frozen=True)
class Request:
    """One HTTP request: a single call, or a list of texts to embed.

    It counts `tokens` towards rate limits, can use at most `most_input` and `most_output` tokens, and can cost at most
    `bound` nano-dollars.
    """

    model: str
    calls: Sequence[Call]
    wire: Wire
    tokens: int
    most_input: int
    most_output: int
    bound: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a request, with its cost in nano-dollars."""

    answer: Answer
    cost: int
    latency_s: float


class Sender:
    """Sends requests to one provider.

    Raises:
        ConfigError: a model has no price.
    """

    def __init__(
        self,
        provider: Provider,
        models: Mapping[str, ModelEntry],
        limits: RateLimitClient,
        budget: BudgetClient,
        services: SharedServices,
        codes: FenceCodes,
        counters: Counters,
    ) -> None:
        self._provider, self._models, self._codes, self._counters = provider, models, codes, counters
        self._limits, self._budget, self._watch, self._clock = limits, budget, services.watch, services.clock
        self._rates = {name: rates(entry, Mode.ONLINE) for name, entry in models.items()}
        self._today = services.today

    @exits_refused()
    def request(self, model: str, calls: Sequence[Call]) -> Request:
        entry, first = self._models[model], calls[0]
        if isinstance(first, ChatCall):
            filled = self._codes.filled(first)
            wire, output = self._provider.chat(filled, entry), entry.output_limit(first.params.max_tokens)
        else:
            wire, output = self._provider.embed([c for c in calls if isinstance(c, EmbedCall)], entry), 0
        return Request(
            model=model,
            calls=calls,
            wire=wire,
            tokens=estimated_input_tokens(sum(map(input_bytes, calls))) + output,
            most_input=wire.utf8_bytes,
            most_output=output,
            bound=self._rates[model].reserved(self._today().date()).bound(wire.utf8_bytes, output),
        )

    def requests(self, model: str, calls: Sequence[Call]) -> list[Request]:
        """Pack calls of one kind into as few requests as the vendor allows."""
        texts = [call for call in calls if isinstance(call, EmbedCall)]
        if not texts:
            return [self.request(model, [call]) for call in calls]
        return [self.request(model, packed) for packed in self._provider.list_limits.packed(texts)]

    def longest_list(self, model: str) -> int:
        """Return how many texts one request may hold, by the catalogue and the vendor's own limit."""
        return min(self._models[model].list_size, self._provider.list_limits.texts)

    def substitute(self, model: str, reported: str) -> str | None:
        """Return which model answered in place of `model` if a reply reports this name; None if it is its own."""
        return Model(model, self._models[model]).substitute(reported)

    async def admit(self, request: Request) -> OpenReason | None:
        """Wait for the lease, a permit and money; return the reason if the request can never be sent.

        Raises:
            LeaseLost: nothing may be spent any more.
        """
        await until_held(self._watch.check)
        refusal = self._budget.refusal(request.bound)
        if refusal:
            return OpenReason(OpenKind.BUDGET, refusal)
        started = self._clock()
        reason = await self._limits.acquire(request.model, request.tokens)
        traffic = self._counters.traffic[request.model]
        traffic.admitted, traffic.queued_s = traffic.admitted + 1, traffic.queued_s + self._clock() - started
        if reason is not None:
            return OpenReason(OpenKind.STOPPED if self._limits.closed else OpenKind.UNANSWERED, reason)
        try:
            refusal = await self._budget.reserve(request.bound)
        except BaseException:
            self._return_permit(request)
            raise
        if refusal:
            self._return_permit(request)
            return OpenReason(OpenKind.BUDGET, refusal)
        if self._limits.closed is not None:
            self._withdraw(request)
            return OpenReason(OpenKind.STOPPED, self._limits.closed)
        return None

    def _withdraw(self, request: Request) -> None:
        self._return_permit(request)
        self._budget.release(request.bound)

    def _return_permit(self, request: Request) -> None:
        self._limits.report(Report(request.model, finished=1))

    async def send(self, request: Request) -> Answered:
        """Send an admitted request once.

        A cancelled request counts as spent at its bound, since its cost will never be known.

        Raises:
            BadUsage: the answer came with an impossible bill; the request counts as spent at its bound.
            PageNotFound: HTTP 404 without JSON, of a router that has lost the endpoint: its model has answered before.
            CallError: see Provider.send.
            LeaseStale: nothing was sent, because nothing may be spent now; admit the request again. If the lease can
                change hands, it is checked before the request gets a connection, and again as its body is written.
            LeaseLost: nothing was sent, because nothing may be spent any more.
        """
        try:
            self._watch.check()
        except BaseException:
            self._withdraw(request)
            raise
        traffic = self._counters.traffic[request.model]
        self._counters.calls += 1
        traffic.sent += 1
        self._counters.in_flight[request.model] += 1
        exchange: Exchange | None = None
        started, price = self._clock(), self._rates[request.model].on(self._today().date())
        write = None if self._watch.is_locked else WriteCheck(self._watch.check)
        try:
            with write.asked() if write else nullcontext():
                exchange = await self._exchange(request)
            latency_s = self._clock() - started
            answer = self._read(request, exchange)
        except BaseException as error:
            is_withdrawn = write is not None and write.refusal is not None
            if is_withdrawn or isinstance(error, _NOT_SENT):
                self._counters.calls -= 1
                traffic.sent -= 1
            if is_withdrawn:
                self._withdraw(request)
                raise
            traffic.rate_limited += isinstance(error, RateLimited)
            self._limits.report(_failure_report(request.model, exchange, error))
            self._book_failure(request, exchange, error)
            raise
        finally:
            self._counters.in_flight[request.model] -= 1
        self._limits.report(Report(request.model, finished=1, answered=1, limits=exchange.limits))
        cost = self._cost(request, answer, price)
        self._budget.settle(request.bound, cost)
        traffic.cost_nanousd += cost
        traffic.input_tokens += answer.usage.input
        traffic.output_tokens += answer.usage.output
        traffic.answered += 1
        traffic.waited_s += latency_s
        return Answered(answer, cost, latency_s)

    async def _exchange(self, request: Request) -> Exchange:
        try:
            with exits_refused():
                return await self._provider.send(request.wire)
        except CallError as error:
            if error.page is not None and self._counters.traffic[request.model].answered:
                raise PageNotFound(error.page) from None
            raise

    def _read(self, request: Request, exchange: Exchange) -> Answer:
        texts = None if isinstance(request.calls[0], ChatCall) else len(request.calls)
        try:
            return read_answer(self._provider, exchange.body, texts)
        except CallError as error:
            error.is_answer = True
            raise

    def _cost(self, request: Request, answer: Answer, price: Price) -> int:
        traffic = self._counters.traffic[request.model]
        if not answer.usage.fits(request.most_input, request.most_output):
            traffic.beyond += 1
        return traffic.cost(answer, price, request.bound)

    def _book_failure(self, request: Request, exchange: Exchange | None, error: BaseException) -> None:
        if isinstance(error, BadUsage):
            return self._budget.settle(request.bound, request.bound)
        refused = isinstance(error, _NOT_SENT) or getattr(error, "kind", None) not in _COST_UNKNOWN
        if exchange is None and isinstance(error, CallError) and refused:
            return self._budget.release(request.bound)
        self._budget.lose(request.bound)
        if isinstance(error, asyncio.CancelledError):
            self._counters.cut[request.model] += 1
            self._counters.cut_nanousd += request.bound


def _failure_report(model: str, exchange: Exchange | None, error: BaseException) -> Report:
    match error:
        case Unreachable() | Intercepted():
            return Report(model, finished=1, unreachable=str(error), tries=1)
        case RateLimited() | Overloaded():
            return Report(model, finished=1, refused=str(error), retry_after_s=error.retry_after_s)
        case CallError():
            return Report(model, finished=1, answered=1, limits=exchange.limits if exchange else None)
        case _:
            return Report(model, finished=1)
