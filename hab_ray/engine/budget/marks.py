"""The durable side of a budget: its high-water mark, one file per epoch in the store."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from hab_ray.engine.budget.budget import Budget, HighWaterMark, OpeningBalance
from hab_ray.storage.folder import Folder
from hab_ray.storage.lease.watches import Watch
from hab_ray.storage.spending import unreadable


def open_budget(
    limit: int, before: OpeningBalance, folder: Folder, epoch: int, watch: Watch, clock: Callable[[], float]
) -> Budget:
    """Open the budget of this epoch's process, with the mark that it kept before a restart. `clock` is monotonic.

    Under a stale or lost lease the budget grants nothing and raises the error of `watch`.
    """

    def keep(mark: HighWaterMark) -> None:
        watch.check()
        folder.put(_name(epoch), json.dumps(asdict(mark)).encode())

    return Budget(limit, before, keep, _mark(folder, epoch), clock)


def _mark(folder: Folder, epoch: int) -> HighWaterMark | None:
    try:
        return HighWaterMark(**json.loads(folder.get(_name(epoch))))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise unreadable(_name(epoch)) from None


def _name(epoch: int) -> str:
    return f"budget/{epoch:06d}.json"
