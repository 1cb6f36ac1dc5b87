"""Resumes the batches that earlier processes left open in the ledger."""

import asyncio

from hab_ray.engine.batch import transitions
from hab_ray.engine.batch.components import Components
from hab_ray.engine.batch.create import Creator
from hab_ray.engine.batch.rows import BatchInFlight, Request
from hab_ray.engine.batch.states import Closed, OutcomeUnknown
from hab_ray.engine.ledger import Batch, Phase, body_hashes
from hab_ray.storage.replies.keyindex import KeySet


class Recovery:
    """Resumes the open batches of one provider account."""

    def __init__(self, components: Components, creator: Creator) -> None:
        self._components, self._creator = components, creator

    async def resume_all(self) -> None:
        """Resume every open batch of the models in use, whichever run created it.

        Raises:
            DamagedFile: the ledger cannot be read.
        """
        for record in await asyncio.to_thread(self._components.ledger.read):
            self._creator.register(record)
            if record.phase is not Phase.DONE:
                await self._resume(record)
                continue
            if record.harvested and record.epoch in self._components.context.epochs:
                cost = record.harvested.nanousd + (record.harvested.lost_nanousd or 0)
                self._components.check_overrun(record, cost)
            if self._components.context.keeps_refusals and record.intent.model in self._components.models:
                self._keep_refusal(record)

    def _keep_refusal(self, record: Batch) -> None:
        """Refuse a model's batches if its latest one was refused."""
        counters, model = self._components.counters, record.intent.model
        counters.refused.pop(model, None)
        if record.harvested and record.harvested.refusal:
            counters.refused[model] = (
                f"{record.harvested.refusal} (batch {record.name} ended this way; give the command once without "
                "--detach to try again)"
            )

    async def _resume(self, record: Batch) -> None:
        components, intent = self._components, record.intent
        if intent.model not in components.models:
            components.counters.notes.append(
                f"batch {record.name} is of the model {intent.model}, which this sweep does not use: the sweep "
                f"whose run is at {intent.run}, seen from the store, collects it"
            )
            return
        is_own = record.epoch in components.context.epochs
        state = transitions.recovered(record, components.context.clock())
        batch = BatchInFlight(intent.model, state, is_own=is_own, nanousd=intent.nanousd if is_own else 0)
        if is_own:
            components.budget.adopt(batch.nanousd)
        if isinstance(state, Closed):
            components.close_unmade(batch, record, "", "")
            return
        hashes = body_hashes(await asyncio.to_thread(components.ledger.rows, record))
        components.rows.open(batch, record, KeySet(hashes))

    async def settle_doubts(self) -> None:
        """Find out whether the vendor created the batches in doubt, then allow new ones.

        Raises:
            ConfigError: the API key belongs to another organisation than the one a batch was sent to.
        """
        components = self._components
        for batch in components.rows.batches:
            if isinstance(batch.state, OutcomeUnknown):
                record = batch.state.record
                lines = await asyncio.to_thread(components.ledger.lines, record)
                batch.request = Request(lines, record.intent)
                await self._creator.settle(batch)
                if isinstance(batch.state, Closed):
                    components.rows.close(batch)
        self._creator.allow_new()
