"""Limits on the input tokens in a vendor's batch queue, by model: as configured, and as learnt from refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from hab_ray.catalog.models import ModelEntry
from hab_ray.errors import RateLimited

MIN_TOKENS = 500
GROWTH = 10
QUEUE_PATIENCE_S = 900.0


class EnqueuedTokenLimits:
    """The batch queues of one provider account, by model. `clock` gives monotonic seconds.

    After a refusal, the limit is what the queue held; for an empty queue, half of the refused batch. It grows by a
    tenth with every batch that succeeds. A full queue is tried again after `patience_s`, unless the vendor says when.
    """

    def __init__(self, models: Mapping[str, ModelEntry], patience_s: float, clock: Callable[[], float]) -> None:
        self._models, self._patience_s, self._clock = models, patience_s, clock
        self._learnt: dict[str, int] = {}
        self._full_until: dict[str, float] = {}
        self._refused_since: dict[str, float] = {}

    def limit(self, model: str) -> float:
        """Return the most estimated tokens that a model's open batches may hold together."""
        limits = self._models[model].limits
        configured = limits.enqueued_tokens if limits and limits.enqueued_tokens else inf
        return min(configured, self._learnt.get(model, inf))

    def has_room(self, model: str, enqueued: int, tokens: int) -> bool:
        """Return whether a batch may be sent in addition to the open ones. A batch of its own always fits."""
        fits = enqueued == 0 or enqueued + tokens <= self.limit(model)
        return fits and self._clock() >= self._full_until.get(model, -inf)

    def pause(self, model: str, error: RateLimited) -> None:
        """Send no batch while the queue is full: until the vendor's wait is over, or an open batch ends."""
        self._full_until[model] = self._clock() + (error.retry_after_s or self._patience_s)

    def note_refusal(self, model: str) -> tuple[bool, bool]:
        """Note that the queue of a paused model is full though none of its batches is open.

        Return whether this refusal is the first in a row, and whether it is the last before giving up.
        """
        is_first, since = model not in self._refused_since, self._refused_since.setdefault(model, self._clock())
        return is_first, self._full_until[model] - since > QUEUE_PATIENCE_S

    def note_accepted(self, model: str) -> None:
        """Note that the vendor creates batches of this model, or has open ones."""
        self._refused_since.pop(model, None)

    def note_overflow(self, model: str, enqueued: int, tokens: int, error: RateLimited) -> None:
        """Lower the limit: a batch of this many tokens had no room beside `enqueued` tokens of open batches."""
        smaller = max(enqueued, tokens // 2, MIN_TOKENS)
        self._learnt[model] = smaller
        if enqueued or tokens <= smaller:
            self.pause(model, error)

    def note_success(self, model: str) -> None:
        """Raise a learnt limit by a tenth."""
        if model in self._learnt:
            self._learnt[model] += self._learnt[model] // GROWTH

    def note_end(self, model: str) -> None:
        """End a pause: an open batch has ended and left room."""
        self._full_until.pop(model, None)
