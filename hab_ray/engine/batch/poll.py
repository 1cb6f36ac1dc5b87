"""Waits for the open batches of a provider account and files what each has brought.

open ── asked after, ended, its counters still ──> harvested ──> closed
open ── past the deadline or too old ──> cancelled at the vendor, then collected as any other
open ── gone at the vendor ──> closed with what was harvested; the rest may have been billed
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from hab_ray.engine.batch.collect import Harvest
from hab_ray.engine.batch.components import EngineContext
from hab_ray.engine.batch.in_flight import Home
from hab_ray.engine.ledger import Batch, Ended, Phase, body_hashes
from hab_ray.errors import CallError, ModelError, ProviderError, RateLimited, TransientError
from hab_ray.prices import Price
from hab_ray.providers.batching import BatchRefused, BatchStatus, ResultsGone
from hab_ray.storage.store import Store

YOUNG_S = 300.0
LOOK_EVERY_S = 0.2


class Collector:
    """Polls and harvests the open batches of `context.rows`. `prices` are those of batches, by model."""

    def __init__(self, context: EngineContext, store: Store, prices: Mapping[str, Price]) -> None:
        self._context, self._store, self._prices = context, store, prices
        self._rows, self._tally, self._world = context.rows, context.tally, context.world

    async def poll_regularly(self) -> None:
        """Ask after each batch when it is due, until cancelled.

        Raises:
            LeaseLost: another driver has the store.
            OSError: the store cannot be written.
        """
        while True:
            for home, batch in self._due():
                await self._look(home, batch)
                now = self._world.clock()
                home.due = now + home.interval_s(batch, now, self._context.policy)
            await asyncio.sleep(LOOK_EVERY_S)

    def give_up(self, home: Home, batch: Batch, word: str, problem: str, harvest: Harvest) -> None:
        """Close a batch that brings no more than what was harvested of it."""
        self._context.placer.close(batch, word, problem, harvest)
        self._finish(home, harvest)

    def _due(self) -> list[tuple[Home, Batch]]:
        """The batches to be asked after now."""
        if "" in self._tally.stops:
            return []
        now, late = self._world.clock(), self._world.is_late
        at_vendor = [(h, b) for h, b in self._rows.batches if b.phase is not Phase.IN_DOUBT]
        return [(h, b) for h, b in at_vendor if h.due <= now or (late and b.is_certain and not h.cancelled)]

    async def _look(self, home: Home, batch: Batch) -> None:
        """Ask after one batch, and harvest it if it has ended."""
        assert batch.batch_id is not None
        api, notes = self._context.api, self._tally.notes
        home.looks += 1
        try:
            if not home.cancelled and batch.is_certain and (reason := self._too_long(batch)):
                await api.cancel(batch.batch_id)
                home.cancelled = True
                notes.append(f"batch {batch.name} {reason} and is cancelled")
            status = await api.poll(batch.batch_id)
            if not status.known and home.looks == 1:
                notes.append(f"batch {batch.name} is in a state that is not known here: {status.word}")
            if status.ended and home.is_still(status.counters, self._world.clock(), self._context.policy.still_s):
                await self._harvest(home, batch, status)
        except ResultsGone as error:
            just_made = batch.is_certain and self._world.clock() - home.since <= YOUNG_S
            if batch.ended or not just_made:
                notes.append(f"batch {batch.name} is gone at the vendor: {error}")
                self.give_up(home, batch, "gone", str(error), self._cut_off(home, batch))
        except ProviderError as error:
            self._rows.stop_provider(str(error))
        except CallError as error:
            self._tally.retries += 1
            if not isinstance(error, TransientError):
                notes.append(f"batch {batch.name}: {error}")

    def _too_long(self, batch: Batch) -> str | None:
        """Why a batch is waited for no longer; None while it is."""
        if self._world.is_late:
            return "was not done by the deadline"
        age_s = (self._world.watch.today() - batch.intent.at).total_seconds()
        return f"was not done after {age_s:.0f} s" if age_s > self._context.policy.longest_s else None

    async def _harvest(self, home: Home, batch: Batch, status: BatchStatus) -> None:
        context, watch = self._context, self._world.watch
        if batch.ended is None:
            problem = str(status.problem) if status.problem else None
            context.ledger.add(batch, Ended(epoch=watch.epoch, at=watch.today(), word=status.word, problem=problem))
        hashes = body_hashes(await asyncio.to_thread(context.ledger.rows, batch))
        if home.harvest is None:
            home.harvest = await asyncio.to_thread(self._resumed, home.model, batch, hashes)
        await context.harvester.harvest(home.harvest, batch.intent, self._prices[home.model], hashes, status)
        context.ledger.add(batch, home.harvest.event(batch.intent.rows, watch.epoch, watch.today()))
        self._finish(home, home.harvest)
        self._heed(home, batch, status, home.harvest)
        if batch.is_certain or home.harvest.answered:
            with suppress(CallError):
                await context.api.clean_up(status.id)

    def _resumed(self, model: str, batch: Batch, hashes: Mapping[str, str]) -> Harvest:
        """What an earlier process has filed of a batch before its harvest was cut off."""
        if batch.intent.epoch == self._world.watch.epoch:
            return Harvest()
        self._store.refresh(model)
        return Harvest.resumed(self._store.read(model, list(hashes)).values())

    def _heed(self, home: Home, batch: Batch, status: BatchStatus, harvest: Harvest) -> None:
        """Draw the consequences of what a batch as a whole, or one of its lines, says of model or account."""
        queues = self._context.queues
        if isinstance(status.problem, RateLimited):
            enqueued = self._rows.enqueued(home.model)
            queues.overflowed(home.model, enqueued, batch.intent.tokens, status.problem)
            self._tally.deferred.update(home.waiting)
        elif status.problem is None:
            queues.passed(home.model)
        for problem in (status.problem, harvest.stop, harvest.refused):
            if isinstance(problem, ProviderError | ModelError | BatchRefused):
                self._rows.heed(home.model, problem)
        if status.problem:
            self._tally.notes.append(f"batch {batch.name} {status.word}: {status.problem}")

    def _finish(self, home: Home, harvest: Harvest) -> None:
        if home.is_own:
            self._context.wallet.collect(home.nanousd, harvest.nanousd, harvest.lost_nanousd)
        self._tally.cost_nanousd += harvest.nanousd - harvest.earlier_nanousd
        self._rows.answer(harvest.answered)
        self._rows.close(home)
        self._context.queues.ended(home.model)

    def _cut_off(self, home: Home, batch: Batch) -> Harvest:
        """What was harvested of a batch that is gone at the vendor; the rest may have been billed all the same."""
        hashes = body_hashes(self._context.ledger.rows(batch))
        harvest = home.harvest or self._resumed(home.model, batch, hashes)
        harvest.lost_nanousd = max(0, batch.intent.nanousd - harvest.nanousd)
        return harvest
