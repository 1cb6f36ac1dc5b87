"""What the batch engine is given, keeps of each batch, and tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from hab_ray.catalog import BatchPolicy
from hab_ray.engine.batch.collect import Harvest
from hab_ray.engine.batch.create import Watch
from hab_ray.engine.batch.packing import PackedRow
from hab_ray.engine.budget import Money
from hab_ray.engine.jitter import jitter
from hab_ray.engine.jobs import Counters
from hab_ray.engine.ledger import Batch, Phase
from hab_ray.providers.batching import BatchRefused, NoBatchApi
from hab_ray.storage.keyindex import KeySet


@dataclass(frozen=True)
class BatchSurroundings:
    """What the engine is given of the world.

    `clock` is monotonic seconds; `token` gives a word that no other batch has; from `deadline` on, what is open is
    cancelled and nothing more is sent. `epochs` are those of this run, the present one included: batches of others
    are collected, not paid for.
    """

    clock: Callable[[], float]
    watch: Watch
    money: Money
    token: Callable[[], str]
    run: str
    epochs: frozenset[int]
    deadline: datetime | None

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and self.watch.today() >= self.deadline


@dataclass
class BatchCounters(Counters):
    """What the engine has done. By shard, `offered` counts the rows it was given, `deferred` the finished rows that a
    full queue sent back.

    `stuck` counts the streams whose rows wait for room or money and are not with the vendor; `batches` are the open
    ones, and `creating_nanousd` is set aside for the one whose create request is open. `refused` says by model why its
    batches are refused, while the model itself goes on; the empty name holds for all models of the provider.
    """

    offered: Counter[int] = field(default_factory=Counter)
    deferred: Counter[int] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    batches: tuple[Batch, ...] = ()
    stuck: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    creating_nanousd: int = 0

    def refuse(self, model: str, error: BatchRefused) -> None:
        """Note that a model takes no batches, or that the endpoint has no batch API at all."""
        whose = "" if isinstance(error, NoBatchApi) else model
        if whose not in self.refused:
            self.refused[whose] = str(error)
            self.notes.append(
                f"{model} cannot be asked by batch: {error}; with `mode: auto` its calls go online, at the online "
                "price, with `mode: batch` they stay open"
            )

    def why_refused(self, model: str) -> str | None:
        """Why a model's batches are refused; None where they are not."""
        return self.refused.get(model) or self.refused.get("")

    def closed(self, model: str) -> str | None:
        """Why nothing more may be sent to a model by batch."""
        return self.stops.get(model) or self.stops.get("") or self.why_refused(model)

    @property
    def doubts(self) -> int:
        """Batches of which it is not known whether the vendor made them."""
        return sum(batch.phase is Phase.IN_DOUBT for batch in self.batches)


@dataclass(eq=False)
class Home:
    """Where rows are on their way: a pack, then a batch, whose keys are known. `waiting` counts rows by shard.

    `is_own` says that this run pays for the batch.
    """

    model: str
    keys: KeySet | None = None
    waiting: Counter[int] = field(default_factory=Counter)
    is_own: bool = True
    nanousd: int = 0
    harvest: Harvest | None = None
    since: float = 0.0
    due: float = 0.0
    looks: int = 0
    cancelled: bool = False
    counters: tuple[int, ...] | None = None
    still_since: float = 0.0

    def is_still(self, counters: tuple[int, ...] | None, now: float, still_s: float) -> bool:
        """Whether an ended batch stays as it is: its counters have not changed for so long, or never change."""
        if counters is None:
            return True
        if counters != self.counters:
            self.counters, self.still_since = counters, now
        return now - self.still_since >= still_s

    def interval_s(self, batch: Batch, now: float, policy: BatchPolicy) -> float:
        """How long until its batch is asked after again: a tenth of its age, between the account's two bounds.

        The jitter depends on the batch and the number of looks alone.
        """
        longest_s = policy.longest_poll_s if self.counters is None else policy.still_s
        wait_s = max(policy.poll_s, min(longest_s, (now - self.since) / 10))
        return wait_s * (0.9 + 0.2 * jitter(batch.name, self.looks))

    def part(self, rows: Iterable[PackedRow]) -> Home:
        """A new home for some of its rows, which no longer wait here."""
        moved = Counter(row.shard for row in rows)
        self.waiting -= moved
        return Home(self.model, waiting=moved)
