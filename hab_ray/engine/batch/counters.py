"""What a batch engine has done so far."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hab_ray.engine.jobs import Counters
from hab_ray.engine.ledger import Batch, Phase
from hab_ray.providers.batching import BatchRefused, NoBatchApi


@dataclass
class BatchCounters(Counters):
    """What the engine has done. By shard, `offered` counts the rows it was given, `deferred` the finished rows that a
    full queue sent back.

    `blocked_streams` counts the streams whose rows wait for room or money and are not with the vendor; `batches` are
    the open ones, of which `ending` have ended at the vendor or, left by an earlier process, may have;
    `creating_nanousd` is set aside for the one whose create request is open. `refused` says by model why its batches
    are refused, while the model itself goes on; the empty name holds for all models of the provider.
    """

    offered: Counter[int] = field(default_factory=Counter)
    deferred: Counter[int] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    batches: tuple[Batch, ...] = ()
    ending: int = 0
    blocked_streams: int = 0
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
