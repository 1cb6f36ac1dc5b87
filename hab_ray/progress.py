"""The progress of a run: the figures of the live view, of log/progress.json and of the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from pydantic import TypeAdapter

from hab_ray.bounds import Finite, Int64
from hab_ray.errors import Exit
from hab_ray.visible import log_json, one_line

PROGRESS = "log/progress.json"


@dataclass(frozen=True)
class StageProgress:
    """Row counts of one model at one stage. `total` grows while earlier stages run; `done` includes `failed`.

    `answered` is the part of `done` that this process completed; the rest was in the store.
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
    """A batch at a vendor, created at `since`, with `nanousd` reserved for it."""

    name: str
    id: str | None
    model: str
    rows: Int64
    nanousd: Int64
    since: str
    state: str


@dataclass(frozen=True)
class BudgetStatus:
    """A run's money in nano-dollars.

    `spent` is by all its processes, with calls of unknown cost at their maximum; it includes `stranded`, which was
    granted before an unclean end and is not accounted for. `reserved` is for calls and batches in flight. `waits_for`
    is the smallest reservation that waits for reserved money to be released, or 0. The budget holds under `assumption`;
    "" means that it is a hard limit.
    """

    spent: Int64
    reserved: Int64
    budget: Int64
    stranded: Int64 = 0
    waits_for: Int64 = 0
    assumption: str = ""


@dataclass(frozen=True)
class Draining:
    """A run that is stopping: it waits up to `left_s` seconds for `calls` in flight, which may cost `nanousd`."""

    left_s: Finite
    calls: Int64
    nanousd: Int64


@dataclass(frozen=True)
class LastEnd:
    """The exit status of a process of `hab run`, and its meaning."""

    status: Int64
    meaning: str

    @classmethod
    def by(cls, exit: Exit) -> LastEnd:
        """Create the end for an exit status."""
        return cls(int(exit), exit.meaning)


@dataclass(frozen=True)
class Progress:
    """A run at one moment.

    - `calls` were sent by this process and cost `cost_nanousd`. `earlier_nanousd` is what earlier processes of the run
      paid.
    - `money` is set if the sweep has a budget, `draining` after the first signal, `end` after an orderly end.
    - `outages` describes the outage of each provider that cannot be reached.
    - `driver_cpu_s` is the CPU time of the driver's thread, without the executors.
    - `store` is the run's store as given; `computed` has the stages that make no calls.
    - `choosing` is the number of dimensions whose tests are being chosen, which makes no calls and may take minutes.
      `computing` names the stages of packages, with these, that are computing rows.

    `hab status` needs only this and the holder of the store, so it reads few files however large the run is.
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
    choosing: Int64 = 0
    computing: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """Return the content of log/progress.json."""
        return log_json(asdict(self), indent=1).encode()


_PROGRESS = TypeAdapter(Progress)


def read_progress(data: bytes) -> Progress:
    """Parse the content of a log/progress.json; raise ValueError if the file is damaged, or was edited by hand."""
    return _PROGRESS.validate_json(data)


@dataclass(frozen=True)
class RowReason:
    """A row without an answer at the end of a run, or with a permanent failure, and the reason."""

    file: str
    row_id: str
    reason: str


@dataclass(frozen=True)
class FailedRows:
    """Permanently failed rows of a stage and a model, subject or judge, with the most frequent reasons.

    `final` is the part of `count` that is never sent again, because the tests are chosen without it.
    """

    stage: str
    name: str
    count: int
    reasons: tuple[tuple[str, int], ...]
    final: int = 0

    def __str__(self) -> str:
        reasons = "; ".join(f"{count:,} times {one_line(reason)}" for reason, count in self.reasons)
        failed = f"{self.stage}: {self.count:,} rows of {self.name} failed permanently and are not retried: {reasons}."
        if self.final == self.count:
            return f"{failed} The tests are chosen without them"
        but = f", but for {self.final:,} that tests are chosen without" if self.final else ""
        return f"{failed} Once the cause is fixed, the same command with --retry-failed sends them again{but}"


@dataclass(frozen=True)
class RunEnd:
    """The end of a run.

    `stops` has the reason why a provider, or a model of it, was stopped. `calls` of this process cost `cost_nanousd`,
    and those without an answer at most `lost_nanousd` more. `batches` are still at the vendors. `cut` counts, by model,
    the calls cut off without an answer, which count as spent with `cut_nanousd`. `failed` rows are sent again only with
    --retry-failed. `without_ok` names those that have rows but none that can be used; such a run is not complete.
    """

    exit: Exit
    unanswered: tuple[RowReason, ...]
    stops: Mapping[str, str]
    notes: tuple[str, ...]
    calls: int
    cost_nanousd: int
    lost_nanousd: int = 0
    money: BudgetStatus | None = None
    batches: tuple[BatchProgress, ...] = ()
    cut: Mapping[str, int] = field(default_factory=dict)
    cut_nanousd: int = 0
    failed: tuple[FailedRows, ...] = ()
    without_ok: tuple[str, ...] = ()
