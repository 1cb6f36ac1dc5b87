"""Limits on the input tokens in a vendor's batch queue, by model: as configured, and as learnt from refusals."""

from collections.abc import Callable, Mapping
from math import inf
from typing import NamedTuple

from hab_ray.catalog.models import ModelEntry
from hab_ray.errors import RateLimited
from hab_ray.providers.batching import QueueFull

MIN_TOKENS = 500
GROWTH = 10
QUEUE_PATIENCE_S = 900.0


class Refusal(NamedTuple):
    """A refusal without an open batch of ours: whether it is the first in a row, and the last before giving up."""

    is_first: bool
    is_last: bool


class EnqueuedTokenLimits:
    """The batch queues of one provider account, by model. `clock` gives monotonic seconds.

    After a refusal, the limit is what the queue held. If none of our batches was in it, the limit is what the vendor
    states, then half of the refused batch, but not less than half of what the vendor states, or than a batch that
    succeeded: then other programs fill the queue. It grows by a tenth with every batch that succeeds. A full queue is
    tried again after `patience_s`, unless the vendor says when.
    """

    def __init__(self, models: Mapping[str, ModelEntry], patience_s: float, clock: Callable[[], float]) -> None:
        self._models, self._patience_s, self._clock = models, patience_s, clock
        self._learnt: dict[str, int] = {}
        self._full_until: dict[str, float] = {}
        self._refused_since: dict[str, float] = {}
        self._filled_since: dict[str, float] = {}
        self._largest: dict[str, int] = {}

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

    def note_refusal(self, model: str) -> Refusal:
        """Note that the vendor creates no batch of a paused model though none of its batches is open."""
        return self._refusal(model, self._refused_since)

    def note_accepted(self, model: str) -> None:
        """Note that the vendor creates batches of this model, or has open ones."""
        self._refused_since.pop(model, None)

    def note_overflow(self, model: str, enqueued: int, tokens: int, error: RateLimited) -> Refusal | None:
        """Lower the limit: a batch of this many tokens had no room beside `enqueued` tokens of open batches.

        Return a refusal if none is open and a smaller batch would not fit either.
        """
        if enqueued:
            self._filled_since.pop(model, None)
            self._learnt[model] = max(enqueued, tokens // 2, MIN_TOKENS)
            self.pause(model, error)
            return None
        stated = (error.limit if isinstance(error, QueueFull) else None) or 0
        smallest = max(stated // 2, self._largest.get(model, 0), MIN_TOKENS)
        smaller = stated if 0 < stated < tokens else max(tokens // 2, smallest)
        is_alone = tokens > self._learnt.get(model, tokens)  # only a single row may be larger than the limit
        self._learnt[model] = min(smaller, self._learnt.get(model, smaller))
        if tokens > smaller and not is_alone:
            self._filled_since.pop(model, None)
            return None
        self.pause(model, error)
        return self._refusal(model, self._filled_since)

    def note_success(self, model: str, tokens: int) -> None:
        """Note that a batch of this many tokens was processed, and raise a learnt limit by a tenth."""
        self._filled_since.pop(model, None)
        self._largest[model] = max(tokens, self._largest.get(model, 0))
        if model in self._learnt:
            self._learnt[model] += self._learnt[model] // GROWTH

    def note_end(self, model: str) -> None:
        """End a pause: an open batch has ended and left room."""
        self._full_until.pop(model, None)

    def _refusal(self, model: str, since: dict[str, float]) -> Refusal:
        is_first, first = model not in since, since.setdefault(model, self._clock())
        return Refusal(is_first, is_last=self._full_until[model] - first > QUEUE_PATIENCE_S)
