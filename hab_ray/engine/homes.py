"""What the batch engine is given, keeps of each batch, and tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from hab_ray.engine.harvesting import Harvest
from hab_ray.engine.jobs import Tally
from hab_ray.engine.ledger import Batch, Phase
from hab_ray.engine.placing import Watch
from hab_ray.engine.purse import Money
from hab_ray.storage.keyindex import KeySet


@dataclass(frozen=True)
class BatchSurroundings:
    """What the engine is given of the world.

    `clock` is monotonic seconds; `token` gives a word that no other batch has; from `deadline` on, what is open is
    cancelled and nothing more is sent.
    """

    clock: Callable[[], float]
    watch: Watch
    money: Money
    token: Callable[[], str]
    run: str
    deadline: datetime | None


@dataclass
class BatchTally(Tally):
    """What the engine has done. By shard, `offered` counts the rows it was given, `deferred` the finished rows that a
    full queue sent back.

    `stuck` counts the streams whose rows wait for room or money and are not with the vendor; `batches` are the open
    ones; `creating_nanousd` is set aside for the one whose create request is open.
    """

    offered: Counter[int] = field(default_factory=Counter)
    deferred: Counter[int] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    batches: tuple[Batch, ...] = ()
    stuck: int = 0
    creating_nanousd: int = 0

    @property
    def doubts(self) -> int:
        """Batches of which it is not known whether the vendor made them."""
        return sum(batch.phase is Phase.IN_DOUBT for batch in self.batches)


@dataclass(eq=False)
class Home:
    """Where rows are on their way: a pack, then a batch, whose keys are known. `waiting` counts rows by shard."""

    model: str
    keys: KeySet | None = None
    waiting: Counter[int] = field(default_factory=Counter)
    batch: Batch | None = None
    nanousd: int = 0
    harvest: Harvest | None = None
    since: float = 0.0
    due: float = 0.0
    looks: int = 0
    cancelled: bool = False
