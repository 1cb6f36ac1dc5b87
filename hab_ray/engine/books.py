"""Computes what earlier processes of a run have spent and reserved, and which failures their open batches outdate.

    spent    = online calls of its epochs (records, lost calls, marks of unclean ends) + its collected batches
    reserved = its open batches

A batch belongs to the run whose process wrote its first intent, whichever process collects it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from hab_ray.engine.budget.budget import OpeningBalance
from hab_ray.engine.ledger import LEDGER, Batch, Ledger, Phase, accounts_in, body_hashes
from hab_ray.storage.folder import Folder
from hab_ray.storage.replies.records import RecordKind, prefix_of
from hab_ray.storage.replies.store import failed_keys
from hab_ray.storage.spending import Online, online_spending


def opening_balance(
    folder: Folder, epochs: Collection[int], released_up_to: int, models: Collection[str]
) -> OpeningBalance:
    """Return the balance that a run's processes of `epochs` left to a process that uses `models`.

    Call it while holding the lease. Raise DamagedFile if a file of the store cannot be read.
    """
    return balance_of(online_spending(folder, epochs, released_up_to), list(batches_of(folder, epochs)), models)


def balance_of(online: Online, batches: Sequence[Batch], models: Collection[str]) -> OpeningBalance:
    """Return the balance after these online calls and batches of a run, for a process that uses `models`."""
    intents = [batch.intent for batch in batches if batch.phase is not Phase.DONE]
    return OpeningBalance(
        spent=online.spent + sum(map(_cost, batches)),
        stranded=online.stranded,
        committed=sum(intent.nanousd for intent in intents if intent.model in models),
        out_of_reach=sum(intent.nanousd for intent in intents if intent.model not in models),
        paid=_paid(online, batches),
    )


@dataclass(frozen=True)
class Explained:
    """The money that a run's processes of some epochs have spent and reserved, by reason, in nano-dollars.

    `paid` is the cost of replies, `unanswered` the most that calls without a reply may have cost, and `stranded` was
    granted before an unclean end and is not accounted for. Of the money that open batches reserve, `by_bound` is
    bounded by a sample of their rows, and `hard` is the most that they can cost.
    """

    paid: int
    unanswered: int
    stranded: int
    by_bound: int
    hard: int


def explained(folder: Folder, epochs: Collection[int], released_up_to: int) -> Explained:
    """Break down what a run's processes of `epochs` have spent and reserved.

    Raises:
        DamagedFile: a file of the store cannot be read.
    """
    online = online_spending(folder, epochs, released_up_to)
    batches = list(batches_of(folder, epochs))
    intents = [batch.intent for batch in batches if batch.phase is not Phase.DONE]
    return Explained(
        paid=_paid(online, batches),
        unanswered=online.lost + sum(map(_lost, batches)),
        stranded=online.stranded,
        by_bound=sum(intent.nanousd for intent in intents if intent.most_nanousd is not None),
        hard=sum(intent.nanousd for intent in intents if intent.most_nanousd is None),
    )


def all_batches(folder: Folder) -> Iterator[Batch]:
    """Yield all batches of a store, of all providers."""
    names = folder.list(LEDGER)
    for provider in accounts_in(names):
        yield from Ledger(folder, provider).read(names)


def batches_of(folder: Folder, epochs: Collection[int]) -> Iterator[Batch]:
    """Yield all providers' batches whose first intent was written in one of these epochs."""
    return (batch for batch in all_batches(folder) if batch.epoch in epochs)


def open_batches(folder: Folder, epochs: Collection[int]) -> list[Batch]:
    """Return the open batches of a run's processes of `epochs`, of all providers.

    Raises:
        DamagedFile: the ledger cannot be read.
    """
    return [batch for batch in batches_of(folder, epochs) if batch.phase is not Phase.DONE]


def retried_since(folder: Folder, opened: Iterable[Batch]) -> int:
    """Return the latest epoch in which one of these open batches sent failed calls again; 0 if none does.

    Failures from before it end no row: the vendor answers the batch and charges for it. Raise DamagedFile if a file of
    the store cannot be read.
    """
    return max((batch.epoch for batch in opened if _holds_failed(folder, batch)), default=0)


def _holds_failed(folder: Folder, batch: Batch) -> bool:
    """Return whether calls of a batch had failed before it was sent, and have no newer failure."""
    if not folder.list(prefix_of(RecordKind.FAILURES, batch.intent.model)):
        return False
    keys = list(body_hashes(Ledger(folder, batch.provider).rows(batch)))
    ever, lately = (failed_keys(folder, batch.intent.model, keys, since) for since in (0, batch.epoch))
    return ever > lately


def _paid(online: Online, batches: Iterable[Batch]) -> int:
    """Return the cost of all replies."""
    return online.spent - online.lost - online.stranded + sum(_cost(batch) - _lost(batch) for batch in batches)


def _lost(batch: Batch) -> int:
    """Return the most that calls of a collected batch without a reply may have cost."""
    return (batch.harvested and batch.harvested.lost_nanousd) or 0


def _cost(batch: Batch) -> int:
    """Return the cost of a collected batch; 0 in store format 0, where only its records hold the cost."""
    harvested = batch.harvested
    if harvested is None or harvested.lost_nanousd is None:
        return 0
    return harvested.nanousd + harvested.lost_nanousd
