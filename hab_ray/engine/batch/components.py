"""What the parts of a batch engine share: the vendor's API, the ledger, the money and the rows in flight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hab_ray.catalog import BatchPolicy, ModelEntry
from hab_ray.engine.batch.collect import Harvester
from hab_ray.engine.batch.create import Placer
from hab_ray.engine.batch.enqueued import Queues
from hab_ray.engine.batch.in_flight import BatchCounters, BatchSurroundings
from hab_ray.engine.batch.rows import RowsInFlight
from hab_ray.engine.ledger import Ledger
from hab_ray.engine.wallet import Wallet
from hab_ray.providers.batching import BatchApi


@dataclass(frozen=True)
class EngineContext:
    """The collaborators of `Submitter` and `Collector` at one provider account."""

    api: BatchApi
    models: Mapping[str, ModelEntry]
    ledger: Ledger
    policy: BatchPolicy
    world: BatchSurroundings
    tally: BatchCounters
    rows: RowsInFlight
    wallet: Wallet
    queues: Queues
    placer: Placer
    harvester: Harvester
