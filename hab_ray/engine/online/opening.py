"""Opens the online engine of one provider account, in the driver's process, in a lane or for a probe."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hab_ray.catalog.models import Limits, ModelEntry, ProviderEntry, folder_name
from hab_ray.catalog.prices import Mode
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.engine.limits.shared import LocalLimiterClient
from hab_ray.engine.memory import freeze_gc
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.engine.online.reply_writer import OnDurable
from hab_ray.engine.online.sender import SharedServices
from hab_ray.location import Location
from hab_ray.providers import connect
from hab_ray.providers.access import endpoint_of
from hab_ray.storage.ballast import Ballast
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.watches import Watch
from hab_ray.storage.replies.store import Store, StoreWriter


@dataclass(frozen=True)
class AccountSetup:
    """An engine's settings for one provider account. Picklable: the API key is read where the engine opens.

    The engine spends under the lease of `epoch`. Permanent failures of epochs before `failures_since` count as open
    calls, so they are sent again.
    """

    provider: str
    entry: ProviderEntry
    url: str
    models: Mapping[str, ModelEntry]
    store: Location
    epoch: int
    failures_since: int = 0

    @property
    def limits(self) -> dict[str, Limits]:
        """The account's rate limits by model."""
        return {name: model.limits or self.entry.limits for name, model in self.models.items()}

    def alone(self, budget: BudgetService, watch: Watch) -> SharedServices:
        """Return the services of the only engine on the account, which shares its limits with no other."""
        return SharedServices(LocalLimiterClient(self.limits, self.entry.limits.patience_s), budget, watch)


@asynccontextmanager
async def open_engine(
    setup: AccountSetup,
    writer: str,
    services: SharedServices,
    on_durable: OnDurable | None = None,
    also_known: Collection[str] = (),
) -> AsyncIterator[OnlineEngine]:
    """Open an engine with its own connection. `writer` names its files and must be unique within the epoch.

    The engine does not send calls whose keys are in `also_known`, though the store has no outcome for them. Raise
    HabError or OSError if there is no API key, the store cannot be read, or the disk is full.
    """
    folder = open_folder(setup.store)
    connection = connect(endpoint_of(setup.provider, setup.entry, setup.url))
    try:
        known = await asyncio.to_thread(Store(folder, setup.failures_since).known, setup.models)
        known.add(sorted(also_known))
        engine = OnlineEngine(
            connection,
            setup.models,
            StoreWriter(folder, setup.epoch, writer, Mode.ONLINE),
            known,
            services,
            setup.entry.limits.patience_s,
            Ballast(setup.store, folder_name(setup.provider)).release,
            on_durable,
        )
        async with engine:
            freeze_gc()
            yield engine
    finally:
        await connection.close()
