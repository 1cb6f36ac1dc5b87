"""The cost of online calls by the epoch that paid for them, in integer nano-dollars.

Each record of the store names the epoch that paid for it, and whether online or by batch; the ledger has the cost of
batches. Two files per epoch cover online calls without a record:

    lost/<epoch>.json      the most that calls without a record can have cost
    budget/<epoch>.json    the budget's mark: the most that all online calls of the epoch can have cost, see
                           `engine.budget`
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hab_ray.errors import DamagedFile
from hab_ray.storage.folder import Folder
from hab_ray.storage.replies.records import RecordKind, read_listed
from hab_ray.storage.replies.sidecars import Entries, entries_in


@dataclass(frozen=True)
class Online:
    """Spending by online calls of some epochs.

    `spent` includes `lost`, the most that calls without a record can have cost, and `stranded`, the money under a
    mark that neither records nor `lost` account for.
    """

    spent: int
    lost: int
    stranded: int


def keep_lost(folder: Folder, epoch: int, nanousd: int) -> None:
    """Replace the amount recorded as lost in an epoch."""
    folder.put(f"lost/{epoch:06d}.json", json.dumps({"nanousd": nanousd}).encode())


def online_spending(folder: Folder, epochs: Collection[int], released_up_to: int) -> Online:
    """Return what online calls of these epochs have cost, or can have cost.

    An epoch counts up to its mark, unless a later epoch released it: its process may have ended with calls in flight.
    Raise DamagedFile if a file of the store cannot be read.
    """
    known, lost = Counter[int](), _numbers(folder, "lost", "nanousd")
    for kind in RecordKind:
        known.update(read_listed(partial(_recorded, folder, kind, epochs)))
    known.update(lost)
    marks = _numbers(folder, "budget", "outlay")
    spent = stranded = 0
    for epoch in epochs:
        counted = max(known[epoch], 0 if epoch < released_up_to else marks[epoch])
        spent += counted
        stranded += counted - known[epoch]
    return Online(spent, sum(lost[epoch] for epoch in epochs), stranded)


def _numbers(folder: Folder, prefix: str, field: str) -> Counter[int]:
    names = [name for name in folder.list(prefix) if name.endswith(".json")]
    return Counter({_epoch(name): _number(folder, name, field) for name in names})


def _epoch(name: str) -> int:
    try:
        return int(name.rpartition("/")[2].removesuffix(".json"))
    except ValueError:
        raise unreadable(name) from None


def _number(folder: Folder, name: str, field: str) -> int:
    try:
        return int(json.loads(folder.get(name))[field])
    except (ValueError, TypeError, KeyError, OverflowError):
        raise unreadable(name) from None


def unreadable(name: str) -> DamagedFile:
    """Return the error for a damaged file with what calls may have cost."""
    return DamagedFile(
        f"the store's {name}, which says what calls of a run may have cost, cannot be read. Put it back from a backup "
        "or delete it, and run the same command again; no reply is lost, but once it is deleted the budget no "
        "longer counts the calls that were in flight when that process ended"
    )


def _recorded(folder: Folder, kind: RecordKind, epochs: Collection[int]) -> Counter[int]:
    spent: Counter[int] = Counter()
    names = folder.list(kind)
    heads = [np.empty(0, dtype=np.uint64)]
    for name in names:
        entries = _online(entries_in(folder, name), epochs)
        for epoch in np.unique(entries.epochs).tolist():  # in Python's integers, which cannot overflow
            spent[epoch] += sum(entries.costs[entries.epochs == epoch].tolist())
        heads.append(entries.keys.heads)
    spent.subtract(_counted_twice(folder, names, epochs, _repeated(np.concatenate(heads))))
    return spent


def _online(entries: Entries, epochs: Collection[int]) -> Entries:
    return entries.at(np.isin(entries.epochs, list(epochs)) & ~entries.by_batch)


def _repeated(heads: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the heads of keys that may be in two files, after an interrupted compaction or a repeated call."""
    heads.sort()
    found: NDArray[np.uint64] = heads[1:][heads[1:] == heads[:-1]]
    return found


def _counted_twice(
    folder: Folder, names: Iterable[str], epochs: Collection[int], heads: NDArray[np.uint64]
) -> Counter[int]:
    """Return the cost counted more than once because an epoch's record of a call is in several files."""
    twice: Counter[int] = Counter()
    if not len(heads):
        return twice
    seen: set[tuple[int, str]] = set()
    for name in names:
        entries = _online(entries_in(folder, name), epochs)
        some = entries.at(np.isin(entries.keys.heads, heads))
        for record, cost in zip(zip(some.epochs.tolist(), some.keys, strict=True), some.costs.tolist(), strict=True):
            if record in seen:
                twice[record[0]] += cost
            seen.add(record)
    return twice
