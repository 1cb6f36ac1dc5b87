"""One batch at a vendor: what was asked, how far it is, what came of it. The same record for every vendor."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from hab_simulator.asks import Usage
from hab_simulator.batch.faults import Expired, LateResults, OddState, Struck
from hab_simulator.batch.settings import BatchSettings

_WINDOW_S = 86_400.0


class BatchState(StrEnum):
    """How far a batch is; each vendor has its own words for these."""

    VALIDATING = "validating"
    RUNNING = "running"
    CANCELLING = "cancelling"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self in (BatchState.COMPLETED, BatchState.FAILED, BatchState.EXPIRED, BatchState.CANCELLED)


@dataclass(frozen=True, slots=True)
class BatchProblem:
    """Why a batch failed as a whole: the vendor's code, its words, and the line of the input, from 1."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


@dataclass(slots=True)
class LineTally:
    """Lines by what became of them, and the tokens charged. `undone`: expired or cancelled before their turn."""

    succeeded: int = 0
    failed: int = 0
    undone: int = 0
    missing: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    def charge(self, usage: Usage) -> None:
        """Add the tokens of a line."""
        self.input_tokens += usage.input
        self.cached_tokens += usage.cached
        self.output_tokens += usage.output
        self.reasoning_tokens += usage.reasoning


@dataclass(frozen=True)
class Order:
    """A well-formed create request.

    `source` is a file of the lines to be answered, of which the batch keeps a link. `path` is the online path of
    its lines, `tag` what the client finds it again by (metadata, display name), `details` what only the vendor
    itself understands. `rows` and `tokens` (by model) are None where the vendor counts only later.
    """

    account: str
    source: Path
    path: str
    model: str
    tag: Mapping[str, str] | str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None
    tokens: Mapping[str, int] | None = None


@dataclass(slots=True, eq=False)
class Job:
    """A batch. `times` holds when each state began, by the vendor's clock; `due` when it ends if nothing happens.

    `tokens` are the input tokens that count against the model's queue until the batch has ended. `output` and
    `errors` are the files of results, where there are any.
    """

    id: str
    order: Order
    settings: BatchSettings
    struck: Struck
    folder: Path
    due: float
    model: str
    foreign: bool = False
    deleted: bool = False
    hidden_until: float = 0.0
    state: BatchState = BatchState.VALIDATING
    rows: int = 0
    tokens: Mapping[str, int] | None = None
    times: dict[BatchState, float] = field(default_factory=dict)
    tally: LineTally = field(default_factory=LineTally)
    problems: tuple[BatchProblem, ...] = ()
    output: Path | None = None
    errors: Path | None = None
    polls: int = 0
    polls_after_end: int = 0
    downloads: int = 0
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def account(self) -> str:
        return self.order.account

    @property
    def output_id(self) -> str:
        """The id of the file of results."""
        return f"batch-{self.id}-output"

    @property
    def errors_id(self) -> str:
        """The id of the file of failed lines, where there is one of its own."""
        return f"batch-{self.id}-errors"

    @property
    def created(self) -> float:
        """When it was made, in seconds since 1970."""
        return self.times[BatchState.VALIDATING]

    @property
    def expires(self) -> float:
        """When the vendor gives it up: a day after it was made, or when a fault has it expire."""
        return self.due if self.struck.find(Expired) else self.created + _WINDOW_S

    @property
    def ended_at(self) -> float | None:
        """When it ended, if it did."""
        return self.times[self.state] if self.state.ended else None

    @property
    def shows_odd_state(self) -> bool:
        """Whether the client is to see a state that no documentation knows."""
        odd = self.struck.find(OddState)
        return odd is not None and 0 < self.polls <= odd.polls

    @property
    def withholds_results(self) -> bool:
        """Whether it has ended and does not show yet where its results are."""
        late = self.struck.find(LateResults)
        return late is not None and self.state.ended and (late.polls is None or self.polls_after_end <= late.polls)

    def enter(self, state: BatchState, at: float) -> None:
        self.state = state
        self.times[state] = at

    def cancel(self, at: float) -> None:
        """Ask it to end; a batch that has ended or is about to stays as it is."""
        if self.state in (BatchState.VALIDATING, BatchState.RUNNING):
            self.enter(BatchState.CANCELLING, at)
            self.stop.set()

    def progress(self, now: float) -> float:
        """The share of its time that has passed."""
        until = self.times.get(BatchState.CANCELLING, now)
        span = self.due - self.created
        return 1.0 if span <= 0 else min(1.0, max(0.0, (until - self.created) / span))

    def reading(self) -> dict[str, Any]:
        """Wire JSON of `GET /_batches`."""
        return {
            "account": self.account,
            "id": self.id,
            "tag": self.order.tag,
            "model": self.model,
            "rows": self.rows,
            "state": self.state,
            "foreign": self.foreign,
            "deleted": self.deleted,
            "polls": self.polls,
        }
