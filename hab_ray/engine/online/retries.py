"""The way of one request from its first wait to its outcome: admission, attempts, retries."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from hab_ray.calls import Call, Failure
from hab_ray.engine.alike import MIN_ALIKE, AlikeRefusals
from hab_ray.engine.jitter import jitter
from hab_ray.engine.jobs import Counters, OpenKind
from hab_ray.engine.limits.client import RateLimitClient
from hab_ray.engine.limits.protocol import Report
from hab_ray.engine.online.reply_writer import OpenReason, ReplyWriter
from hab_ray.engine.online.sender import Answered, Request, Sender
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
MAX_ASKED_S = 600.0


def backoff_s(key: str, attempt: int) -> float:
    """The wait before the attempt after this one (from 1): it doubles, with jitter that depends on the key alone."""
    return min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (attempt - 1)) * (0.75 + 0.5 * jitter(key, attempt))


class RetryLoop:
    """Takes requests to their outcomes. `in_flight` holds the tasks that wait for a vendor's answer right now.

    A call that an overloaded model refuses is sent again for `patience_s` seconds.
    """

    def __init__(
        self,
        sender: Sender,
        limits: RateLimitClient,
        replies: ReplyWriter,
        patience_s: float,
        counters: Counters,
    ) -> None:
        self._sender, self._limits, self._replies = sender, limits, replies
        self._patience_s, self._counters = patience_s, counters
        self._alike = AlikeRefusals()
        self.in_flight: set[asyncio.Task[Any] | None] = set()

    async def complete(self, request: Request) -> None:
        """Send an admitted request, again after transient errors, until it has an outcome or is left open."""
        attempt, started = 0, monotonic()
        while True:
            try:
                return self._add_replies(request, await self._send(request))
            except BadUsage as error:
                self._stop_if_alike(request, error)
                return self._add_failures(request, error, attempt + 1)
            except RowError as error:
                if len(request.calls) > 1:
                    return await self._one_by_one(request)
                if stopped := self._stop_if_alike(request, error):
                    return await self.leave_open(request, stopped)
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
                reason = await self._sender.admit(request)
                if reason:
                    return await self._replies.leave_open(request.calls, reason)
                continue
            own_fault = not isinstance(transient, Unreachable | RateLimited | Overloaded)
            attempt += own_fault
            given_up = _given_up(transient, attempt) if own_fault else self._out_of_patience(transient, started)
            if transient.kind is FailureKind.MALFORMED:
                given_up = self._stop_if_alike(request, transient) or given_up
            if given_up:
                return await self.leave_open(request, given_up)
            reason = await self._readmitted(request, transient, attempt if own_fault else 0)
            if reason:
                return await self._replies.leave_open(request.calls, reason)

    def _stop_if_alike(self, request: Request, error: CallError) -> str | None:
        """Stop a model whose calls are refused in the same words again and again; why, if it is stopped.

        A text that is too long is its row's fault, however many there are.
        """
        if (
            error.kind is FailureKind.TOO_LONG
            or self._alike.add(request.model, request.calls[0].key, str(error)) < MIN_ALIKE
        ):
            return None
        stopped = (
            f"{MIN_ALIKE} calls in a row, without an answer between them, ended alike: {error}; change the setting at "
            "fault (`params:` in the sweep, the model's or provider's entry) and give the same command again, with "
            "--retry-failed for the calls that have failed"
        )
        self._limits.report(Report(request.model, stop=stopped))
        return stopped

    def _out_of_patience(self, error: TransientError, started: float) -> str | None:
        """Why a request that an overloaded model refuses is not sent again, though others are answered."""
        if isinstance(error, Overloaded) and monotonic() - started > self._patience_s:
            return f"{error} (for {self._patience_s:g} s)"
        return None

    async def leave_open(self, request: Request, reason: str) -> None:
        """Give a request up: nothing is known about its outcome, and the next run sends it again."""
        await self._replies.leave_open(request.calls, OpenReason(OpenKind.UNANSWERED, reason))

    async def _send(self, request: Request) -> Answered:
        task = asyncio.current_task()
        self.in_flight.add(task)
        try:
            return await self._sender.send(request)
        finally:
            self.in_flight.discard(task)

    async def _readmitted(self, request: Request, error: TransientError, attempt: int) -> OpenReason | None:
        """Wait until a request may be sent again; the reason if it may not.

        Backs off if `attempt` says which of its own attempts failed; the limiter times retries after refusals and
        outages, where `attempt` is 0.
        """
        if self._replies.broken:
            return OpenReason(OpenKind.STOPPED, str(self._replies.broken))
        self._counters.retries += 1
        if attempt:
            await self._replies.pause(max(error.retry_after_s or 0.0, backoff_s(request.calls[0].key, attempt)))
        return await self._sender.admit(request)

    async def _one_by_one(self, request: Request) -> None:
        """Send the members of a refused list alone, to find the one that it was refused for."""
        for call in request.calls:
            alone = self._sender.request(request.model, [call])
            reason = await self._sender.admit(alone)
            if reason:
                await self._replies.leave_open([call], reason)
            else:
                await self.complete(alone)

    def _add_failures(self, request: Request, error: BadUsage, attempts: int) -> None:
        """Record calls whose answer came with an impossible bill: they cost all that was reserved for them."""
        for call, cost in zip(request.calls, _shares(request.bound, len(request.calls)), strict=True):
            self._replies.add(call, _failure(call, error, attempts, cost))

    def _add_replies(self, request: Request, sent: Answered) -> None:
        answer, count = sent.answer, len(request.calls)
        self._alike.answered(request.model)
        shares = zip(request.calls, _shares(sent.cost, count), _shares(answer.usage.input, count), strict=True)
        for position, (call, cost, tokens) in enumerate(shares):
            reply = answer.reply(call.key, cost, request.wire.sha256, datetime.now(UTC), position)
            usage = replace(answer.usage, input=tokens)
            self._replies.add(call, replace(reply, usage=usage, latency_s=sent.latency_s))


def _given_up(error: TransientError, attempt: int) -> str | None:
    """Why a request is not sent again after its attempts have failed; None if it is."""
    if attempt >= ATTEMPTS:
        return f"{error} (tried {attempt} times)"
    asked_s = error.retry_after_s or 0.0
    if asked_s > MAX_ASKED_S:
        return f"{error} (the vendor asks to wait {asked_s:g} s)"
    return None


def _failure(call: Call, error: CallError, attempts: int, cost: int = 0) -> Failure:
    return Failure(call.key, error.kind, attempts=attempts, message=str(error), cost_nanousd=cost)


def _shares(total: int, parts: int) -> Sequence[int]:
    """Splits an integer as evenly as integers allow; the parts add up to it."""
    whole, rest = divmod(total, parts)
    return [whole + (i < rest) for i in range(parts)]
