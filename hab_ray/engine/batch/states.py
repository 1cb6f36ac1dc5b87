"""What a batch can be, from packed rows to results in the store. See the package's table.

`record` is what the ledger has of the batch. Times named `at`, `since` and `due` are seconds of the monotonic clock
unless they are datetimes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import inf

from hab_ray.engine.ledger import Batch
from hab_ray.errors import CallError, FailureKind
from hab_ray.providers.batching import BadRows, BatchStatus


@dataclass(frozen=True, slots=True)
class Packed:
    """Rows written as lines, with no money set aside. `refusal` says why the budget cannot pay for all of them."""

    rows: int
    tokens: int
    nanousd: int
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Funded:
    """Packed rows with money set aside, waiting for their turn to be created."""


@dataclass(frozen=True, slots=True)
class Submitting:
    """A batch to be created, not before `at`: an intent goes into the ledger, then one create request to the vendor.

    A recovered batch was packed by an earlier process: its rows can be given back, but not be packed differently.
    """

    record: Batch
    attempt: int = 1
    at: float = -inf
    is_recovered: bool = False


@dataclass(frozen=True, slots=True)
class CreateFailed:
    """The create request of the last intent brought no id, but this error."""

    record: Batch
    attempt: int
    error: CallError
    is_recovered: bool = False


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one look through the vendor's list showed at this time.

    `proven` is the id of the batch that is ours beyond doubt; `unproven` are those of which nothing tells yet.
    """

    at: datetime
    proven: str | None = None
    unproven: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """In doubt: the vendor may have made the batch or not, and its list is searched.

    `owner` is whose the key is now, None before the vendor was asked. `foreign` are ids whose results have shown that
    they are not ours; `empty_listings` counts the looks in a row that found no candidate.
    """

    record: Batch
    attempt: int = 0
    is_recovered: bool = False
    owner: str | None = None
    sighting: Sighting | None = None
    foreign: frozenset[str] = frozenset()
    empty_listings: int = 0
    look_at: float = -inf


@dataclass(frozen=True, slots=True)
class LookFailed:
    """In doubt, and the vendor's list cannot be read."""

    record: Batch
    error: CallError


@dataclass(frozen=True, slots=True)
class Abandoned:
    """In doubt, and left to the next run, which looks for it at the vendor."""

    record: Batch


@dataclass(frozen=True, slots=True)
class Malformed:
    """The vendor made no batch because of some of its rows."""

    error: BadRows


@dataclass(frozen=True, slots=True)
class Polls:
    """What polling a batch has shown.

    `since` is when this process first knew the batch to be at the vendor, `at` the last answer, `due` the next poll.
    `ended` is the last status if it said that the batch has ended; `counters` are those of the last such status that
    had any, unchanged since `still_since`; `still_count` polls in a row have shown the end, and these counters. `error`
    is what the last request for status or results ended with.
    """

    since: float
    due: float
    at: float = -inf
    count: int = 0
    ended: BatchStatus | None = None
    counters: tuple[int, ...] | None = None
    still_since: float = 0.0
    still_count: int = 0
    error: CallError | None = None

    @property
    def are_of_an_end(self) -> bool:
        """Whether an end was seen and no trouble since, or nothing was asked yet of one that may have ended."""
        if self.count == 0:
            return self.due <= self.since
        return self.still_count > 0 and (self.error is None or self.error.kind is FailureKind.WITHHELD)


@dataclass(frozen=True, slots=True)
class AtVendor:
    """The vendor works on it. After a cancel request failed, none is sent before `cancel_at`."""

    record: Batch
    batch_id: str
    polls: Polls
    is_cancelled: bool = False
    cancel_at: float = -inf


@dataclass(frozen=True, slots=True)
class Ended:
    """The ledger says that the vendor is done with it; its results are to be read."""

    record: Batch
    batch_id: str
    polls: Polls


@dataclass(frozen=True, slots=True)
class Collected:
    """Its results are in the store. What the vendor keeps of it may be deleted where it surely `is_ours`."""

    record: Batch
    status: BatchStatus
    is_ours: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing is left to do in this process; its rows are given back or finished."""


Unsettled = Funded | Submitting | CreateFailed | OutcomeUnknown | LookFailed
Sent = AtVendor | Ended | Collected
Active = Packed | Unsettled | Sent
BatchState = Packed | Malformed | Unsettled | Abandoned | Sent | Closed
