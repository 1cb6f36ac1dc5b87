"""What the parts of a batch engine share: its context, its components, and the loop that advances a batch."""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol, TypeVar

from hab_ray.catalog.models import BatchPolicy, ModelEntry
from hab_ray.engine.batch.actions import Action
from hab_ray.engine.batch.collect import Results
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.decisions import Now, next_action
from hab_ray.engine.batch.enqueued import QUEUE_PATIENCE_S, EnqueuedTokenLimits, Refusal
from hab_ray.engine.batch.rows import BatchInFlight, RowsInFlight
from hab_ray.engine.batch.states import Active, BatchState, Packed
from hab_ray.engine.budget.client import BatchBudgetClient
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.engine.clock import utc_now
from hab_ray.engine.ledger import Batch, Ended, Ledger
from hab_ray.errors import CallError, ConfigError, ProviderError, RateLimited
from hab_ray.providers.batch_http import same_owner
from hab_ray.providers.batching import BatchApi, BatchRefused
from hab_ray.visible import usd


def random_tag() -> str:
    """Draw the tag that identifies a batch in the vendor's list."""
    return f"hab-{secrets.token_hex(12)}"


@dataclass(frozen=True)
class EngineContext:
    """What the caller of an engine provides.

    `epoch` is that of the store's lease; `guard` raises LeaseStale while nothing may be spent, LeaseLost or Interrupted
    once spending must end. `epochs` are this run's, including the current one: batches of other epochs are collected
    but not paid for. At `deadline`, the engine cancels this run's open batches and sends nothing more. With
    `keeps_refusals`, a model or provider that refused a batch of an earlier process, or its rows, gets no further one:
    a run that leaves before its batches end would otherwise send the same one at every start. `fingerprint` is that of
    the account's key. `is_vendors`: the address is the vendor's own, which certainly has batches. `clock` gives
    monotonic seconds; `new_tag` must be unique.
    """

    epoch: int
    guard: Callable[[], None]
    budget: BudgetService
    run: str
    epochs: frozenset[int]
    fingerprint: str
    deadline: datetime | None = None
    keeps_refusals: bool = False
    is_vendors: bool = False
    clock: Callable[[], float] = time.monotonic
    today: Callable[[], datetime] = utc_now
    new_tag: Callable[[], str] = random_tag

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and self.today() >= self.deadline


class UnexpectedAction(AssertionError):
    """An action that the package's table does not list for this state."""


State = TypeVar("State", bound=Active)


class Performer(Protocol[State]):
    """Performs the actions on batches in some states; see the package's table."""

    @property
    def states(self) -> tuple[type[State], ...]:
        """The states whose actions it performs."""

    async def perform(self, batch: BatchInFlight, state: State, action: Action) -> BatchState | None:
        """Perform the action that `next_action` chose for the state; return the next state, None if nothing is due."""


