"""The durable side of a budget: its high-water mark, one file per epoch in the store."""

import json
from dataclasses import asdict, dataclass

from hab_ray.engine.budget.budget import Budget, HighWaterMark, OpeningBalance
from hab_ray.location import Location
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.lease.watches import RemoteWatch, Watch
from hab_ray.storage.spending import unreadable


@dataclass(frozen=True)
class BudgetSetup:
    """The initial state of a run's budget: its limit in nano-dollars, and what earlier processes left.

    `watch` is for a budget that another process keeps.
    """

    limit: int
    opening: OpeningBalance
    store: Location
    epoch: int
    watch: RemoteWatch

    def open(self, watch: Watch) -> Budget:
        """Open the budget, restoring the mark of an earlier keeper of this epoch from the store.

        Under a stale or lost lease the budget grants nothing and raises the error of `watch`.
        """
        folder, name = open_folder(self.store), f"budget/{self.epoch:06d}.json"

        def keep(mark: HighWaterMark) -> None:
            watch.check()
            folder.put(name, json.dumps(asdict(mark)).encode())

        return Budget(self.limit, self.opening, keep, _mark(folder, name))


def _mark(folder: Folder, name: str) -> HighWaterMark | None:
    try:
        return HighWaterMark(**json.loads(folder.get(name)))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise unreadable(name) from None
