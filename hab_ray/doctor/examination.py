"""Asks each question once through the engines, which book it in store and ledger like every call.

A question is sent online and, if batches are tested, as the two rows of a batch. An engine would retry after a broken
answer; the doctor needs that answer, so it stops the engine instead.
"""

import asyncio
import os
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from hab_ray.calls import Call, ChatCall, Outcome
from hab_ray.catalog.models import BatchPolicy, ModelEntry, ProviderEntry, folder_name
from hab_ray.catalog.prices import Mode
from hab_ray.doctor.questions import Question, without_messages
from hab_ray.doctor.tap import Exchange, Tap
from hab_ray.engine.batch.components import EngineContext
from hab_ray.engine.batch.engine import BatchEngine
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.engine.jobs import Counters, Job, billing_notes, stream
from hab_ray.engine.ledger import Batch, Ledger, Phase
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.engine.online.opening import AccountSetup, open_engine
from hab_ray.errors import CallError, Interrupted
from hab_ray.providers import connect, connect_batch, load_vendor
from hab_ray.providers.access import endpoint_of
from hab_ray.providers.base import Endpoint
from hab_ray.rehearse.staging import account
from hab_ray.storage.replies.store import Store, StoreWriter
from hab_ray.storage.secret import fence_secret
from hab_ray.sweep.session import Session
from hab_ray.work import Work

_POLL_S = 0.02
ROWS_OF_A_BATCH = 2
MALFORMED = "malformed request to"


@dataclass(frozen=True)
class AskedQuestion:
    """The outcome of a question, online or by batch.

    `outcomes` are by the key of the call; `problems` says why calls have none.
    """

    label: str
    question: Question
    calls: tuple[Call, ...]
    outcomes: Mapping[str, Outcome]
    problems: tuple[str, ...]


@dataclass
class Examined:
    """The result of an examination; money in nano-dollars.

    `exchanges` are all with the vendors or the simulator. `left_open` names batches that are still at their vendors,
    `bills` the vendors' prices that differ from ours.
    """

    exchanges: list[Exchange] = field(default_factory=list)
    asked: list[AskedQuestion] = field(default_factory=list)
    left_open: list[str] = field(default_factory=list)
    bills: list[str] = field(default_factory=list)
    calls: int = 0
    cost_nanousd: int = 0
    lost_nanousd: int = 0

    def count(self, counters: Counters) -> None:
        self.calls += counters.calls
        self.cost_nanousd += counters.cost_nanousd
        self.lost_nanousd += counters.lost_nanousd
        self.bills += billing_notes([counters])


@dataclass(frozen=True)
class Visit:
    """The questions to a sweep's vendors. `url` maps a provider to its URL; batches get `wait_s` seconds."""

    work: Work
    questions: Sequence[Question]
    url: Callable[[str], str]
    by_batch: bool
    wait_s: float