@dataclass(frozen=True)
class Components:
    """The vendor's API, the ledger, the money and the rows in flight of one provider account.

    Once the user stops the run, `stopping` is set and no further request begins. `overruns` says by model which batch
    cost more than its bound: from then on, its batches reserve the most that they can cost.
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
    overruns: dict[str, str] = field(default_factory=dict)

    async def advance(self, batch: BatchInFlight, performer: Performer[State]) -> None:
        """Perform every action that is due for a batch while it is in the performer's states."""
        while isinstance(state := batch.state, performer.states):
            tokens = state.tokens if isinstance(state, Packed) else None
            now = self.now(batch.model, tokens)
            if not batch.is_own:  # the deadline is this run's, not that of the run that pays for the batch
                now = replace(now, is_late=False)
            action = next_action(state, now, self.policy)
            next_state = await performer.perform(batch, state, action)
            if next_state is None:
                return
            batch.state = next_state

    def now(self, model: str, tokens: int | None = None) -> Now:
        """Return the facts that decide about a batch of this model now; `tokens` are its own while it is packed."""
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

    def note(self, text: str) -> None:
        """Show the user a note on the account."""
        self.counters.notes.append(f"{self.ledger.provider}: {text}")

    def apply_error(self, model: str, error: CallError) -> None:
        """Stop what an error rules out: batches of a model, the model, or its provider."""
        if isinstance(error, BatchRefused):
            self.counters.refuse(model, error)
        elif isinstance(error, ProviderError):
            self.stop_provider(str(error))
        else:
            self.counters.stops.setdefault(model, str(error))

    def apply_refusal(self, model: str, refusal: Refusal, cause: str, error: RateLimited) -> None:
        """Tell of the first of many refusals of a model, and send it no more batches after the last."""
        minutes = round(QUEUE_PATIENCE_S / 60)
        if refusal.is_last:
            reason = f"{cause} for {minutes} minutes, or asks to wait longer: {error}"
            self.apply_error(model, BatchRefused(reason))
        elif refusal.is_first:
            self.counters.notes.append(f"{model}: {cause}, and is asked again for {minutes} minutes: {error}")

    def require_account(self, record: Batch, owner: str) -> None:
        """Raise ConfigError if the API key may belong to another account than the one that a batch was sent to.

        `owner` is the key's. Two keys may belong to different accounts unless the vendor names one project for both.
        """
        intent = record.intent
        without = (
            f"delete the folder {self.ledger.folder_of(record.number)} of the store: its rows are then sent and paid "
            "for again, and what it may have cost counts in no budget"
        )
        if not same_owner(owner, intent.owner):
            raise ConfigError(
                f"provider {record.provider}: batch {record.name} was sent to organisation {intent.owner}, and "
                f"the key now belongs to {owner}; use a key of the first one until its batches are collected. If there "
                f"is none any more, {without}"
            )
        names_project = "/" in owner and "/" in intent.owner
        if intent.fingerprint not in (None, self.context.fingerprint) and not names_project:
            raise ConfigError(
                f"provider {record.provider}: the vendor does not show batch {record.name} to the present key, and it "
                "was sent with another one, or to another `url:`; use that key, or one of the same project, and that "
                "address until the batch is collected. If there is none any more, or the batch is gone there too, "
                f"{without}"
            )

    def stop_provider(self, reason: str) -> None:
        """Send nothing more to any model of the provider, and wait for none of its batches."""
        self.counters.stops.setdefault("", reason)
        self.budget.give_up_batches()
        for batch in self.rows.batches:
            self.rows.give_back(batch)

    def check_overrun(self, record: Batch, cost: int) -> None:
        """Note it if a batch with a sampled bound has cost more than its reservation."""
        intent = record.intent
        if intent.most_nanousd is None or cost <= intent.nanousd or intent.model in self.overruns:
            return
        self.overruns[intent.model] = (
            f"batch {record.name} cost {usd(cost)}, but only {usd(intent.nanousd)} was reserved for it"
        )
        self.counters.notes.append(
            f"{intent.model}: {self.overruns[intent.model]}; after the rows before it, that was all but impossible: "
            "has the vendor changed the model or its price? From here on the most that its calls can cost is reserved, "
            "as with `reserve: hard`"
        )

    def close_unmade(self, batch: BatchInFlight, record: Batch, word: str, problem: str) -> None:
        """Close a batch that the vendor did not create, and return its money."""
        if record.events:
            self.record_closed(record, word, problem, Results())
            self.budget.collect(batch.nanousd, cost=0, lost=0)
        else:
            self.budget.release(batch.nanousd)

    def record_closed(self, record: Batch, word: str, problem: str, results: Results) -> None:
        """Write the last events of a batch that will bring no more than these results."""
        epoch, today = self.context.epoch, self.context.today
        if record.ended is None:
            record = self.ledger.add(record, Ended(epoch=epoch, at=today(), word=word, problem=problem))
        self.ledger.add(record, results.event(record.intent.rows, epoch, today()))
