"""How far a run is: the figures of the live view, of log/progress.json and of the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from pydantic import TypeAdapter

from hab_ray.bounds import Finite, Int64
from hab_ray.errors import Exit
from hab_ray.visible import log_json

PROGRESS = "log/progress.json"


@dataclass(frozen=True)
class StageProgress:
    """One model at one stage. `total` grows while earlier stages end; `done` includes `failed`.

    Of the rows done this process has had `answered` since it began; the others were in the store.
    """

    stage: str
    model: str
    total: Int64
    done: Int64
    failed: Int64
    in_flight: Int64
    answered: Int64 = 0


@dataclass(frozen=True)
class BatchProgress:
    """A batch at a vendor. `since` is when it was made; `nanousd` what is set aside for it."""

    name: str
    id: str | None
    model: str
    rows: Int64
    nanousd: Int64
    since: str
    state: str


@dataclass(frozen=True)
class BudgetStatus:
    """A run's money in nano-dollars. `spent` by all its processes so far, calls whose bill is not known at the most
    that they can have cost; of that, `stranded` was granted before an unclean end and is not accounted for. `reserved`
    is for calls and batches under way. `waits_for` is the smallest reservation of calls that are not sent until some of
    that is released; 0 if none waits. `assumption` is that under which the budget holds; "" where it is hard.
    """

    spent: Int64
    reserved: Int64
    budget: Int64
    stranded: Int64 = 0
    waits_for: Int64 = 0
    assumption: str = ""


@dataclass(frozen=True)
class Draining:
    """A run that is being stopped: for so many seconds more it waits for these calls, which may cost so much."""

    left_s: Finite
    calls: Int64
    nanousd: Int64


@dataclass(frozen=True)
class LastEnd:
    """How a process of `hab run` ended: its exit status and what that means."""

    status: Int64
    meaning: str

    @classmethod
    def by(cls, exit: Exit) -> LastEnd:
        """The end with this exit status."""
        return cls(int(exit), exit.meaning)


@dataclass(frozen=True)
class Progress:
    """A run at one moment. `cost_nanousd` is what this process has paid, `calls` what it has sent.

    `money` is there where the sweep has a budget, `draining` from the first signal on, `end` once this process has
    ended in order. `earlier_nanousd` is what earlier processes of the run have paid, as far as they reported it;
    `outages` says of each provider that cannot be reached what is known of that. `driver_cpu_s` is the CPU time of the
    driver's own thread since it began, without the executors. `store` is the run's store, as given; `computed` has the
    stages that make no calls. Together with who holds the store this is all that a status needs, so that a status reads
    few files however large the run is.
    """

    at: str
    elapsed_s: Finite
    stages: tuple[StageProgress, ...]
    calls: Int64
    retries: Int64
    cost_nanousd: Int64
    notes: tuple[str, ...]
    money: BudgetStatus | None = None
    batches: tuple[BatchProgress, ...] = ()
    draining: Draining | None = None
    driver_cpu_s: Finite = 0.0
    store: str | None = None
    computed: tuple[StageProgress, ...] = ()
    end: LastEnd | None = None
    outages: Mapping[str, str] = field(default_factory=dict)
    earlier_nanousd: Int64 = 0

    def to_json(self) -> bytes:
        """As log/progress.json holds it."""
        return log_json(asdict(self), indent=1).encode()


_PROGRESS = TypeAdapter(Progress)


def read_progress(data: bytes) -> Progress:
    """What a log/progress.json holds.

    Raises:
        ValueError: it was damaged, or changed by hand.
    """
    return _PROGRESS.validate_json(data)


@dataclass(frozen=True)
class RowReason:
    """A row that has no answer at the end of a run, or failed for good, and why."""

    file: str
    row_id: str
    reason: str


@dataclass(frozen=True)
class FailedRows:
    """Rows of a stage and a model, subject or judge that failed for good, with their most frequent reasons."""

    stage: str
    name: str
    count: int
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class RunEnd:
    """How a run ended. `stops` says what was stopped and why, by provider or provider and model.

    `batches` are those that are still at the vendors, `cut` the calls by model that were cut off unanswered and count
    as spent with `cut_nanousd`. `failed` rows are sent again with --retry-failed only; `without_ok` says who has
    rows and not one that can be used: such a run is not complete.
    """

    exit: Exit
    unanswered: tuple[RowReason, ...]
    stops: Mapping[str, str]
    notes: tuple[str, ...]
    calls: int
    cost_nanousd: int
    money: BudgetStatus | None = None
    batches: tuple[BatchProgress, ...] = ()
    cut: Mapping[str, int] = field(default_factory=dict)
    cut_nanousd: int = 0
    failed: tuple[FailedRows, ...] = ()
    without_ok: tuple[str, ...] = ()
