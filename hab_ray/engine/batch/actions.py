"""What the engine can do about one batch. `decisions.next_action` chooses, the engine performs."""

from __future__ import annotations

from dataclasses import dataclass

from hab_ray.errors import CallError, ProviderError, RateLimited
from hab_ray.providers.batching import BadRows, BatchStatus, InDoubt, ResultsGone


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing before this time of the monotonic clock; never again where it is infinite."""

    until: float


@dataclass(frozen=True, slots=True)
class AwaitRoom:
    """Wait until the vendor's queue has room."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """Set aside the most that the batch can cost."""


@dataclass(frozen=True, slots=True)
class FitToBudget:
    """Keep what `nanousd` pays for. Other rows wait for the money that ends of batches release.

    A row that alone costs more can never be paid for and stays open, for this reason.
    """

    nanousd: int
    reason: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Return the rows to the caller, and the money to the budget."""


@dataclass(frozen=True, slots=True)
class StoreLines:
    """Give the batch a number and store its lines."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Write an intent and send the create request."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Create it once more after so many seconds."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Requeue:
    """Close this batch and have its rows wait for room in the vendor's queue."""

    error: RateLimited


@dataclass(frozen=True, slots=True)
class Split:
    """Close this batch and have its rows packed into smaller ones."""

    error: BadRows


@dataclass(frozen=True, slots=True)
class Refuse:
    """Close this batch, draw the error's consequences for model and provider, and give its rows back."""

    error: CallError


@dataclass(frozen=True, slots=True)
class LookFor:
    """Search the vendor's list for a batch whose create request got no clear answer."""

    error: InDoubt


@dataclass(frozen=True, slots=True)
class AskOwner:
    """Ask the vendor whose the key is."""


@dataclass(frozen=True, slots=True)
class RefuseOwner:
    """End the run: the key belongs to somebody other than the one who sent the batch."""

    owner: str


@dataclass(frozen=True, slots=True)
class Look:
    """Read the vendor's list and compare."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Take a batch of the vendor's list for ours; not `certain` where only its number of rows speaks for it."""

    batch_id: str
    certain: bool


@dataclass(frozen=True, slots=True)
class LeaveInDoubt:
    """Leave it to the next run; where there is a `reason`, stop the provider with it."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class Poll:
    """Ask the vendor for the batch's status."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Ask the vendor to end the batch. `reason` continues "batch x"."""

    reason: str


@dataclass(frozen=True, slots=True)
class RecordEnd:
    """Write into the ledger that the vendor is done."""

    status: BatchStatus


@dataclass(frozen=True, slots=True)
class Collect:
    """Read the results and file them in the store."""

    status: BatchStatus


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Close a batch that the vendor no longer has, with what was collected of it."""

    error: ResultsGone


@dataclass(frozen=True, slots=True)
class StopProvider:
    """Ask this provider nothing more."""

    error: ProviderError


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Delete what the vendor still keeps of the batch."""


@dataclass(frozen=True, slots=True)
class Close:
    """Leave the batch as it is at the vendor; all is done here."""


PackedAction = AwaitRoom | Reserve | FitToBudget | GiveBack
FundedAction = StoreLines | GiveBack
SubmittingAction = Submit | Wait | LeaveInDoubt
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
