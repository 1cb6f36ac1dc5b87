"""How many input tokens of each model a vendor's batch queue takes at once: as configured, and as refusals teach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

from hab_ray.catalog.models import ModelEntry
from hab_ray.errors import RateLimited

MIN_TOKENS = 500
GROWTH = 10
QUEUE_PATIENCE_S = 900.0


@dataclass(frozen=True)
class Refusals:
    """Whether a refusal for want of room is the first in a row, and the last that is waited for."""

    is_first: bool
    is_last: bool


class EnqueuedTokenLimits:
    """The batch queues of one provider account, by model. `clock` is monotonic seconds, `patience_s` the usual wait.

    What was taken before a refusal is known to fit; where nothing was, half of the refused batch is tried, and a
    tenth more after every batch that goes through.
    """

    def __init__(self, models: Mapping[str, ModelEntry], patience_s: float, clock: Callable[[], float]) -> None:
        self._models, self._patience_s, self._clock = models, patience_s, clock
        self._learnt: dict[str, int] = {}
        self._full_until: dict[str, float] = {}
        self._refused_since: dict[str, float] = {}

    def limit(self, model: str) -> float:
        """The most estimated tokens that a model's open batches may hold together."""
        limits = self._models[model].limits
        configured = limits.enqueued_tokens if limits and limits.enqueued_tokens else inf
        return min(configured, self._learnt.get(model, inf))

    def has_room(self, model: str, enqueued: int, tokens: int) -> bool:
        """Whether a batch may be tried beside those that are open; alone it always may."""
        fits = enqueued == 0 or enqueued + tokens <= self.limit(model)
        return fits and self._clock() >= self._full_until.get(model, -inf)

    def wait(self, model: str, error: RateLimited) -> None:
        """The vendor made no batch for want of room: try again later, or when one ends."""
        wait_s = self._patience_s if error.retry_after_s is None else error.retry_after_s
        self._full_until[model] = self._clock() + wait_s

    def refused(self, model: str) -> Refusals:
        """The vendor made no batch for want of room though none of this model is open; it is being waited for."""
        is_first, since = model not in self._refused_since, self._refused_since.setdefault(model, self._clock())
        return Refusals(is_first, is_last=self._full_until[model] - since > QUEUE_PATIENCE_S)

    def made(self, model: str) -> None:
        """The vendor makes batches of this model, or has open ones."""
        self._refused_since.pop(model, None)

    def overflowed(self, model: str, enqueued: int, tokens: int, error: RateLimited) -> None:
        """A batch of so many tokens had no room beside those that are open."""
        smaller = max(enqueued, tokens // 2, MIN_TOKENS)
        self._learnt[model] = smaller
        if enqueued or tokens <= smaller:
            self.wait(model, error)

    def passed(self, model: str) -> None:
        if model in self._learnt:
            self._learnt[model] += self._learnt[model] // GROWTH

    def ended(self, model: str) -> None:
        self._full_until.pop(model, None)
