"""Writes outcomes to the store, then finishes the rows that wait for them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hab_ray.calls import Call, Failure, Outcome
from hab_ray.engine.jobs import Counters, Job, OpenKind, OpenRow
from hab_ray.storage.replies.keyindex import AnsweredKeys
from hab_ray.storage.replies.store import StoreWriter
from hab_ray.visible import counted

OnDurable = Callable[[Sequence[tuple[Job, Outcome]]], None]

CHECK_EVERY_S = 0.25
MAX_QUEUED = 20_000


@dataclass(frozen=True)
class OpenReason:
    """The reason why a call gets no outcome in this run."""

    kind: OpenKind
    reason: str


@dataclass
class JobStream:
    """The jobs of one `complete` call; `outstanding` of them are neither finished nor left open yet."""

    outstanding: int = 0
    most_queued: float = MAX_QUEUED


@dataclass(frozen=True)
class _Waiting:
    job: Job
    stream: JobStream


class ReplyWriter:
    """The jobs in progress, and the outcomes not written yet.

    `known` and `on_durable` are the engine's. `broken` is the error that ended its work, if any.
    """

    def __init__(
        self, writer: StoreWriter, known: AnsweredKeys, counters: Counters, on_durable: OnDurable | None = None
    ) -> None:
        self._writer, self._known, self._counters, self._on_durable = writer, known, counters, on_durable
        self._waiting: dict[str, list[_Waiting]] = {}
        self._unwritten: list[Outcome] = []
        self._flush_now, self._changed = asyncio.Event(), asyncio.Condition()
        self._closing = False
        self.broken: Exception | None = None

    async def fail(self, error: Exception) -> None:
        """Wake everything that waits, with an error; keep the first one."""
        self.broken = self.broken or error
        await self._notify()

    async def wait_until(self, reached: Callable[[], bool]) -> None:
        """Wait for a condition on jobs in progress, or for `fail`."""
        async with self._changed:
            await self._changed.wait_for(lambda: reached() or self.broken is not None)

    async def pause(self, seconds: float) -> None:
        """Sleep for `seconds`, or until `fail`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wait_until(lambda: False)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def register(self, job: Job, stream: JobStream) -> bool:
        """Add a job as soon as there is room for it.

        Returns:
            Whether its call must be sent: its outcome is not in the store, and the same call is not in progress.

        Raises:
            Exception: the error given to `fail`.
        """
        key = job.call.key
        if len(self._waiting) >= stream.most_queued:
            await self.wait_until(lambda: len(self._waiting) < stream.most_queued)
        if self.broken:
            raise self.broken
        if key in self._known:
            self._counters.finished[job.shard] += 1
            return False
        stream.outstanding += 1
        is_first = key not in self._waiting
        self._waiting.setdefault(key, []).append(_Waiting(job, stream))
        return is_first

    def add(self, call: Call, outcome: Outcome) -> None:
        """Queue an outcome to be written; its rows finish once it is."""
        self._writer.add(call.model, outcome)
        self._unwritten.append(outcome)
        self._counters.cost_nanousd += outcome.cost_nanousd
        if isinstance(outcome, Failure):
            self._counters.failed.update(waiting.job.shard for waiting in self._waiting[call.key])
        if self._writer.waiting >= self._writer.pace.at:
            self._flush_now.set()

    async def leave_open(self, calls: Sequence[Call], reason: OpenReason) -> None:
        """Release the rows of calls that get no outcome in this run."""
        for call in calls:
            for job in self._release(call.key):
                self._counters.open.append(OpenRow(job.shard, job.row_id, reason.reason, reason.kind))
        await self._notify()

    def _release(self, key: str) -> list[Job]:
        waited = self._waiting.pop(key, [])
        for waiting in waited:
            waiting.stream.outstanding -= 1
        return [waiting.job for waiting in waited]

    async def flush_regularly(self) -> None:
        """Write outcomes at the writer's pace, until `close`; raise Exception if the store cannot be written."""
        while not self._closing:
            await self._wait_for_flush()
            self._flush_now.clear()
            await self.flush()
        await self.flush()

    async def _wait_for_flush(self) -> None:
        """Wait at the writer's pace, at most `CHECK_EVERY_S` once every call in progress is answered."""
        left_s = self._writer.pace.every_s
        while left_s > 0 and not self._flush_now.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, CHECK_EVERY_S)):
                    await self._flush_now.wait()
            left_s -= CHECK_EVERY_S
            if len(self._unwritten) >= len(self._waiting) > 0:
                return

    @property
    def unwritten_nanousd(self) -> int:
        """The cost of the outcomes not written yet."""
        return self._writer.waiting_nanousd

    def why_lost(self, error: Exception) -> str:
        """Say what it means that the outcomes still queued cannot be written; "" if all are written."""
        if not self._writer.waiting:
            return ""
        lost = counted(self._writer.waiting, "reply", "replies")
        return f"{lost} could not be written ({error}): the next run sends the calls again and pays for them again"

    def close(self) -> None:
        """Make `flush_regularly` write the remaining outcomes and return."""
        self._closing = True
        self._flush_now.set()

    async def flush(self) -> None:
        """Write all queued outcomes, then finish their rows.

        An outcome that cannot be stored is written as a failure, which finishes its rows too. If the store cannot be
        written, all outcomes stay queued for the next attempt. Raise Exception if the store cannot be written.
        """
        taken, outcomes = self._writer.take(), self._unwritten
        self._unwritten = []
        if not outcomes:
            return
        try:
            unstorable = await asyncio.to_thread(self._writer.write, taken)
        except Exception:  # a bucket may refuse writes for many reasons
            self._writer.take_back(taken)
            self._unwritten = outcomes + self._unwritten
            raise
        for failure in unstorable:
            self._counters.failed.update(waiting.job.shard for waiting in self._waiting[failure.key])
        written = {outcome.key: outcome for outcome in (*outcomes, *unstorable)}
        if self._on_durable:
            jobs = [(one.job, outcome) for key, outcome in written.items() for one in self._waiting.get(key, ())]
            await asyncio.to_thread(self._on_durable, jobs)
        self._known.add(list(written))
        self._counters.finished.update(Counter(job.shard for key in written for job in self._release(key)))
        await self._notify()
