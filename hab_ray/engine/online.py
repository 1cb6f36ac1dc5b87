"""The online engine: many calls in flight at one provider, each completed once.

A job's life:

    queued ── key known ──> finished            queued ── same key in flight ──> shares that call
    queued ── permit ──> in flight ── answer ──> filed ── written to the store ──> finished
    in flight ── transient error ──> waits, in flight again     (at most `ATTEMPTS` times)
    in flight ── row error ──> permanent failure, filed
    in flight ── anything else that ends it ──> open: named with its reason, asked again by the next run
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Self

from hab_ray.calls import Answer, Call, ChatCall, EmbedCall, Failure, Outcome, Reply
from hab_ray.catalog import ModelEntry
from hab_ray.engine.limiter import Limiter
from hab_ray.errors import (
    CallError,
    Interrupted,
    ModelError,
    ProviderError,
    RateLimited,
    RowError,
    TransientError,
    Unreachable,
)
from hab_ray.prices import FREE, Price
from hab_ray.providers.base import Provider, Wire
from hab_ray.storage.store import StoreWriter

ATTEMPTS = 6
FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0
FLUSH_EVERY_S = 1.0
FLUSH_AT = 64
MOST_QUEUED = 20_000


@dataclass(frozen=True)
class Job:
    """One row's call. `shard` is the number the driver gave the row's shard."""

    shard: int
    row_id: str
    call: Call


@dataclass
class _Stream:
    """The jobs of one `complete`: how many have neither finished nor been left open."""

    outstanding: int = 0


@dataclass(frozen=True)
class _Waiting:
    """A job that waits for its call."""

    job: Job
    stream: _Stream


@dataclass(frozen=True)
class OpenRow:
    """A row that this run could not get an answer for."""

    shard: int
    row_id: str
    reason: str


@dataclass
class Tally:
    """What a lane has done so far; `finished` counts, by shard, rows whose outcome is in the store."""

    finished: Counter[int] = field(default_factory=Counter)
    failed: Counter[int] = field(default_factory=Counter)
    open: list[OpenRow] = field(default_factory=list)
    calls: int = 0
    retries: int = 0
    in_flight: Counter[str] = field(default_factory=Counter)
    cost_nanousd: int = 0
    stops: dict[str, str] = field(default_factory=dict)


def backoff_s(key: str, attempt: int) -> float:
    """The wait before another attempt (from 1): doubling, with a jitter that depends on the call alone."""
    jitter = int(sha256(f"{key}/{attempt}".encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
    return min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (attempt - 1)) * (0.75 + 0.5 * jitter)


@dataclass(frozen=True)
class Surroundings:
    """What the engine is given of the world: time, and the leave to spend.

    `clock` is monotonic seconds, `today` wall time in UTC; `guard` raises LeaseLost when spending must end.
    """

    clock: Callable[[], float]
    today: Callable[[], datetime]
    guard: Callable[[], None]


class OnlineEngine:
    """Completes the calls of one provider. One instance works on one event loop.

    `known` holds the keys that already have an outcome in the store; it grows with every outcome written.
    """

    def __init__(
        self,
        provider: Provider,
        models: Mapping[str, ModelEntry],
        limiter: Limiter,
        writer: StoreWriter,
        known: set[str],
        world: Surroundings,
    ) -> None:
        self._provider, self._models, self._limiter = provider, models, limiter
        self._writer, self._known, self._world = writer, known, world
        self._sharing: dict[str, list[_Waiting]] = {}
        self._unwritten: list[str] = []
        self._queues: dict[str, asyncio.Queue[Call]] = {}
        self._runners: list[asyncio.Task[None]] = []
        self._changed = asyncio.Condition()
        self._exchanges: set[asyncio.Task[None]] = set()
        self._broken: Exception | None = None
        self._ending = False
        self.tally = Tally()

    async def __aenter__(self) -> Self:
        self._flusher = asyncio.create_task(self._flush_regularly())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait for what is in flight, write it, and end."""
        for runner in self._runners:
            runner.cancel()
        await asyncio.gather(*self._runners, *self._exchanges, return_exceptions=True)
        self._ending = True
        await self._notify()
        await self._flusher

    async def complete(self, jobs: AsyncIterator[Job]) -> None:
        """Work until each of these jobs is finished or open; several such streams may run at once.

        Raises:
            LeaseLost, Interrupted: spending had to end; leave the context to keep what was paid for by then.
            OSError: the store cannot be written.
        """
        stream = _Stream()
        async for job in jobs:
            await self._take_in(_Waiting(job, stream))
        await self._until(lambda: stream.outstanding == 0)
        if self._broken:
            raise self._broken

    async def stop(self) -> None:
        """Send nothing more; what is in flight is waited for and kept."""
        await self._break(Interrupted("stopped on request"))

    async def _break(self, error: Exception) -> None:
        self._broken = self._broken or error
        await self._notify()

    async def _until(self, reached: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: reached() or self._broken is not None)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _take_in(self, waiting: _Waiting) -> None:
        job = waiting.job
        key = job.call.key
        await self._until(lambda: len(self._sharing) < MOST_QUEUED)
        if self._broken:
            raise self._broken
        if key in self._known:
            self.tally.finished[job.shard] += 1
            return
        waiting.stream.outstanding += 1
        first = key not in self._sharing
        self._sharing.setdefault(key, []).append(waiting)
        if first:
            await self._queue(job.call.model).put(job.call)

    def _queue(self, model: str) -> asyncio.Queue[Call]:
        if model not in self._queues:
            self._queues[model] = asyncio.Queue()
            self._runners.append(asyncio.create_task(self._run_model(model, self._queues[model])))
        return self._queues[model]

    async def _run_model(self, model: str, queue: asyncio.Queue[Call]) -> None:
        """Send what is queued for one model, as fast as its permits come."""
        entry = self._models[model]
        while True:
            calls = [await queue.get()]
            while isinstance(calls[0], EmbedCall) and len(calls) < entry.list_size and not queue.empty():
                calls.append(queue.get_nowait())
            refused = await self._permitted(model)
            if refused is not None:
                self._leave_open(calls, refused)
                await self._notify()
                continue
            self.tally.in_flight[model] += 1
            exchange = asyncio.create_task(self._exchange(model, entry, calls))
            self._exchanges.add(exchange)
            exchange.add_done_callback(self._exchanges.discard)

    async def _permitted(self, model: str) -> str | None:
        """Wait for a permit; the reason, if there will never be one."""
        while True:
            if self._broken:
                return str(self._broken)
            permit = self._limiter.ask(model, self._world.clock())
            if permit.wait_s is None:
                return permit.reason
            if permit.wait_s == 0:
                return None
            timeout = None if math.isinf(permit.wait_s) else permit.wait_s
            async with self._changed:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), timeout)

    async def _exchange(self, model: str, entry: ModelEntry, calls: Sequence[Call]) -> None:
        """One call (or one list of embeddings) from its first attempt to its outcome."""
        try:
            await self._attempts(model, entry, calls)
        except Exception as error:
            self._leave_open(calls, str(error))
            await self._break(error)
        finally:
            self.tally.in_flight[model] -= 1
            await self._notify()

    async def _attempts(self, model: str, entry: ModelEntry, calls: Sequence[Call]) -> None:
        wire = self._wire(calls, entry)
        attempt = 0
        while True:
            try:
                answer = await self._once(model, wire, calls)
                return self._file_replies(calls, entry, wire, answer)
            except RowError as error:
                if len(calls) > 1:
                    return await self._one_by_one(model, entry, calls)
                return self._file(calls[0], _failure(calls[0], error, attempt + 1))
            except (ModelError, ProviderError) as error:
                self._stop(model, error)
                return self._leave_open(calls, str(error))
            except TransientError as error:
                attempt += not isinstance(error, Unreachable | RateLimited)
                if attempt >= ATTEMPTS:
                    return self._leave_open(calls, f"{error} (tried {attempt} times)")
                last = error
            refused = await self._wait_for_next(model, calls[0].key, attempt, last)
            if refused is not None:
                return self._leave_open(calls, refused)

    async def _wait_for_next(self, model: str, key: str, attempt: int, error: TransientError) -> str | None:
        self.tally.retries += 1
        if not isinstance(error, Unreachable | RateLimited):
            await asyncio.sleep(backoff_s(key, attempt))
        return await self._permitted(model)

    async def _one_by_one(self, model: str, entry: ModelEntry, calls: Sequence[Call]) -> None:
        """A list was refused for one of its members: find out which."""
        for call in calls:
            refused = await self._permitted(model)
            if refused is not None:
                self._leave_open([call], refused)
            else:
                await self._attempts(model, entry, [call])

    def _wire(self, calls: Sequence[Call], entry: ModelEntry) -> Wire:
        if isinstance(calls[0], ChatCall):
            return self._provider.chat(calls[0], entry)
        return self._provider.embed([c for c in calls if isinstance(c, EmbedCall)], entry)

    async def _once(self, model: str, wire: Wire, calls: Sequence[Call]) -> Answer:
        """One HTTP exchange under the permit that was given for it."""
        limiter, clock = self._limiter, self._world.clock
        try:
            self._world.guard()
            self.tally.calls += 1
            exchange = await self._provider.send(wire)
            limiter.answered(model)
            if isinstance(calls[0], ChatCall):
                return self._provider.read_chat(exchange.body)
            return self._provider.read_embeddings(exchange.body, len(calls))
        except Unreachable as error:
            limiter.unreachable(str(error), clock())
            raise
        except RateLimited as error:
            limiter.rate_limited(model, error.retry_after_s, clock())
            raise
        except CallError:
            limiter.answered(model)
            raise
        finally:
            limiter.finished(model)

    def _stop(self, model: str, error: CallError) -> None:
        if isinstance(error, ProviderError):
            self._limiter.stop(str(error))
        else:
            self._limiter.stop_model(model, str(error))
        self.tally.stops.update(self._limiter.stops)

    def _file_replies(self, calls: Sequence[Call], entry: ModelEntry, wire: Wire, answer: Answer) -> None:
        price = Price.usd(**entry.price.model_dump()) if entry.price else FREE
        costs, inputs = _shared(price.cost(answer.usage), len(calls)), _shared(answer.usage.input, len(calls))
        for position, call in enumerate(calls):
            reply = Reply(
                key=call.key,
                finish=answer.finish,
                usage=replace(answer.usage, input=inputs[position]),
                cost_nanousd=costs[position],
                model_reported=answer.model_reported,
                served_by=answer.served_by,
                body_sha256=wire.sha256,
                at=self._world.today(),
                text=answer.text,
                vector=answer.vectors[position] if answer.vectors else b"",
            )
            self._file(call, reply)

    def _file(self, call: Call, outcome: Outcome) -> None:
        """Queue an outcome for the store; its rows are finished once it is written."""
        self._writer.add(call.model, outcome)
        self._unwritten.append(call.key)
        self.tally.cost_nanousd += outcome.cost_nanousd
        for waiting in self._sharing[call.key]:
            self.tally.failed[waiting.job.shard] += isinstance(outcome, Failure)

    def _leave_open(self, calls: Sequence[Call], reason: str) -> None:
        self.tally.stops.update(self._limiter.stops)
        for call in calls:
            for job in self._release(call.key):
                self.tally.open.append(OpenRow(job.shard, job.row_id, reason))

    def _release(self, key: str) -> list[Job]:
        """The jobs that waited for a call, which now do so no more."""
        waited = self._sharing.pop(key, [])
        for waiting in waited:
            waiting.stream.outstanding -= 1
        return [waiting.job for waiting in waited]

    async def _flush_regularly(self) -> None:
        try:
            while not self._ending:
                async with self._changed:
                    full = self._changed.wait_for(lambda: self._ending or self._writer.waiting >= FLUSH_AT)
                    with suppress(TimeoutError):
                        await asyncio.wait_for(full, FLUSH_EVERY_S)
                await self._flush()
        except OSError as error:
            await self._break(error)

    async def _flush(self) -> None:
        """Write what has come in; only then are its rows finished and its keys known."""
        taken, keys = self._writer.take(), self._unwritten
        self._unwritten = []
        if not keys:
            return
        await asyncio.to_thread(self._writer.write, taken)
        self._known.update(keys)
        self.tally.finished.update(Counter(job.shard for key in keys for job in self._release(key)))
        await self._notify()


def _failure(call: Call, error: CallError, attempts: int) -> Failure:
    return Failure(call.key, error.kind, permanent=True, attempts=attempts, message=str(error))


def _shared(total: int, parts: int) -> list[int]:
    """A sum of integers split as evenly as integers allow, so that the parts add up to it."""
    whole, rest = divmod(total, parts)
    return [whole + (i < rest) for i in range(parts)]
