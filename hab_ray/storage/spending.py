"""What a run has spent so far, over all its processes, as its store has it. Integer nano-dollars.

Each record says which epoch paid for it, and `lease/<epoch>.json` which run held the store then. What an epoch's
calls may have cost that brought no record is kept beside:

    lost/<epoch>.json
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from hab_ray.storage.folder import Folder
from hab_ray.storage.lease import Holder
from hab_ray.storage.records import read_table
from hab_ray.storage.store import Shelf

_COLUMNS = ("key", "epoch", "cost_nanousd")


def keep_lost(folder: Folder, epoch: int, nanousd: int) -> None:
    """Replace what is noted as lost by an epoch."""
    folder.put(f"lost/{epoch:06d}.json", json.dumps({"nanousd": nanousd}).encode())


def spent_before(folder: Folder, run: str, epoch: int) -> int:
    """What the processes of the run of this name spent that held the store before this epoch.

    For the holder of the lease.

    Raises:
        DamagedFile: a file of the store cannot be read.
    """
    epochs = {holder.epoch for holder in _holders(folder) if holder.run == run}
    spent = _recorded(folder)
    spent.update(_lost(folder))
    return sum(spent[earlier] for earlier in epochs if earlier < epoch)


def _holders(folder: Folder) -> Iterator[Holder]:
    for name in folder.list("lease"):
        if name.endswith(".json"):
            yield Holder(**json.loads(folder.get(name)))


def _lost(folder: Folder) -> Counter[int]:
    return Counter({int(Path(name).stem): json.loads(folder.get(name))["nanousd"] for name in folder.list("lost")})


def _recorded(folder: Folder) -> Counter[int]:
    """What the records of each epoch cost. One that stands in two files, for a cut-off compaction, counts once."""
    costs: dict[tuple[Shelf, int, str], int] = {}
    for shelf in Shelf:
        for name in folder.list(shelf):
            columns = read_table(name, folder.get(name), _COLUMNS).to_pydict()
            for key, epoch, cost in zip(*(columns[c] for c in _COLUMNS), strict=True):
                costs[shelf, epoch, key] = cost
    spent: Counter[int] = Counter()
    for (_, epoch, _), cost in costs.items():
        spent[epoch] += cost
    return spent
