"""Making a batch at the vendor, once, whatever breaks on the way.

intent written ── create request ── id ──────────────────────────> submitted
                                 ── clear refusal ───────────────> ended, harvested: nothing was made
                                 ── no clear answer, or a crash ──> look through the vendor's list
look ── found ──> submitted (adopted)
look ── not there twice, and for long enough ──> intent written again

intent written ── the user stops the run before the create request ──> ended, harvested: nothing was made
create request ── cut off at the end of the drain ──> in doubt: the next run looks through the vendor's list
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from hab_ray.catalog import BatchPolicy
from hab_ray.engine.batch.collect import Harvest
from hab_ray.engine.ledger import Batch, Ended, Intent, Ledger, Lines, Submitted, body_hashes
from hab_ray.errors import CallError, ConfigError, Interrupted, RateLimited, TransientError
from hab_ray.providers.batch_http import same_owner
from hab_ray.providers.batching import BatchApi, BatchJob, InDoubt, ResultsGone, SeenBatch

ATTEMPTS = 8
FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 60.0

T = TypeVar("T")


@dataclass(frozen=True)
class Watch:
    """Time, the lease and its epoch: `today` wall time in UTC.

    `guard` raises LeaseLost or Interrupted when spending must end.
    """

    today: Callable[[], datetime]
    guard: Callable[[], None]
    epoch: int


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask a vendor what may be asked twice, until it answers.

    Raises:
        CallError: it cannot be asked, or not after `ATTEMPTS` tries.
    """
    for attempt in range(ATTEMPTS):
        try:
            return await ask()
        except TransientError as error:
            if attempt == ATTEMPTS - 1:
                raise
            await asyncio.sleep(_wait_s(error, attempt))
    raise AssertionError


def _wait_s(error: TransientError, attempt: int) -> float:
    asked = error.retry_after_s if isinstance(error, RateLimited) else None
    return asked if asked is not None else min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0**attempt)


@dataclass(frozen=True)
class OpenCreate:
    """A create request that has no answer yet: the task that waits for it, and its batch."""

    task: asyncio.Task[Any] | None
    batch: Batch


