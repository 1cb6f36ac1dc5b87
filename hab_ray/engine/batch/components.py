"""What the parts of a batch engine share: what its caller gives it, its books, and the loop that carries a batch on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from hab_ray.catalog.models import BatchPolicy, ModelEntry
from hab_ray.catalog.prices import NANO
from hab_ray.engine.batch.actions import Action
from hab_ray.engine.batch.collect import Results
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.decisions import Now, next_action
from hab_ray.engine.batch.enqueued import EnqueuedTokenLimits
from hab_ray.engine.batch.rows import BatchInFlight, RowsInFlight
from hab_ray.engine.batch.states import Active, BatchState, Packed
from hab_ray.engine.budget.client import BatchBudgetClient
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.engine.clock import utc_now
from hab_ray.engine.ledger import Batch, Ended, Ledger
from hab_ray.errors import CallError, ProviderError
from hab_ray.providers.batching import BatchApi, BatchRefused


@dataclass(frozen=True)
class EngineContext:
    """The surroundings of an engine.

    `epoch` is the number of the store's lease; `guard` raises LeaseStale while nothing may be spent, LeaseLost or
    Interrupted when spending must end. `epochs` are those of this run, the present one included: batches of others are
    collected, not paid for. From `deadline` on, open batches are cancelled and nothing more is sent. `keeps_refusals`
    holds what earlier processes were refused against their models, so that a run that leaves before a batch ends does
    not make the same one at every start. `clock` is monotonic seconds.
    """

    epoch: int
    guard: Callable[[], None]
    budget: BudgetService
    run: str
    epochs: frozenset[int]
    deadline: datetime | None = None
    keeps_refusals: bool = False
    clock: Callable[[], float] = time.monotonic
    today: Callable[[], datetime] = utc_now

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and self.today() >= self.deadline


class Unforeseen(AssertionError):
    """An action that the package's table does not have for this state."""


State = TypeVar("State", bound=Active)


class Performer(Protocol[State]):
    """Performs the actions on batches in some states; see the package's table."""

    @property
    def states(self) -> tuple[type[State], ...]:
        """The states whose actions it performs."""

    async def perform(self, batch: BatchInFlight, state: State, action: Action) -> BatchState | None:
        """The next state; None where nothing is due now. Actions are those that `next_action` chooses for the state."""


@dataclass(frozen=True)
class Components:
    """The vendor's API, the ledger, the money and the rows in flight of one provider account.

    `stopping` is set once the user stops the run: from then on no further request begins. `surprises` says by model
    why what its rows have cost so far tells nothing of the rest: all is set aside that its batches can cost.
    """

    api: BatchApi
    models: Mapping[str, ModelEntry]
    ledger: Ledger
    policy: BatchPolicy
    context: EngineContext
    counters: BatchCounters
    rows: RowsInFlight
    budget: BatchBudgetClient
    limits: EnqueuedTokenLimits
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    surprises: dict[str, str] = field(default_factory=dict)

    async def advance(self, batch: BatchInFlight, performer: Performer[State]) -> None:
        """Perform all that is due for a batch while it is in the performer's states."""
        while isinstance(state := batch.state, performer.states):
            tokens = state.tokens if isinstance(state, Packed) else None
            action = next_action(state, self.now(batch.model, tokens), self.policy)
            after = await performer.perform(batch, state, action)
            if after is None:
                return
            batch.state = after

    def now(self, model: str, tokens: int | None = None) -> Now:
        """What decisions about a batch of this model depend on now; it has so many tokens while it is packed."""
        return Now(
            clock=self.context.clock(),
            today=self.context.today(),
            is_late=self.context.is_late,
            is_stopping=self.stopping.is_set(),
            is_closed=bool(self.counters.closed(model)),
            is_provider_stopped="" in self.counters.stops,
            has_room=tokens is None or self.limits.has_room(model, self.rows.enqueued(model), tokens),
            budget_left=self.budget.left,
        )

    def heed(self, model: str, error: CallError) -> None:
        """Stop what an error concerns that is no single row's: a model's batches, the model, or its provider."""
        if isinstance(error, BatchRefused):
            self.counters.refuse(model, error)
        elif isinstance(error, ProviderError):
            self.stop_provider(str(error))
        else:
            self.counters.stops.setdefault(model, str(error))

    def stop_provider(self, reason: str) -> None:
        """Send nothing more to any model of the provider, and wait for none of its batches."""
        self.counters.stops.setdefault("", reason)
        self.budget.give_up_batches()
        for batch in self.rows.batches:
            self.rows.give_back(batch)

    def note_surprise(self, record: Batch, cost: int) -> None:
        """Compare what a batch of a sample has cost with what was set aside for it."""
        intent = record.intent
        if intent.most_nanousd is None or cost <= intent.nanousd or intent.model in self.surprises:
            return
        self.surprises[intent.model] = (
            f"batch {record.name} cost ${cost / NANO:.4f} and ${intent.nanousd / NANO:.4f} was set aside for it"
        )
        self.counters.notes.append(
            f"{intent.model}: {self.surprises[intent.model]}, which the rows before it made as good as impossible: has "
            "the vendor changed the model or its price? From here on the most that its calls can cost is set aside, "
            "as with `reserve: hard`"
        )

    def not_made(self, batch: BatchInFlight, record: Batch, word: str, problem: str) -> None:
        """Close a batch that the vendor did not make, and return its money."""
        if record.events:
            self.closed(record, word, problem, Results())
            self.budget.collect(batch.nanousd, cost=0, lost=0)
        else:
            self.budget.release(batch.nanousd)

    def closed(self, record: Batch, word: str, problem: str, results: Results) -> Batch:
        """The record of a batch that brings no more than these results, after its last events are written."""
        epoch, today = self.context.epoch, self.context.today
        if record.ended is None:
            record = self.ledger.add(record, Ended(epoch=epoch, at=today(), word=word, problem=problem))
        return self.ledger.add(record, results.event(record.intent.rows, epoch, today()))
