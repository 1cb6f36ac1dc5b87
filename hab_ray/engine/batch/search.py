"""Searches a vendor's list for a batch that the vendor may or may not have created."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import TypeVar

from hab_ray.engine.batch.decisions import ATTEMPTS, backoff_s
from hab_ray.engine.batch.states import OutcomeUnknown, Sighting
from hab_ray.engine.ledger import Batch, Ledger, body_hashes
from hab_ray.errors import TransientError
from hab_ray.providers.batching import BatchApi, ResultsGone, SeenBatch

MAX_WAIT_S = 600.0
NOTED_AFTER_S = 5.0
MAX_CLOCK_DIFFERENCE = timedelta(days=1)

T = TypeVar("T")


async def with_retries(send: Callable[[], Awaitable[T]], note: Callable[[str], None]) -> T:
    """Retry an idempotent request on transient errors. Never use it for the request that creates a batch.

    Retries that go on for `NOTED_AFTER_S` are reported once. Raise CallError if the request failed for good, or
    `ATTEMPTS` times, or the vendor asks to wait over `MAX_WAIT_S`.
    """
    started, is_noted = monotonic(), False
    for attempt in range(1, ATTEMPTS):
        try:
            return await send()
        except TransientError as error:
            wait_s = backoff_s(error, attempt)
            if wait_s > MAX_WAIT_S:
                raise
            if not is_noted and monotonic() + wait_s > started + NOTED_AFTER_S:
                note(f"a request about its batches keeps failing and is sent again; no batch is created yet: {error}")
                is_noted = True
            await asyncio.sleep(wait_s)
    return await send()


class Search:
    """Compares a vendor's list of batches with the ledger."""

    def __init__(self, api: BatchApi, ledger: Ledger, note: Callable[[str], None]) -> None:
        self._api, self._ledger, self._note = api, ledger, note
        self._ours: set[str] = set()

    def add_own(self, batch_id: str) -> None:
        """Record that this batch at the vendor is another one of ours."""
        self._ours.add(batch_id)

    async def look(self, state: OutcomeUnknown) -> tuple[Sighting, frozenset[str]]:
        """Search the list once; return what it shows, and all ids known to be foreign.

        Raises:
            CallError: the vendor's list cannot be read.
        """
        record, foreign = state.record, set(state.foreign)
        seen = await with_retries(lambda: self._api.since(record.intent.newest), self._note)
        for tagged in seen:
            if tagged.tag == record.intent.tag:
                return Sighting(proven=tagged.id), state.foreign
        keeps_tags = any(one.tag for one in seen)
        candidates = [one.id for one in seen if not keeps_tags and self._may_be(record, one) and one.id not in foreign]
        for candidate in candidates:
            is_ours = await self._is_ours(record, candidate)
            if is_ours:
                return Sighting(proven=candidate), frozenset(foreign)
            if is_ours is False:
                foreign.add(candidate)
        unproven = tuple(one for one in candidates if one not in foreign)
        return Sighting(unproven=unproven), frozenset(foreign)

    def _may_be(self, record: Batch, seen: SeenBatch) -> bool:
        """Return whether an untagged batch may be this one.

        It is not another one of ours, has the same number of rows, and is not older than the first intent: the list is
        that of all times where `newest` was deleted meanwhile.
        """
        is_older = seen.created is not None and seen.created < record.events[0].at - MAX_CLOCK_DIFFERENCE
        is_untagged = seen.tag is None and seen.id not in self._ours
        return is_untagged and not is_older and seen.rows in (None, 0, record.intent.rows)

    async def _is_ours(self, record: Batch, batch_id: str) -> bool | None:
        """Return whether the results of an untagged batch are this one's; None if there are none yet to tell by.

        A batch that ended and has no results, such as an archived one, counts as foreign: nothing will ever tell.
        """
        with suppress(ResultsGone):  # another run may have deleted its batch since it was listed
            status = await with_retries(lambda: self._api.poll(batch_id), self._note)
            if status.ended and not (status.results or status.lacks_results or status.problem):
                return False
            if status.ended:
                hashes = body_hashes(self._ledger.rows(record))
                async for line in self._api.results(status):
                    if line.custom_id:  # others may be a proxy's page
                        return line.custom_id in hashes
        return None
