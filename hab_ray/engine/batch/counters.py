"""The counters of a batch engine."""

from collections import Counter
from dataclasses import dataclass, field

from hab_ray.engine.jobs import Counters
from hab_ray.engine.ledger import Batch, Phase
from hab_ray.providers.batching import BatchRefused, NoBatchApi


@dataclass
class BatchCounters(Counters):
    """A batch engine's counters. By shard, `offered` counts its rows, `deferred` those returned by a full queue.

    `blocked_streams` counts streams that wait for room or money. `batches` are open; `ending` of them, which this run
    pays or waits for, have ended at the vendor or may have, if an earlier process left them. `creating_nanousd` is
    reserved for the batch whose create request is open. `refused` says by model why its batches are refused, though it
    may be used online; the empty name stands for all models of the provider.
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
        """Record that a model accepts no batches, or that the endpoint has no batch API at all."""
        scope = "" if isinstance(error, NoBatchApi) else model
        if scope not in self.refused:
            self.refused[scope] = str(error)
            self.notes.append(
                f"{model} cannot be asked by batch: {error}; with `mode: auto` its calls go online, at the online "
                "price; with `mode: batch` they stay open"
            )

    def why_refused(self, model: str) -> str | None:
        """Return why a model's batches are refused; None if they are not."""
        return self.refused.get(model) or self.refused.get("")

    def closed(self, model: str) -> str | None:
        """Return why nothing more may be sent to a model by batch; None if it may."""
        return self.stops.get(model) or self.stops.get("") or self.why_refused(model)

    @property
    def doubts(self) -> int:
        """The number of batches in doubt: the vendor may or may not have created them."""
        return sum(batch.phase is Phase.IN_DOUBT for batch in self.batches)
