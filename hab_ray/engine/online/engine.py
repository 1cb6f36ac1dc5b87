"""The online engine: keeps many calls in flight at one provider and completes each of them once.

The life of a job:

    queued ── key known ──> finished            queued ── same key in progress ──> shares that call
    queued ── permit, money ──> in flight ── answer ──> queued for the store ──> written ──> finished
    in flight ── transient error ──> waits, queued again     (at most `retries.ATTEMPTS` times)
    in flight ── row error ──> permanent failure, written like a reply
    queued, in flight ── any other error ──> open: reported with its reason, sent again by the next run
    in flight ── unanswered at the end of the drain ──> cut off: counts as spent at its bound, sent again next time
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from copy import deepcopy
from math import inf
from typing import Any, Self

from hab_ray.calls import Call, EmbedCall
from hab_ray.catalog.models import ModelEntry
from hab_ray.engine.budget.client import BudgetClient
from hab_ray.engine.jobs import Counters, Job
from hab_ray.engine.limits.buckets import LARGEST_CHUNK
from hab_ray.engine.limits.client import RateLimitClient
from hab_ray.engine.limits.protocol import WHOLE_PROVIDER
from hab_ray.engine.online.reply_writer import MAX_QUEUED, JobStream, OnDurable, ReplyWriter
from hab_ray.engine.online.retries import RetryLoop
from hab_ray.engine.online.sender import Request, Sender, SharedServices
from hab_ray.errors import HabError, Interrupted
from hab_ray.fences import FenceCodes
from hab_ray.providers.base import Provider
from hab_ray.storage.replies.keyindex import AnsweredKeys
from hab_ray.storage.replies.store import StoreWriter
from hab_ray.storage.secret import fence_secret

MAX_WAITING = 2 * LARGEST_CHUNK
DRAIN_CHECK_S = 0.1
STOPPED = "stopped on request"


class OnlineEngine:
    """Completes the calls of one provider. Used as a context manager, on one event loop.

    `known` holds the keys that have an outcome in the store; the engine adds keys as it writes outcomes. It calls
    `on_durable` in a thread with the jobs of each outcome it has written, before they count as finished, and
    `free_disk_space` at the end, to release reserved space so that paid replies fit on a full disk.

    Raises:
        ConfigError: a model has no price.
    """

    def __init__(
        self,
        provider: Provider,
        models: Mapping[str, ModelEntry],
        writer: StoreWriter,
        known: AnsweredKeys,
        services: SharedServices,
        patience_s: float,
        free_disk_space: Callable[[], None],
        on_durable: OnDurable | None = None,
    ) -> None:
        self.counters = Counters()
        self._free_disk_space, self._clock = free_disk_space, services.clock
        self._limits = RateLimitClient(services.limiter, services.clock)
        self._budget = BudgetClient(services.budget, clock=services.clock)
        codes = FenceCodes(fence_secret(writer.folder))
        self._sender = Sender(provider, models, self._limits, self._budget, services, codes, self.counters)
        self._replies = ReplyWriter(writer, known, self.counters, on_durable)
        self._retries = RetryLoop(self._sender, self._limits, self._replies, patience_s, services, self.counters)
        self._queues: dict[str, asyncio.Queue[Call]] = {}
        self._feeders: list[asyncio.Task[None]] = []
        self._requests: set[asyncio.Task[None]] = set()
        self._cut_off_at = inf

    async def __aenter__(self) -> Self:
        await self._limits.__aenter__()
        await self._budget.__aenter__()
        self._flusher = asyncio.create_task(self._guarded(self._replies.flush_regularly()))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait for calls in flight, after `stop` no longer than its drain, and write their outcomes.

        Outcomes that cannot be written are counted in `counters.stops` and as lost, because they are paid for again.
        """
        self._limits.close("the engine has ended")
        for feeder in self._feeders:
            feeder.cancel()
        await asyncio.gather(*self._feeders, return_exceptions=True)
        await self._drain()
        self._replies.close()
        await self._flusher
        self._free_disk_space()
        try:
            await self._replies.flush()
        except Exception as error:
            if lost := self._replies.why_lost(error):
                self.counters.stops[WHOLE_PROVIDER] = lost
                self._budget.lost += self._replies.unwritten_nanousd
        await self._limits.__aexit__()
        with suppress(OSError, HabError):  # a mark that cannot be lowered still covers what was spent
            await self._budget.__aexit__()

    async def complete(self, jobs: AsyncIterator[Job], most_queued: float = MAX_QUEUED) -> None:
        """Work until each of these jobs is finished or open. Several streams may run at once.

        Read jobs only while fewer than `most_queued` calls of all streams are in progress.

        Raises:
            LeaseLost, Interrupted: spending had to end; exit the context to keep what has been paid for.
            OSError, MemoryError, ConfigError: the store cannot be written.
        """
        stream = JobStream(most_queued=most_queued)
        async for job in jobs:
            if await self._replies.register(job, stream):
                await self._queue(job.call.model).put(job.call)
        await self._replies.wait_until(lambda: stream.outstanding == 0)
        if self._replies.broken:
            raise self._replies.broken

    async def stop(self, drain_s: float = inf) -> None:
        """Send no further request; those in flight have `drain_s` seconds to be answered and written."""
        self._cut_off_at = min(self._cut_off_at, self._clock() + drain_s)
        self._limits.close(STOPPED)
        for task in (*self._feeders, *(self._requests - self._retries.in_flight)):
            task.cancel()
        await self._fail(Interrupted(STOPPED))

    @property
    def in_flight(self) -> int:
        """The number of requests waiting for an answer."""
        return self.counters.in_flight.total()

    def snapshot(self) -> Counters:
        """Return the counters so far; each open row is listed only once."""
        counters, budget = self.counters, self._budget
        counters.stops = {**self._limits.stops, **counters.stops}
        counters.outage = self._limits.outage
        counters.lost_nanousd, counters.spent_nanousd = budget.lost, budget.spent
        counters.reserved_nanousd, counters.waits_for_nanousd = budget.reserved, budget.waiting.smallest
        snapshot = deepcopy(counters)
        counters.open.clear()
        return snapshot

    async def _drain(self) -> None:
        while self._requests:
            await asyncio.wait(self._requests, timeout=DRAIN_CHECK_S)
            if self._clock() >= self._cut_off_at:
                for task in self._requests:
                    task.cancel()

    async def _fail(self, error: Exception) -> None:
        await self._replies.fail(error)
        self._limits.close(str(error) or type(error).__name__)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # of any kind: otherwise jobs would wait for ever
            await self._fail(error)

    def _queue(self, model: str) -> asyncio.Queue[Call]:
        if model not in self._queues:
            self._queues[model] = asyncio.Queue()
            feeding = self._guarded(self._feed(model, self._queues[model]))
            self._feeders.append(asyncio.create_task(feeding))
        return self._queues[model]

    async def _feed(self, model: str, queue: asyncio.Queue[Call]) -> None:
        """Start the requests of a model; at most `MAX_WAITING` of them wait for permits at a time."""
        waiting = asyncio.Semaphore(MAX_WAITING)
        longest = self._sender.longest_list(model)
        while True:
            calls = [await queue.get()]
            while isinstance(calls[0], EmbedCall) and len(calls) < longest and not queue.empty():
                calls.append(queue.get_nowait())
            for request in self._sender.requests(model, calls):
                await waiting.acquire()
                task = asyncio.create_task(self._complete_request(request, waiting))
                self._requests.add(task)
                task.add_done_callback(self._requests.discard)

    async def _complete_request(self, request: Request, waiting: asyncio.Semaphore) -> None:
        try:
            try:
                reason = await self._sender.admit(request)
            finally:
                waiting.release()
            if reason:
                await self._replies.leave_open(request.calls, reason)
            else:
                await self._retries.complete(request)
        except Exception as error:
            await self._retries.leave_open(request, str(error))
            await self._fail(error)
