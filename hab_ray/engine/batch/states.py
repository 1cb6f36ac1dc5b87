"""The states of a batch, from packed rows to results in the store; see the package's table.

`record` is the batch's record in the ledger. Times named `at`, `since` and `due` are seconds of the monotonic clock
unless they are datetimes.
"""

from dataclasses import dataclass
from math import inf

from hab_ray.engine.ledger import Batch
from hab_ray.errors import CallError, FailureKind
from hab_ray.providers.batching import BadRows, BatchStatus


@dataclass(frozen=True, slots=True)
class Packed:
    """Rows packed as lines, without a reservation. `refusal` is why the budget cannot pay for all of them."""

    rows: int
    tokens: int
    nanousd: int
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Funded:
    """Packed rows with a reservation, waiting for their turn to be created."""


@dataclass(frozen=True, slots=True)
class Submitting:
    """A batch to be created, not before `at`: first an intent in the ledger, then one create request.

    A recovered batch was packed by an earlier process: its rows can be returned, but not repacked.
    """

    record: Batch
    attempt: int = 1
    at: float = -inf
    is_recovered: bool = False


@dataclass(frozen=True, slots=True)
class CreateFailed:
    """The create request of the last intent failed with this error."""

    record: Batch
    attempt: int
    error: CallError
    is_recovered: bool = False


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one look at the vendor's list showed.

    `proven` is the id of a batch that is certainly ours; `unproven` are ids of batches that may be.
    """

    proven: str | None = None
    unproven: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """In doubt: the vendor may or may not have created the batch, and its list is being searched.

    `owner` is the API key's account, None before the vendor was asked, "" if it does not tell. `foreign` are ids whose
    results are not ours; `empty_listings` counts consecutive looks without a candidate. `error` is why the vendor could
    not be asked. The create request was sent no later than `since`, and the list was last read at `looked_at`.
    """

    record: Batch
    attempt: int = 0
    is_recovered: bool = False
    owner: str | None = None
    sighting: Sighting | None = None
    foreign: frozenset[str] = frozenset()
    empty_listings: int = 0
    look_at: float = -inf
    error: CallError | None = None
    since: float = inf
    looked_at: float = -inf


@dataclass(frozen=True, slots=True)
class Abandoned:
    """In doubt, and left to the next run, which searches for it at the vendor."""

    record: Batch


@dataclass(frozen=True, slots=True)
class Malformed:
    """The vendor refused the batch because of some of its rows."""

    error: BadRows


@dataclass(frozen=True, slots=True)
class Polls:
    """The results of polling a batch.

    `since` is when this process first knew the batch to be at the vendor, `at` the last answer, `due` the next poll.
    `ended` is the last status if the batch has ended. `counters` come from the latest such status that had any, and
    have not changed since `still_since`; the last `still_count` polls showed the end with these counters. `error` is
    the error of the last request for status or results; `unknown_since` is when the vendor, in its last answers, first
    did not know the batch, and `failing_since` when, in requests since the last answer, the first one failed.
    `is_shown` means that the vendor has shown it to the key of this process.
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
    unknown_since: float = inf
    failing_since: float = inf
    is_shown: bool = False

    @property
    def show_end(self) -> bool:
        """Whether the last poll showed an end, or a batch that may have ended was not polled yet."""
        if self.count == 0:
            return self.due <= self.since
        return self.still_count > 0 and (self.error is None or self.error.kind is FailureKind.WITHHELD)


@dataclass(frozen=True, slots=True)
class AtVendor:
    """The vendor has the batch. After a failed cancel request, the next one is sent no earlier than `cancel_at`."""

    record: Batch
    batch_id: str
    polls: Polls
    is_cancelled: bool = False
    cancel_at: float = -inf


@dataclass(frozen=True, slots=True)
class Ended:
    """The ledger records that the batch has ended; its results are not read yet."""

    record: Batch
    batch_id: str
    polls: Polls


@dataclass(frozen=True, slots=True)
class Collected:
    """Its results are in the store. Its files at the vendor `may_be_deleted` if it is ours and all of it was read."""

    record: Batch
    status: BatchStatus
    may_be_deleted: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing is left to do in this process; its rows are returned or finished."""


Unsettled = Funded | Submitting | CreateFailed | OutcomeUnknown
Sent = AtVendor | Ended | Collected
Active = Packed | Unsettled | Sent
BatchState = Packed | Malformed | Unsettled | Abandoned | Sent | Closed
