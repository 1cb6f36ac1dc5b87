"""From outcomes to finished rows: which jobs wait for which call, and when their outcomes are in the store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hab_ray.calls import Call, Failure, Outcome
from hab_ray.engine.jobs import Job, OpenRow, Tally
from hab_ray.engine.sending import Refusal
from hab_ray.storage.known import KnownKeys
from hab_ray.storage.store import StoreWriter

FLUSH_EVERY_S = 1.0
FLUSH_AT = 64
MOST_QUEUED = 20_000


@dataclass
class Stream:
    """The jobs of one `complete`: how many have neither finished nor been left open."""

    outstanding: int = 0


@dataclass(frozen=True)
class _Waiting:
    job: Job
    stream: Stream


class Filing:
    """The jobs under way. `known` holds the keys that have an outcome in the store; it grows with each written."""

    def __init__(self, writer: StoreWriter, known: KnownKeys, tally: Tally) -> None:
        self._writer, self._known, self._tally = writer, known, tally
        self._waiting: dict[str, list[_Waiting]] = {}
        self._unwritten: list[str] = []
        self._due, self._released = asyncio.Event(), asyncio.Condition()
        self._ending = False
        self.broken: Exception | None = None

    async def end_with(self, error: Exception) -> None:
        """Note why nothing more is to be done."""
        self.broken = self.broken or error
        await self._notify()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait; also ends when nothing more is to be done."""
        async with self._released:
            await self._released.wait_for(lambda: reached() or self.broken is not None)

    async def pause(self, seconds: float) -> None:
        """Sleep; also ends when nothing more is to be done."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.until(lambda: False)

    async def _notify(self) -> None:
        """Something changed that `until` may wait for."""
        async with self._released:
            self._released.notify_all()

    async def take_in(self, job: Job, stream: Stream) -> bool:
        """Note a job, when there is room for it; whether its call is to be made, being neither known nor under way.

        Raises what ended everything.
        """
        key = job.call.key
        if len(self._waiting) >= MOST_QUEUED:
            await self.until(lambda: len(self._waiting) < MOST_QUEUED)
        if self.broken:
            raise self.broken
        if key in self._known:
            self._tally.finished[job.shard] += 1
            return False
        stream.outstanding += 1
        first = key not in self._waiting
        self._waiting.setdefault(key, []).append(_Waiting(job, stream))
        return first

    def file(self, call: Call, outcome: Outcome) -> None:
        """Queue an outcome for the store; its rows are finished once it is written."""
        self._writer.add(call.model, outcome)
        self._unwritten.append(call.key)
        self._tally.cost_nanousd += outcome.cost_nanousd
        for waiting in self._waiting[call.key]:
            self._tally.failed[waiting.job.shard] += isinstance(outcome, Failure)
        if self._writer.waiting >= FLUSH_AT:
            self._due.set()

    async def leave_open(self, calls: Sequence[Call], refusal: Refusal) -> None:
        """These calls get no outcome in this run."""
        for call in calls:
            for job in self._release(call.key):
                self._tally.open.append(OpenRow(job.shard, job.row_id, refusal.reason, refusal.kind))
        await self._notify()

    def _release(self, key: str) -> list[Job]:
        """The jobs that waited for a call, which now do so no more."""
        waited = self._waiting.pop(key, [])
        for waiting in waited:
            waiting.stream.outstanding -= 1
        return [waiting.job for waiting in waited]

    async def flush_regularly(self) -> None:
        """Write what comes in, until `end`.

        Raises:
            OSError: the store cannot be written.
        """
        while not self._ending:
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_EVERY_S):
                    await self._due.wait()
            self._due.clear()
            await self.flush()
        await self.flush()

    def end(self) -> None:
        """Have `flush_regularly` write the rest and return."""
        self._ending = True
        self._due.set()

    async def flush(self) -> None:
        """Write what has come in; only then are its rows finished and its keys known.

        What no file can hold is a failure by then, and its rows are finished too. Where the store cannot be written,
        all of it waits for the next write.

        Raises:
            OSError: the store cannot be written.
        """
        taken, keys = self._writer.take(), self._unwritten
        self._unwritten = []
        if not keys:
            return
        try:
            unstorable = await asyncio.to_thread(self._writer.write, taken)
        except OSError:
            self._writer.take_back(taken)
            self._unwritten = keys + self._unwritten
            raise
        for failure in unstorable:
            self._tally.failed.update(waiting.job.shard for waiting in self._waiting[failure.key])
        self._known.add(keys)
        self._tally.finished.update(Counter(job.shard for key in keys for job in self._release(key)))
        await self._notify()
