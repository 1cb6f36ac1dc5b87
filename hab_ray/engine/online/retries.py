"""Takes one request from admission through attempts and retries to its outcome."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hab_ray.calls import Call, Failure
from hab_ray.catalog.models import IF_SUBSTITUTED
from hab_ray.engine.alike import MAX_SILENT, MIN_ALIKE, AlikeRefusals, SilentCalls
from hab_ray.engine.clock import jitter
from hab_ray.engine.jobs import Counters, OpenKind
from hab_ray.engine.limits.client import RateLimitClient
from hab_ray.engine.limits.protocol import Report
from hab_ray.engine.online.reply_writer import OpenReason, ReplyWriter
from hab_ray.engine.online.sender import Answered, Request, Sender, SharedServices
from hab_ray.errors import (
    BadUsage,
    CallError,
    FailureKind,
    LeaseStale,
    ModelError,
    Overloaded,
    ProviderError,
    RateLimited,
    RowError,
    TransientError,
    Unreachable,
)

ATTEMPTS = 6
FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0
MAX_RETRY_AFTER_S = 600.0
_SILENT = {FailureKind.TIMEOUT, FailureKind.CONNECTION}
_UNANSWERED = (
    "timed out or broke off, and may be billed: {}; raise the limit that ends them, yours or the gateway's, ask for "
    "shorter answers (max_tokens, effort) or, if they end at once, wait until the vendor has recovered, and run the "
    "same command again"
)
_UNREADABLE = (
    "{} answers to a call could not be read, and may be billed: {}; repair what answers at that address, or name "
    "another (`url`), and run the same command again"
)


def backoff_s(key: str, attempt: int) -> float:
    """Return the seconds to wait after the given attempt (from 1): doubling, with jitter that depends on the key."""
    return min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (attempt - 1)) * (0.75 + 0.5 * jitter(key, attempt))


class RetryLoop:
    """Takes requests to their outcomes. `in_flight` holds the tasks that are waiting for a vendor's answer.

    It retries a call that an overloaded model refuses for up to `patience_s` seconds.
    """

    def __init__(
        self,
        sender: Sender,
        limits: RateLimitClient,
        replies: ReplyWriter,
        patience_s: float,
        services: SharedServices,
        counters: Counters,
    ) -> None:
        self._sender, self._limits, self._replies = sender, limits, replies
        self._patience_s, self._services, self._counters = patience_s, services, counters
        self._refusals, self._silent = AlikeRefusals(), SilentCalls(patience_s)
        self.in_flight: set[asyncio.Task[Any] | None] = set()

    async def complete(self, request: Request) -> None:
        """Send an admitted request, and retry transient errors, until it has an outcome or is left open."""
        attempt, bought, started = 0, 0, self._services.clock()
        while True:
            sent = self._services.clock()
            try:
                return self._add_replies(request, await self._send(request))
            except BadUsage as error:
                self._stop_if_alike(request, error)
                return self._add_failures(request, error, attempt + 1)
            except RowError as error:
                if len(request.calls) > 1:
                    return await self._send_one_by_one(request)
                if reason := self._stop_if_alike(request, error):
                    return await self.leave_open(request, reason)
                return self._replies.add(request.calls[0], _failure(request.calls[0], error, attempt + 1))
            except ModelError as error:
                self._limits.report(Report(request.model, stop=str(error)))
                return await self.leave_open(request, str(error))
            except ProviderError as error:
                self._limits.report(Report(request.model, stop_provider=str(error)))
                return await self.leave_open(request, str(error))
            except TransientError as error:
                transient = error
            except LeaseStale:
                refusal = await self._sender.admit(request)
                if refusal:
                    return await self._replies.leave_open(request.calls, refusal)
                continue
            is_own_fault = not isinstance(transient, Unreachable | RateLimited | Overloaded)
            attempt += is_own_fault
            given_up = self._reason_to_give_up(transient, attempt if is_own_fault else 0, started)
            if transient.kind is FailureKind.MALFORMED:
                bought += 1
                given_up = self._stop_if_alike(request, transient) or given_up
                if not given_up and bought >= MAX_SILENT:
                    given_up = _UNREADABLE.format(bought, transient)
            elif is_own_fault and (transient.kind in _SILENT or transient.is_answer):
                rows, counts = self._silent.add(request.model, request.calls[0].key, sent, self._services.clock())
                bought += counts or transient.is_answer
                given_up = self._stop_if_silent(request.model, transient, rows, bought) or given_up
            if given_up:
                return await self.leave_open(request, given_up)
            refusal = await self._readmit(request, transient, attempt if is_own_fault else 0)
            if refusal:
                return await self._replies.leave_open(request.calls, refusal)

    def _stop_if_alike(self, request: Request, error: CallError) -> str | None:
        """Stop a model whose calls keep being refused in the same words; return the reason if it is stopped.

        Texts that are too long are always their rows' fault, however many there are.
        """
        row = request.calls[0].key
        if error.kind is FailureKind.TOO_LONG or self._refusals.add(request.model, row, str(error)) < MIN_ALIKE:
            return None
        reason = (
            f"{MIN_ALIKE} calls in a row, without an answer between them, ended alike: {error}; change the setting at "
            "fault (`params:` in the sweep, the model's or provider's entry) and run the same command again, with "
            "--retry-failed for the calls that have failed"
        )
        return self._stop(request.model, reason)

    def _stop_if_silent(self, model: str, error: TransientError, rows: int, times: int) -> str | None:
        """Stop a model whose calls all end without an answer, and a row whose do twice, as all may be paid for.

        Returns:
            The reason if the model is stopped or the row given up.
        """
        unanswered = _UNANSWERED.format(error)
        if rows >= MIN_ALIKE:
            return self._stop(model, f"{MIN_ALIKE} calls in a row, without an answer between them, {unanswered}")
        return f"{times} tries of a call {unanswered}" if times >= MAX_SILENT else None

    def _stop_if_substituted(self, request: Request, reported: str) -> None:
        """Stop a model that another one keeps answering for: its answers are paid for, and no row can use them."""
        substitute = self._sender.substitute(request.model, reported)
        if substitute is None:
            self._refusals.answered(request.model)
        elif self._refusals.add(request.model, request.calls[0].key, substitute) >= MIN_ALIKE:
            self._stop(request.model, f"{MIN_ALIKE} calls in a row were {substitute}; {IF_SUBSTITUTED}")

    def _stop(self, model: str, reason: str) -> str:
        self._limits.report(Report(model, stop=reason))
        return reason

    def _reason_to_give_up(self, error: TransientError, attempt: int, started: float) -> str | None:
        """Return why not to retry, None to retry. `attempt` is 0 where the limiter times retries, as in `_readmit`."""
        if isinstance(error, Overloaded) and self._services.clock() - started > self._patience_s:
            return f"{error} (for {self._patience_s:g} s)"
        if attempt >= ATTEMPTS:
            return f"{error} (tried {attempt} times)"
        if attempt and error.retry_after_s and error.retry_after_s > MAX_RETRY_AFTER_S:
            return f"{error} (the vendor asks to wait {error.retry_after_s:g} s)"
        return None

    async def leave_open(self, request: Request, reason: str) -> None:
        """Give up a request whose outcome is unknown; the next run sends it again."""
        await self._replies.leave_open(request.calls, OpenReason(OpenKind.UNANSWERED, reason))

    async def _send(self, request: Request) -> Answered:
        task = asyncio.current_task()
        self.in_flight.add(task)
        try:
            return await self._sender.send(request)
        finally:
            self.in_flight.discard(task)

    async def _readmit(self, request: Request, error: TransientError, attempt: int) -> OpenReason | None:
        """Wait until a request may be sent again; return the reason if it never may be.

        Back off after its failed `attempt`; 0 after refusals and outages, for which the limiter times the retry.
        """
        if self._replies.broken:
            return OpenReason(OpenKind.STOPPED, str(self._replies.broken))
        self._counters.retries += 1
        if attempt:
            await self._replies.pause(max(error.retry_after_s or 0.0, backoff_s(request.calls[0].key, attempt)))
        refusal = await self._sender.admit(request)
        if refusal and refusal.kind is OpenKind.BUDGET:
            return replace(refusal, reason=f"{refusal.reason}; its last error: {error}")
        return refusal

    async def _send_one_by_one(self, request: Request) -> None:
        for call in request.calls:
            alone = self._sender.request(request.model, [call])
            reason = await self._sender.admit(alone)
            if reason:
                await self._replies.leave_open([call], reason)
            else:
                await self.complete(alone)

    def _add_failures(self, request: Request, error: BadUsage, attempts: int) -> None:
        """Record calls whose answer came with an impossible bill: they cost everything reserved for them."""
        for call, cost in zip(request.calls, _split(request.bound, len(request.calls)), strict=True):
            self._replies.add(call, _failure(call, error, attempts, cost))

    def _add_replies(self, request: Request, sent: Answered) -> None:
        answer, count = sent.answer, len(request.calls)
        self._stop_if_substituted(request, answer.model_reported)
        self._silent.answered(request.model)
        shares = zip(request.calls, _split(sent.cost, count), _split(answer.usage.input, count), strict=True)
        for position, (call, cost, tokens) in enumerate(shares):
            reply = answer.reply(call.key, cost, request.wire.sha256, self._services.today(), position)
            usage = replace(answer.usage, input=tokens)
            self._replies.add(call, replace(reply, usage=usage, latency_s=sent.latency_s))


def _failure(call: Call, error: CallError, attempts: int, cost: int = 0) -> Failure:
    return Failure(call.key, error.kind, attempts=attempts, message=str(error), cost_nanousd=cost)


def _split(total: int, parts: int) -> Sequence[int]:
    whole, rest = divmod(total, parts)
    return [whole + (i < rest) for i in range(parts)]
