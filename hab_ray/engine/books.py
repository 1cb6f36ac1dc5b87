"""What earlier processes of a run have spent and reserved.

    spent    = online calls of its epochs (records, lost calls, marks of unclean ends) + batches it has collected
    reserved = its batches that are still open

A batch belongs to the run whose process wrote its first intent, whichever process collects it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from hab_ray.engine.budget.budget import OpeningBalance
from hab_ray.engine.ledger import LEDGER, Batch, Ledger, Phase
from hab_ray.storage.folder import Folder
from hab_ray.storage.spending import online_spending


def opening_balance(
    folder: Folder, epochs: Collection[int], released_up_to: int, models: Collection[str]
) -> OpeningBalance:
    """The balance left by a run's processes of `epochs` to one that uses `models`. Call it while holding the lease.

    Raises:
        DamagedFile: a file of the store cannot be read.
    """
    online = online_spending(folder, epochs, released_up_to)
    batches = list(batches_of(folder, epochs))
    waiting = [batch.intent for batch in batches if batch.phase is not Phase.DONE]
    return OpeningBalance(
        spent=online.spent + sum(_cost(batch) for batch in batches),
        stranded=online.stranded,
        committed=sum(intent.nanousd for intent in waiting if intent.model in models),
        out_of_reach=sum(intent.nanousd for intent in waiting if intent.model not in models),
    )


@dataclass(frozen=True)
class Explained:
    """What a run's processes of some epochs have spent and reserved, in nano-dollars, by what stands behind it.

    `paid` is what the vendors' replies cost, `unanswered` the most that calls may have cost which brought none, and
    `stranded` was granted before an unclean end and is not accounted for. Of what open batches reserve, `by_bound` is
    told by a sample of their rows, and `hard` the most that they can cost.
    """

    paid: int
    unanswered: int
    stranded: int
    by_bound: int
    hard: int


def explained(folder: Folder, epochs: Collection[int], released_up_to: int) -> Explained:
    """Where the money of a run's processes of `epochs` is.

    Raises:
        DamagedFile: a file of the store cannot be read.
    """
    online = online_spending(folder, epochs, released_up_to)
    batches = list(batches_of(folder, epochs))
    lost = sum((batch.harvested and batch.harvested.lost_nanousd) or 0 for batch in batches)
    waiting = [batch.intent for batch in batches if batch.phase is not Phase.DONE]
    return Explained(
        paid=online.spent - online.lost - online.stranded + sum(map(_cost, batches)) - lost,
        unanswered=online.lost + lost,
        stranded=online.stranded,
        by_bound=sum(intent.nanousd for intent in waiting if intent.most_nanousd is not None),
        hard=sum(intent.nanousd for intent in waiting if intent.most_nanousd is None),
    )


def batches_of(folder: Folder, epochs: Collection[int]) -> Iterator[Batch]:
    """All batches, of all providers, whose first intent was written in one of these epochs."""
    names = folder.list(LEDGER)
    for provider in sorted({name.split("/")[1] for name in names}):
        batches = Ledger(folder, provider).among(names)
        yield from (batch for batch in batches if batch.events[0].epoch in epochs)


def _cost(batch: Batch) -> int:
    """What a collected batch has cost; 0 in store format 0, where only its records hold the cost."""
    harvested = batch.harvested
    if harvested is None or harvested.lost_nanousd is None:
        return 0
    return harvested.nanousd + harvested.lost_nanousd