@dataclass
class Examination:
    """Asks the questions of a visit, within the budget of a session's run."""

    visit: Visit
    session: Session
    budget: BudgetService
    tap: Tap
    _examined: Examined = field(default_factory=Examined)
    _engines: set[OnlineEngine] = field(default_factory=set)
    _is_stopped: bool = False

    async def run(self) -> Examined:
        """Ask all questions online at the same time, then each provider's batches in turn.

        Raises:
            LeaseLost, ConfigError, OSError: spending had to stop; replies received until then are in the store.
        """
        by_provider: dict[str, list[Question]] = defaultdict(list)
        for question in self.visit.questions:
            by_provider[question.provider].append(question)
        await asyncio.gather(*(self._ask_provider(name, questions) for name, questions in by_provider.items()))
        self._examined.exchanges += self.tap.exchanges
        return self._examined

    async def stop(self, drain_s: float) -> None:
        """Start no further request; wait up to `drain_s` seconds for replies to those in flight."""
        self._is_stopped = True
        for engine in self._engines:
            await engine.stop(drain_s)

    async def _ask_provider(self, provider: str, questions: Sequence[Question]) -> None:
        entry = self.visit.work.catalog.providers[provider]
        real = endpoint_of(provider, entry, self.visit.url(provider))
        simulated = account(provider, load_vendor(entry.kind).protocol)

        def tapped(label: str) -> Endpoint:
            return replace(real, url=self.tap.address(label, simulated, real))

        online = (self._ask_online(q, entry, tapped(q.label).url, number) for number, q in enumerate(questions))
        await asyncio.gather(*online)
        chats = [question for question in questions if isinstance(question.call, ChatCall)]
        if chats and not self._is_stopped:
            await self._ask_malformed(chats[0], tapped(f"{MALFORMED} {provider}"))
        if self.visit.by_batch:
            batched = [question for question in questions if self._entry(question).batch]
            await self._ask_by_batch(batched, entry, tapped, len(questions))

    def _entry(self, question: Question) -> ModelEntry:
        return self.visit.work.models[question.model].entry

    async def _ask_online(self, question: Question, entry: ProviderEntry, url: str, number: int) -> None:
        lease, store = self.session.lease, self.session.work.sweep.store
        call = question.numbered(lease.epoch, number)
        models = {question.model: self._entry(question)}
        setup = AccountSetup(question.provider, entry, url, models, store, lease.epoch)
        writer = f"{folder_name(question.provider)}-{os.getpid()}-{number}"
        async with open_engine(setup, writer, setup.alone(self.budget, lease.watch())) as engine:
            self._engines.add(engine)
            asking = asyncio.create_task(engine.complete(stream([Job(0, question.label, call)])))
            while not asking.done():
                if engine.counters.retries:
                    await engine.stop(0.0)
                await asyncio.wait({asking}, timeout=_POLL_S)
            with suppress(Interrupted):
                asking.result()
        self._engines.discard(engine)
        counters = engine.snapshot()
        self._examined.count(counters)
        self._record(
            question.label, question, [call], [*(row.reason for row in counters.open), *counters.stops.values()]
        )

    async def _ask_malformed(self, question: Question, endpoint: Endpoint) -> None:
        """Send a request that every vendor refuses, because the engine acts on the form of an error."""
        assert isinstance(question.call, ChatCall)
        self.session.lease.watch().check()
        provider = connect(endpoint)
        try:
            with suppress(CallError):
                await provider.send(provider.chat(without_messages(question.call), self._entry(question)))
        finally:
            await provider.close()

    async def _ask_by_batch(
        self,
        questions: Sequence[Question],
        entry: ProviderEntry,
        tapped: Callable[[str], Endpoint],
        first: int,
    ) -> None:
        for number, question in enumerate(questions):
            if self._is_stopped:
                return
            ledger = Ledger(self.session.store, question.provider)
            if any(batch.phase is not Phase.DONE for batch in ledger.read()):
                self._examined.left_open.append(
                    f"{question.provider}: the store has open batches there, so none was submitted for "
                    f"{question.model}; `hab run` collects them"
                )
                return
            start = first + number * ROWS_OF_A_BATCH
            label = f"batch of {question.label}"
            await self._ask_one_batch(label, question, tapped(label), entry.batches, ledger, start)

    async def _ask_one_batch(
        self, label: str, question: Question, endpoint: Endpoint, policy: BatchPolicy, ledger: Ledger, first: int
    ) -> None:
        calls = [question.numbered(self.session.lease.epoch, first + number) for number in range(ROWS_OF_A_BATCH)]
        jobs = [Job(0, f"{label} #{number}", call) for number, call in enumerate(calls)]
        engine = self._batch_engine(question, endpoint, policy, ledger)
        async with engine:
            end = time.monotonic() + self.visit.wait_s
            asking = asyncio.create_task(engine.complete(question.model, iter(jobs)))
            is_over = False
            while not is_over and time.monotonic() < end and not self._is_stopped:
                await asyncio.wait({asking}, timeout=_POLL_S)
                is_over = engine.broken is not None or (asking.done() and not engine.has_open_batches)
                await asyncio.sleep(_POLL_S)
            if is_over:
                await self.tap.quiet(label)  # the engine deletes files and batch last
            counters = engine.snapshot()
            problems = [row.reason for row in counters.open] + list(counters.stops.values())
            problems += [*counters.refused.values(), *counters.notes]
        self._examined.count(engine.snapshot())
        if not asking.done():
            asking.cancel()
        if engine.broken is not None:
            raise engine.broken
        if not is_over:
            left = [batch for batch in ledger.read() if batch.phase is not Phase.DONE]
            self._examined.left_open += [self._left_open_note(label, batch) for batch in left]
            if not self._is_stopped:
                late = f"the batch has not ended after {self.visit.wait_s / 60:g} minutes"
                is_only_slow = not problems and left and all(batch.batch_id for batch in left)
                if is_only_slow:
                    more = "vendors promise batches within a day; --wait MINUTES waits longer"
                    self._examined.left_open.append(f"{label}: its answers were not compared: {late}; {more}")
                    return
                problems.append(late)
        self._record(label, question, calls, problems)

    def _left_open_note(self, label: str, batch: Batch) -> str:
        name = f"batch {batch.name} ({batch.batch_id or 'its id is not known yet'})"
        return (
            f"{label}: {name} is still at the vendor; the next `hab run` collects it, and `hab batches cancel "
            f"{self.visit.work.run_path} {batch.name}` cancels it (if the sweep has no run yet, cancel it at the "
            "vendor by its id)"
        )

    def _batch_engine(self, question: Question, endpoint: Endpoint, policy: BatchPolicy, ledger: Ledger) -> BatchEngine:
        lease, folder = self.session.lease, self.session.store
        return BatchEngine(
            provider=connect(endpoint),
            api=connect_batch(endpoint),
            models={question.model: self._entry(question)},
            ledger=ledger,
            writer=StoreWriter(folder, lease.epoch, f"doctor-{secrets.token_hex(4)}", Mode.BATCH),
            policy=policy,
            context=EngineContext(
                epoch=lease.epoch,
                guard=lease.watch().check,
                budget=self.budget,
                run=self.session.work.run_name,
                epochs=frozenset({lease.epoch}),
                fingerprint=endpoint.fingerprint(fence_secret(folder)),
            ),
        )

    def _record(self, label: str, question: Question, calls: Sequence[Call], problems: Iterable[str]) -> None:
        store = Store(self.session.store)
        store.refresh(question.model)
        outcomes = store.read(question.model, [call.key for call in calls])
        self._examined.asked.append(
            AskedQuestion(label, question, tuple(calls), outcomes, tuple(dict.fromkeys(problems)))
        )
