"""What the parts of a batch engine share: the vendor's API, the ledger, the money and the rows in flight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hab_ray.catalog import BatchHabits, ModelEntry
from hab_ray.engine.budget.client import BudgetClient
from hab_ray.engine.harvesting import Harvester
from hab_ray.engine.homes import BatchSurroundings, BatchTally
from hab_ray.engine.in_flight import RowsInFlight
from hab_ray.engine.ledger import Ledger
from hab_ray.engine.placing import Placer
from hab_ray.engine.queues import Queues
from hab_ray.providers.batching import BatchApi


@dataclass(frozen=True)
class EngineContext:
    """The collaborators of `Submitter` and `Collector` at one provider account."""

    api: BatchApi
    models: Mapping[str, ModelEntry]
    ledger: Ledger
    habits: BatchHabits
    world: BatchSurroundings
    tally: BatchTally
    rows: RowsInFlight
    wallet: BudgetClient
    queues: Queues
    placer: Placer
    harvester: Harvester
