"""What a run has spent before this process, and the durable side of its budget.

    spent    = online calls of its epochs (records, lost calls, marks of unclean ends) + batches it has collected
    reserved = its batches that are still open

A batch belongs to the run whose process wrote its first intent, whoever collects it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict

from hab_ray.engine.budget import Budget, Mark, Opening
from hab_ray.engine.ledger import Batch, Ledger, Phase
from hab_ray.storage.folder import Folder
from hab_ray.storage.lease import LeaseWatch
from hab_ray.storage.spending import online_spending, unreadable


def opening(folder: Folder, epochs: Collection[int], released_up_to: int, models: Collection[str]) -> Opening:
    """What a run's processes of these earlier epochs have left to one that uses these models; for the lease's holder.

    Raises:
        DamagedFile: a file of the store cannot be read.
    """
    online = online_spending(folder, epochs, released_up_to)
    batches = list(batches_of(folder, epochs))
    waiting = [batch.intent for batch in batches if batch.phase is not Phase.DONE]
    return Opening(
        spent=online.spent + sum(_cost(batch) for batch in batches),
        stranded=online.stranded,
        committed=sum(intent.nanousd for intent in waiting if intent.model in models),
        out_of_reach=sum(intent.nanousd for intent in waiting if intent.model not in models),
    )


def batches_of(folder: Folder, epochs: Collection[int]) -> Iterator[Batch]:
    """All batches that processes of these epochs meant to make, of all providers."""
    providers = {name.split("/")[1] for name in folder.list("ledger")}
    for provider in sorted(providers):
        yield from (batch for batch in Ledger(folder, provider).read() if batch.events[0].epoch in epochs)


def _cost(batch: Batch) -> int:
    """What a collected batch has cost. One of format 0 has its cost in its records alone."""
    harvested = batch.harvested
    if harvested is None or harvested.lost_nanousd is None:
        return 0
    return harvested.nanousd + harvested.lost_nanousd


def open_budget(limit: int, before: Opening, folder: Folder, epoch: int, clock: Callable[[], float]) -> Budget:
    """The budget of this epoch's process, with the mark that an earlier life of it has kept. `clock` is monotonic."""
    watch = LeaseWatch(folder, epoch, clock)

    def keep(mark: Mark) -> None:
        watch.check()
        folder.put(_name(epoch), json.dumps(asdict(mark)).encode())

    return Budget(limit, before, keep, _mark(folder, epoch))


def _mark(folder: Folder, epoch: int) -> Mark | None:
    try:
        return Mark(**json.loads(folder.get(_name(epoch))))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise unreadable(_name(epoch)) from None


def _name(epoch: int) -> str:
    return f"budget/{epoch:06d}.json"
