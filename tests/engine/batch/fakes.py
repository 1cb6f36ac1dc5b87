"""A vendor's batch API without a network, events of a ledger, and an engine between the two."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hab_ray.catalog.base import UsdPrice
from hab_ray.catalog.models import BatchPolicy, ModelEntry
from hab_ray.catalog.prices import Mode
from hab_ray.engine.batch.components import Components, EngineContext
from hab_ray.engine.batch.counters import BatchCounters
from hab_ray.engine.batch.engine import BatchEngine
from hab_ray.engine.batch.enqueued import EnqueuedTokenLimits
from hab_ray.engine.batch.rows import RowsInFlight
from hab_ray.engine.budget.budget import unlimited
from hab_ray.engine.budget.client import BatchBudgetClient
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.engine.ledger import Batch, Ended, Event, Harvested, Intent, Ledger, Lines, Submitted
from hab_ray.errors import CallError, FailureKind, TransientError
from hab_ray.providers import connect
from hab_ray.providers.base import Endpoint, Wire
from hab_ray.providers.batching import BatchApi, BatchJob, BatchSize, BatchStatus, InDoubt, Line, SeenBatch
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.replies.store import StoreWriter

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEYS = ["ab" * 32, "cd" * 32]
LINES = Lines(b'{"a":"\xe2\x80\xa8"}\n{"b":1}\n', b"".join(bytes.fromhex(key + "ef" * 32) for key in KEYS))
QUICK = BatchPolicy(poll_s=0.001, in_doubt_s=0.02)
ENTRY = ModelEntry(provider="acme", wire="m-1", price=UsdPrice(input=1.0, output=1.0))


def intent(tag: str = "t", epoch: int = 1) -> Intent:
    return Intent(
        epoch=epoch,
        at=START,
        tag=tag,
        run="/runs/x",
        model="m",
        wire="m-1",
        path="/chat/completions",
        version=None,
        embeds=False,
        rows=2,
        bytes=len(LINES.requests),
        tokens=10,
        nanousd=100,
        rows_file=LINES.rows_file,
        requests_file=LINES.requests_file,
        owner="org",
        newest=None,
    )


def submitted(certain: bool = True) -> Submitted:
    return Submitted(epoch=1, at=START, batch_id="b-1", adopted=not certain, certain=certain)


ENDED = Ended(epoch=1, at=START, word="completed", problem=None)
HARVESTED = Harvested(epoch=1, at=START, replies=2, failures=0, unanswered=0, unknown_ids=0, doubled=0, nanousd=7)


def seen(id: str, tag: str | None, rows: int | None = 2) -> SeenBatch:
    return SeenBatch(id, tag, rows, START)


@dataclass
class Vendor:
    """A vendor that can be told what its list shows; every submit is counted.

    `refuses` are the errors of the first submits, None for a success. While `gate` is there and not set, a create
    request has no answer. A batch's results are these `lines`, of which errors are raised once, or an error for the
    row that `ended` names. `refused` is the error of each poll.
    """

    refuses: list[Exception | None] = field(default_factory=list)
    listed: list[SeenBatch] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    lines: list[Line | CallError] | None = None
    refused: CallError | None = None
    org: str = "org"
    gate: asyncio.Event | None = None
    submitted: list[BatchJob] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    batch_size: BatchSize = field(default_factory=lambda: BatchSize(rows=10, bytes=100_000))

    def line(self, custom_id: str, wire: Wire) -> bytes:
        return custom_id.encode()

    async def owner(self) -> str:
        self.asked.append("owner")
        return self.org

    async def newest(self) -> str | None:
        return self.listed[0].id if self.listed else None

    async def submit(self, job: BatchJob) -> str:
        job.before_create()
        self.submitted.append(job)
        number = len(self.submitted)
        if self.gate:
            await self.gate.wait()
        if number <= len(self.refuses) and (refusal := self.refuses[number - 1]):
            raise refusal
        return f"new-{number}"

    async def since(self, newest: str | None) -> list[SeenBatch]:
        self.asked.append("since")
        return list(self.listed)

    async def poll(self, batch_id: str) -> BatchStatus:
        self.asked.append(f"poll {batch_id}")
        if self.refused:
            raise self.refused
        return BatchStatus(batch_id, "x", ended=batch_id in self.ended, results=(batch_id,))

    async def results(self, status: BatchStatus) -> AsyncIterator[Line]:
        self.asked.append("results")
        if self.lines is None:
            yield Line(self.ended[status.id], error=TransientError(FailureKind.SERVER, "no answer"))
        for line in list(self.lines or ()):
            if isinstance(line, CallError):
                self.lines = [one for one in self.lines or () if one is not line]
                raise line
            yield line

    async def cancel(self, batch_id: str) -> None:
        self.asked.append(f"cancel {batch_id}")

    async def clean_up(self, status: BatchStatus) -> None:
        self.asked.append(f"clean up {status.id}")

    async def close(self) -> None:
        self.asked.append("close")


def broken() -> InDoubt:
    return InDoubt(FailureKind.CONNECTION, "the connection broke")


@dataclass
class Clock:
    """Wall time that advances by 2 ms at every reading."""

    now: datetime = START

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=2)
        return self.now


def context_of(
    clock: Callable[[], float] = time.monotonic,
    today: Callable[[], datetime] | None = None,
    budget: BudgetService | None = None,
    guard: Callable[[], None] = lambda: None,
) -> EngineContext:
    """The context of epoch 2 of a run whose first epoch was 1."""
    return EngineContext(
        epoch=2,
        guard=guard,
        budget=budget or unlimited(),
        run="/runs/x",
        epochs=frozenset({1, 2}),
        fingerprint="a1b2",
        clock=clock,
        today=today or Clock(),
    )


def components_of(
    folder: Path, vendor: BatchApi, policy: BatchPolicy = QUICK, context: EngineContext | None = None
) -> Components:
    """The components of an engine with one model `m`."""
    counters, context = BatchCounters(), context or context_of()
    budget = BatchBudgetClient(context.budget)
    rows = RowsInFlight(counters)
    models = {"m": ENTRY}
    limits = EnqueuedTokenLimits(models, policy.longest_poll_s, context.clock)
    ledger = Ledger(LocalFolder(folder), "acme")
    return Components(vendor, models, ledger, policy, context, counters, rows, budget, limits)


def engine_of(
    folder: Path,
    vendor: Vendor,
    context: EngineContext | None = None,
    policy: BatchPolicy = QUICK,
    entry: ModelEntry = ENTRY,
) -> BatchEngine:
    """An engine with one model `m` and its own store."""
    place = LocalFolder(folder)
    return BatchEngine(
        provider=connect(Endpoint("acme", "openai", "http://localhost:1", "a-key", 1.0)),
        api=vendor,
        models={"m": entry},
        ledger=Ledger(place, "acme"),
        writer=StoreWriter(place, 2, "w", Mode.BATCH),
        policy=policy,
        context=context or context_of(),
    )


def written(ledger: Ledger, number: int, *events: Event) -> Batch:
    """A batch in the ledger with these events."""
    ledger.keep(number, LINES)
    batch = Batch(ledger.provider, number)
    for event in events:
        batch = ledger.add(batch, event)
    return batch


def sent(ledger: Ledger, certain: bool, **intended: object) -> Batch:
    """A batch in the ledger that is at the vendor; `intended` changes its intent."""
    return written(ledger, 1, intent().model_copy(update=intended), submitted(certain))


def write_events(folder: Path, number: int, *events: Event) -> None:
    """A batch in the ledger, as an earlier process left it."""
    written(Ledger(LocalFolder(folder), "acme"), number, *events)


def told(components: Components) -> list[str]:
    """The kinds of all events in the ledger, batch by batch."""
    return [event.kind for batch in components.ledger.read() for event in batch.events]