class Placer:
    """Brings batches to one vendor account, one at a time.

    `say` is told what a user may want to know, `commit` how much money a new batch's intent has made durable.
    """

    def __init__(
        self,
        api: BatchApi,
        ledger: Ledger,
        policy: BatchPolicy,
        watch: Watch,
        say: Callable[[str], None],
        commit: Callable[[int], None],
    ) -> None:
        self._api, self._ledger, self._policy, self._watch, self._say = api, ledger, policy, watch, say
        self._commit = commit
        self._ours: set[str] = set()
        self._create_sent = False
        self.creating: OpenCreate | None = None
        self.ending = False

    def know(self, batch_id: str) -> None:
        """A batch at the vendor that is ours already."""
        self._ours.add(batch_id)

    async def place(self, batch: Batch, lines: Lines, intent: Callable[[str, str | None], Intent]) -> None:
        """Have a batch made: write its intent and send it, or find what an earlier intent has made.

        `intent` makes the event from the key's owner and the newest batch at the vendor.

        Raises:
            CallError: the vendor refuses it and nothing was made; RateLimited where its queue is full for now.
            LeaseLost: another driver has the store.
            Interrupted: the user stops the run; what the ledger says of the batch holds.
            ConfigError: the key belongs to another organisation than the one the batch was sent to.
        """
        if batch.events and await self._found(batch):
            return
        for attempt in range(ATTEMPTS):
            newest = await patiently(self._api.newest)
            owner = await patiently(self._api.owner)
            self._watch.guard()
            self._ledger.add(batch, intent(owner, newest))
            if len(batch.events) == 1:
                self._commit(batch.intent.nanousd)
            try:
                batch_id = await self._create(batch, lines)
                return self._submitted(batch, batch_id, adopted=False, certain=True)
            except InDoubt as error:
                if self.ending:
                    raise
                self._say(f"batch {batch.name}: the request to make it got no clear answer ({error}); looking for it")
                if await self._found(batch):
                    return
            except TransientError as error:
                if isinstance(error, RateLimited) or attempt == ATTEMPTS - 1 or self.ending:
                    raise
                await asyncio.sleep(_wait_s(error, attempt))

    async def _create(self, batch: Batch, lines: Lines) -> str:
        """Upload a batch and have it made; `creating` is there while the request that makes it is open."""
        self._create_sent = False

        def before_create() -> None:
            self._watch.guard()
            self._create_sent = True
            self.creating = OpenCreate(asyncio.current_task(), batch)

        try:
            return await self._api.submit(_job(batch.intent, lines, before_create))
        except (Interrupted, asyncio.CancelledError):
            if not self._create_sent:
                self._withdraw(batch)
            raise
        finally:
            self.creating = None

    def _withdraw(self, batch: Batch) -> None:
        """Close a batch whose create request was never sent; its upload may have been cut off unanswered."""
        problem = f"stopped before it was made; the vendor may keep its file {batch.intent.tag}.jsonl for a while"
        self._say(f"batch {batch.name}: {problem}. Nothing is charged for that, and the next run sends its rows again")
        self.close(batch, "not made", problem, Harvest())

    def close(self, batch: Batch, word: str, problem: str, harvest: Harvest) -> None:
        """Note that a batch brings no more than what was harvested of it."""
        epoch, now = self._watch.epoch, self._watch.today()
        if batch.ended is None:
            self._ledger.add(batch, Ended(epoch=epoch, at=now, word=word, problem=problem))
        self._ledger.add(batch, harvest.event(batch.intent.rows, epoch, now))

    def _adopt(self, batch: Batch, seen: SeenBatch, certain: bool) -> bool:
        self._submitted(batch, seen.id, adopted=True, certain=certain)
        return True

    def _submitted(self, batch: Batch, batch_id: str, adopted: bool, certain: bool) -> None:
        watch = self._watch
        event = Submitted(epoch=watch.epoch, at=watch.today(), batch_id=batch_id, adopted=adopted, certain=certain)
        self._ledger.add(batch, event)
        self.know(batch_id)

    async def _found(self, batch: Batch) -> bool:
        """Look for a batch that may have been made; whether it was.

        Raises:
            InDoubt: the vendor could not be asked, so that it may have been made all the same.
        """
        try:
            return await self._looked_for(batch)
        except CallError as error:
            raise InDoubt(error.kind, str(error)) from None

    async def _looked_for(self, batch: Batch) -> bool:
        await self._check_owner(batch)
        long_enough = batch.intent.at + timedelta(seconds=self._policy.in_doubt_s)
        not_ours: set[str] = set()
        empty = 0
        while True:
            seen = await patiently(lambda: self._api.since(batch.intent.newest))
            for tagged in seen:
                if tagged.tag == batch.intent.tag:
                    return self._adopt(batch, tagged, certain=True)
            candidates = [s for s in seen if self._may_be(batch, s) and s.id not in not_ours]
            for candidate in candidates:
                verdict = await self._is_ours(batch, candidate)
                if verdict:
                    return self._adopt(batch, candidate, certain=True)
                if verdict is False:
                    not_ours.add(candidate.id)
            left = [c for c in candidates if c.id not in not_ours]
            waited = self._watch.today() >= long_enough
            if len(left) == 1 and waited:
                return self._adopt(batch, left[0], certain=False)
            empty = 0 if left else empty + 1
            if empty >= 2 and waited:
                return False
            await asyncio.sleep(min(self._policy.poll_s, self._policy.in_doubt_s / 4))

    def _may_be(self, batch: Batch, seen: SeenBatch) -> bool:
        """Whether a batch without a tag may be this one: not known to be another of ours, and as many rows."""
        return seen.tag is None and seen.id not in self._ours and seen.rows in (None, 0, batch.intent.rows)

    async def _is_ours(self, batch: Batch, seen: SeenBatch) -> bool | None:
        """Whether the results of an untagged batch are this one's; None while it has none."""
        status = await patiently(lambda: self._api.poll(seen.id))
        if not status.ended:
            return None
        hashes = body_hashes(self._ledger.rows(batch))
        with suppress(ResultsGone):
            async for line in self._api.results(status):
                return line.custom_id in hashes
        return None

    async def _check_owner(self, batch: Batch) -> None:
        """See that the key is of the organisation that an open batch was sent to.

        Raises:
            ConfigError: it is of another.
        """
        owner = await patiently(self._api.owner)
        if not same_owner(owner, batch.intent.owner):
            raise ConfigError(
                f"provider {batch.provider}: batch {batch.name} was sent to organisation {batch.intent.owner}, and the "
                f"key now belongs to {owner}; use a key of the first one until its batches are harvested"
            )


def _job(intent: Intent, lines: Lines, before_create: Callable[[], None]) -> BatchJob:
    return BatchJob(intent.tag, intent.wire, intent.path, intent.version, lines.requests, intent.rows, before_create)
