"""The online engine: many calls in flight at one provider, each completed once.

A job's life:

    queued ── key known ──> finished            queued ── same key in flight ──> shares that call
    queued ── permit, money ──> in flight ── answer ──> filed ── written to the store ──> finished
    in flight ── transient error ──> waits, queued again     (at most `ATTEMPTS` times)
    in flight ── row error ──> permanent failure, filed
    queued, in flight ── anything else that ends it ──> open: named with its reason, asked again by the next run
    in flight ── unanswered at the end of the drain ──> cut off: counts as spent at its bound, asked again next time
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import Any, Self

from hab_ray.calls import Answer, Call, EmbedCall, Failure, Reply
from hab_ray.catalog import ModelEntry
from hab_ray.engine.buckets import LARGEST_CHUNK
from hab_ray.engine.budget import Money
from hab_ray.engine.filing import Filing, Stream
from hab_ray.engine.gate import Gate
from hab_ray.engine.jitter import jitter
from hab_ray.engine.jobs import Job, OpenKind, Tally
from hab_ray.engine.permits import Permits
from hab_ray.engine.sending import Refusal, Sender, Unit
from hab_ray.engine.wallet import Wallet
from hab_ray.errors import (
    BadUsage,
    CallError,
    Interrupted,
    ModelError,
    ProviderError,
    RateLimited,
    RowError,
    TransientError,
    Unreachable,
)
from hab_ray.fences import FenceCodes
from hab_ray.providers.base import Provider
from hab_ray.storage.known import KnownKeys
from hab_ray.storage.secret import fence_secret
from hab_ray.storage.store import StoreWriter

ATTEMPTS = 6
FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0
LONGEST_ASKED_S = 600.0
AHEAD = 2 * LARGEST_CHUNK
DRAIN_LOOK_S = 0.1
STOPPED = "stopped on request"


def backoff_s(key: str, attempt: int) -> float:
    """The wait before another attempt (from 1): doubling, with a jitter that depends on the call alone."""
    return min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (attempt - 1)) * (0.75 + 0.5 * jitter(key, attempt))


@dataclass(frozen=True)
class Surroundings:
    """What the engine is given of the world: time, and the leave to send and to spend.

    `clock` is monotonic seconds, `today` wall time in UTC; `guard` raises LeaseLost when spending must end. `make_room`
    frees disk space that is held back for replies that are paid for when the disk is full.
    """

    clock: Callable[[], float]
    today: Callable[[], datetime]
    guard: Callable[[], None]
    permits: Permits
    money: Money
    make_room: Callable[[], None]


class OnlineEngine:
    """Completes the calls of one provider. One instance works on one event loop.

    `known` holds the keys that already have an outcome in the store; it grows with every outcome written.

    Raises:
        ConfigError: a model has no price.
    """

    def __init__(
        self,
        provider: Provider,
        models: Mapping[str, ModelEntry],
        writer: StoreWriter,
        known: KnownKeys,
        world: Surroundings,
    ) -> None:
        self.tally = Tally()
        self._today, self._clock, self._make_room = world.today, world.clock, world.make_room
        self._gate, self._wallet = Gate(world.permits, world.clock), Wallet(world.money)
        codes = FenceCodes(fence_secret(writer.folder))
        self._sender = Sender(provider, models, self._gate, self._wallet, world.guard, self.tally, world.clock, codes)
        self._filing = Filing(writer, known, self.tally)
        self._queues: dict[str, asyncio.Queue[Call]] = {}
        self._runners: list[asyncio.Task[None]] = []
        self._exchanges: set[asyncio.Task[None]] = set()
        self._in_flight: set[asyncio.Task[Any]] = set()
        self._cut_at = inf

    async def __aenter__(self) -> Self:
        await self._gate.__aenter__()
        await self._wallet.__aenter__()
        self._flusher = asyncio.create_task(self._keep_filing())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait for what is in flight, after `stop` for no longer than that allows, write it, and end."""
        self._gate.close("the engine has ended")
        for runner in self._runners:
            runner.cancel()
        await asyncio.gather(*self._runners, return_exceptions=True)
        await self._drain()
        self._filing.end()
        await self._flusher
        self._make_room()
        with suppress(OSError):  # the engine has ended with this error, and no room is left
            await self._filing.flush()
        await self._gate.__aexit__()
        await self._wallet.__aexit__()

    async def complete(self, jobs: AsyncIterator[Job]) -> None:
        """Work until each of these jobs is finished or open; several such streams may run at once.

        Raises:
            LeaseLost, Interrupted: spending had to end; leave the context to keep what was paid for by then.
            OSError: the store cannot be written.
        """
        stream = Stream()
        async for job in jobs:
            if await self._filing.take_in(job, stream):
                await self._queue(job.call.model).put(job.call)
        await self._filing.until(lambda: stream.outstanding == 0)
        if self._filing.broken:
            raise self._filing.broken

    async def stop(self, drain_s: float = inf) -> None:
        """Begin no further request; those in flight have so many seconds to be answered and kept."""
        self._cut_at = min(self._cut_at, self._clock() + drain_s)
        self._gate.close(STOPPED)
        for task in (*self._runners, *(self._exchanges - self._in_flight)):
            task.cancel()
        await self._break(Interrupted(STOPPED))

    async def _drain(self) -> None:
        while self._exchanges:
            await asyncio.wait(self._exchanges, timeout=DRAIN_LOOK_S)
            if self._clock() >= self._cut_at:
                for task in self._exchanges:
                    task.cancel()

    def tell(self) -> Tally:
        """What was done so far; rows left open are told once."""
        self.tally.stops.update(self._gate.stops)
        self.tally.lost_nanousd, self.tally.spent_nanousd = self._wallet.lost, self._wallet.spent
        self.tally.reserved_nanousd = self._wallet.reserved
        told = replace(self.tally)
        self.tally.open = []
        return told

    async def _break(self, error: Exception) -> None:
        await self._filing.end_with(error)
        self._gate.close(str(self._filing.broken))

    async def _keep_filing(self) -> None:
        try:
            await self._filing.flush_regularly()
        except Exception as error:  # whatever it is: who waits for the store would wait for ever
            await self._break(error)

    def _queue(self, model: str) -> asyncio.Queue[Call]:
        if model not in self._queues:
            self._queues[model] = asyncio.Queue()
            self._runners.append(asyncio.create_task(self._run_model(model, self._queues[model])))
        return self._queues[model]

    async def _run_model(self, model: str, queue: asyncio.Queue[Call]) -> None:
        """Have the calls queued for one model wait for their permits, a bounded number at a time."""
        try:
            await self._feed(model, queue)
        except Exception as error:  # whatever it is: the jobs of this model would be waited for for ever
            await self._break(error)

    async def _feed(self, model: str, queue: asyncio.Queue[Call]) -> None:
        ahead = asyncio.Semaphore(AHEAD)
        most = self._sender.longest_list(model)
        while True:
            calls = [await queue.get()]
            while isinstance(calls[0], EmbedCall) and len(calls) < most and not queue.empty():
                calls.append(queue.get_nowait())
            for unit in self._sender.units(model, calls):
                await ahead.acquire()
                exchange = asyncio.create_task(self._exchange(unit, ahead))
                self._exchanges.add(exchange)
                exchange.add_done_callback(self._exchanges.discard)

    async def _exchange(self, unit: Unit, ahead: asyncio.Semaphore) -> None:
        """One call (or one list of embeddings) from its first wait to its outcome."""
        try:
            try:
                refusal = await self._sender.admitted(unit)
            finally:
                ahead.release()
            if refusal:
                await self._filing.leave_open(unit.calls, refusal)
            else:
                await self._attempts(unit)
        except Exception as error:
            await self._leave_open(unit, str(error))
            await self._break(error)

    async def _attempts(self, unit: Unit) -> None:
        """Send an admitted unit until it has an outcome, or is given up."""
        attempt = 0
        while True:
            try:
                return self._file_replies(unit, *await self._sent(unit))
            except BadUsage as error:
                return self._file_failures(unit, error, attempt + 1)
            except RowError as error:
                if len(unit.calls) > 1:
                    return await self._one_by_one(unit)
                return self._filing.file(unit.calls[0], _failure(unit.calls[0], error, attempt + 1))
            except ModelError as error:
                self._gate.stop_model(unit.model, str(error))
                return await self._leave_open(unit, str(error))
            except ProviderError as error:
                self._gate.stop_provider(unit.model, str(error))
                return await self._leave_open(unit, str(error))
            except TransientError as error:
                own_fault = not isinstance(error, Unreachable | RateLimited)
                attempt += own_fault
                if attempt >= ATTEMPTS:
                    return await self._leave_open(unit, f"{error} (tried {attempt} times)")
                asked_s = error.retry_after_s or 0.0
                if own_fault and asked_s > LONGEST_ASKED_S:
                    return await self._leave_open(unit, f"{error} (the vendor asks for {asked_s:g} s of patience)")
            if self._filing.broken:
                return await self._filing.leave_open(unit.calls, Refusal(OpenKind.STOPPED, str(self._filing.broken)))
            self.tally.retries += 1
            if own_fault:
                await self._filing.pause(max(asked_s, backoff_s(unit.calls[0].key, attempt)))
            refusal = await self._sender.admitted(unit)
            if refusal:
                return await self._filing.leave_open(unit.calls, refusal)

    async def _sent(self, unit: Unit) -> tuple[Answer, int]:
        """Send a unit; meanwhile only the end of the drain cancels this task."""
        task = asyncio.current_task()
        assert task is not None
        self._in_flight.add(task)
        try:
            return await self._sender.send(unit)
        finally:
            self._in_flight.discard(task)

    async def _one_by_one(self, unit: Unit) -> None:
        """A list was refused for one of its members: find out which."""
        for call in unit.calls:
            alone = self._sender.unit(unit.model, [call])
            refusal = await self._sender.admitted(alone)
            if refusal:
                await self._filing.leave_open([call], refusal)
            else:
                await self._attempts(alone)

    async def _leave_open(self, unit: Unit, reason: str) -> None:
        await self._filing.leave_open(unit.calls, Refusal(OpenKind.UNANSWERED, reason))

    def _file_failures(self, unit: Unit, error: BadUsage, attempts: int) -> None:
        """Nothing of an answer can be kept whose bill is impossible; all that was set aside for it is spent."""
        for call, cost in zip(unit.calls, _shared(unit.bound, len(unit.calls)), strict=True):
            self._filing.file(call, replace(_failure(call, error, attempts), cost_nanousd=cost))

    def _file_replies(self, unit: Unit, answer: Answer, cost: int) -> None:
        costs, inputs = _shared(cost, len(unit.calls)), _shared(answer.usage.input, len(unit.calls))
        for position, call in enumerate(unit.calls):
            reply = Reply(
                key=call.key,
                finish=answer.finish,
                usage=replace(answer.usage, input=inputs[position]),
                cost_nanousd=costs[position],
                model_reported=answer.model_reported,
                served_by=answer.served_by,
                body_sha256=unit.wire.sha256,
                at=self._today(),
                text=answer.text,
                vector=answer.vectors[position] if answer.vectors else b"",
            )
            self._filing.file(call, reply)


def _failure(call: Call, error: CallError, attempts: int) -> Failure:
    return Failure(call.key, error.kind, permanent=True, attempts=attempts, message=str(error))


def _shared(total: int, parts: int) -> Sequence[int]:
    """A sum of integers split as evenly as integers allow, so that the parts add up to it."""
    whole, rest = divmod(total, parts)
    return [whole + (i < rest) for i in range(parts)]
