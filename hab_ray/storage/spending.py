"""What online calls have cost, by the epoch that paid for them. Integer nano-dollars.

Each record of the store says which epoch paid for it, and how: what batches cost stands in the ledger. Beside the
records are, by epoch:

    lost/<epoch>.json      what calls may have cost that brought no record
    budget/<epoch>.json    the budget's mark: the most that the epoch's online calls can have cost, see `engine.budget`
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePosixPath

from hab_ray.errors import DamagedFile
from hab_ray.prices import Mode
from hab_ray.storage.folder import Folder
from hab_ray.storage.records import costs_in
from hab_ray.storage.store import Shelf


@dataclass(frozen=True)
class Online:
    """What the online calls of some epochs count as spent, and how much of that nothing accounts for."""

    spent: int
    stranded: int


def keep_lost(folder: Folder, epoch: int, nanousd: int) -> None:
    """Replace what is noted as lost by an epoch."""
    folder.put(f"lost/{epoch:06d}.json", json.dumps({"nanousd": nanousd}).encode())


def online_spending(folder: Folder, epochs: Collection[int], released_up_to: int) -> Online:
    """What online calls of these epochs have cost, or may have.

    Of an epoch with a mark all that the mark covers counts, unless a later one released it: its process may have
    ended while calls were in flight.

    Raises:
        DamagedFile: a file of the store cannot be read.
    """
    known = _recorded(folder)
    known.update(_lost(folder))
    marks = _marks(folder)
    spent = stranded = 0
    for epoch in epochs:
        counted = max(known[epoch], 0 if epoch < released_up_to else marks[epoch])
        spent += counted
        stranded += counted - known[epoch]
    return Online(spent, stranded)


def _lost(folder: Folder) -> Counter[int]:
    return _numbers(folder, "lost", "nanousd")


def _marks(folder: Folder) -> Counter[int]:
    return _numbers(folder, "budget", "outlay")


def _numbers(folder: Folder, prefix: str, field: str) -> Counter[int]:
    names = [name for name in folder.list(prefix) if name.endswith(".json")]
    return Counter({_epoch(name): _number(folder, name, field) for name in names})


def _epoch(name: str) -> int:
    try:
        return int(PurePosixPath(name).stem)
    except ValueError:
        raise unreadable(name) from None


def _number(folder: Folder, name: str, field: str) -> int:
    try:
        return int(json.loads(folder.get(name))[field])
    except (ValueError, TypeError, KeyError, OverflowError):
        raise unreadable(name) from None


def unreadable(name: str) -> DamagedFile:
    """The error for a file of the store that says what calls may have cost and cannot be read."""
    return DamagedFile(
        f"the store's {name}, which says what calls of a run may have cost, cannot be read. Put it back from a backup "
        "or delete it, and give the same command again; no reply is lost, but once it is deleted `budget_usd` no "
        "longer counts what was in flight when that process ended"
    )


def _recorded(folder: Folder) -> Counter[int]:
    """What the records of each epoch cost. One that stands in two files, for a cut-off compaction, counts once."""
    costs: dict[tuple[Shelf, int, str], int] = {}
    for shelf in Shelf:
        for name in folder.list(shelf):
            for cost in costs_in(name, folder.get(name)):
                if cost.mode != Mode.BATCH:
                    costs[shelf, cost.epoch, cost.key] = cost.nanousd
    spent: Counter[int] = Counter()
    for (_, epoch, _), nanousd in costs.items():
        spent[epoch] += nanousd
    return spent
