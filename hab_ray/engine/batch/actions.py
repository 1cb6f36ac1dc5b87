"""The actions on a batch. `decisions.next_action` chooses one, the engine performs it."""

from dataclasses import dataclass

from hab_ray.errors import CallError, ProviderError, RateLimited
from hab_ray.providers.batching import BadRows, BatchStatus, InDoubt, ResultsGone


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until this time of the monotonic clock; infinity means for ever."""

    until: float


@dataclass(frozen=True, slots=True)
class AwaitRoom:
    """Wait until the vendor's queue has room."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """Reserve the money for the batch."""


@dataclass(frozen=True, slots=True)
class FitToBudget:
    """Keep the rows that `nanousd` pays for; others wait for money that closed batches release.

    A row that can cost more on its own stays open, for this reason.
    """

    nanousd: int
    reason: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Return the rows to the caller, and the money to the budget."""


@dataclass(frozen=True, slots=True)
class StoreLines:
    """Number the batch and store its lines."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Write an intent and send the create request."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Create the batch again after `after_s` seconds."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Requeue:
    """Close this batch and let its rows wait for room in the vendor's queue."""

    error: RateLimited


@dataclass(frozen=True, slots=True)
class Split:
    """Close this batch and pack its rows into smaller ones."""

    error: BadRows


@dataclass(frozen=True, slots=True)
class Refuse:
    """Close this batch, return its rows, and stop the model or provider if the error concerns it."""

    error: CallError


@dataclass(frozen=True, slots=True)
class LookFor:
    """Search the vendor's list for a batch whose create request got no clear answer."""

    error: InDoubt


@dataclass(frozen=True, slots=True)
class AskOwner:
    """Ask the vendor which account the API key belongs to."""


@dataclass(frozen=True, slots=True)
class RefuseOwner:
    """End the run: the API key belongs to another account than the one that sent the batch."""

    owner: str


@dataclass(frozen=True, slots=True)
class Look:
    """Read the vendor's list of batches once and search it for this one."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Adopt a batch from the vendor's list; not `certain` if only its number of rows matches."""

    batch_id: str
    certain: bool


@dataclass(frozen=True, slots=True)
class LeaveInDoubt:
    """Leave the batch to the next run; if there is a `reason`, stop the provider for it."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class Poll:
    """Request the batch's status."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Ask the vendor to cancel the batch. `reason` is the predicate of a sentence about it."""

    reason: str


@dataclass(frozen=True, slots=True)
class RecordEnd:
    """Record in the ledger that the batch has ended."""

    status: BatchStatus


@dataclass(frozen=True, slots=True)
class Collect:
    """Read the results and store them."""

    status: BatchStatus


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Close a batch that the vendor no longer has, with the results collected so far."""

    error: ResultsGone


@dataclass(frozen=True, slots=True)
class StopProvider:
    """Send no further request to this provider."""

    error: ProviderError


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Delete the batch's files at the vendor."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the batch and leave it untouched at the vendor."""


PackedAction = AwaitRoom | Reserve | FitToBudget | GiveBack
FundedAction = StoreLines | GiveBack
SubmittingAction = Submit | Wait | GiveBack | LeaveInDoubt
CreateFailedAction = Retry | Requeue | Split | Refuse | LookFor | LeaveInDoubt
OutcomeUnknownAction = AskOwner | RefuseOwner | Look | Wait | Adopt | Retry | LeaveInDoubt
AtVendorAction = Poll | Cancel | Wait | RecordEnd | GiveUp | StopProvider
EndedAction = Poll | Wait | Collect | GiveUp | StopProvider
CollectedAction = CleanUp | Close
Action = (
    PackedAction
    | FundedAction
    | SubmittingAction
    | CreateFailedAction
    | OutcomeUnknownAction
    | AtVendorAction
    | EndedAction
    | CollectedAction
)
