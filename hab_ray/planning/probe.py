"""Sends a few calls of each cell before the run, so that the plan can measure tokens instead of assuming them.

A cell is a stage, a name and a dimension. The calls go through the ordinary engine into the ordinary store, so the run
need not pay for them again. Stages are probed in order, because each works on the rows of earlier ones. A cell without
inputs (no tests, nothing to judge) stays assumed, and so does what a judge reads again later.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from hab_ray.calls import Call
from hab_ray.catalog.models import folder_name
from hab_ray.engine.budget.protocol import BudgetService
from hab_ray.engine.jobs import Job, OpenKind, stream
from hab_ray.engine.ledger import keys_in_flight
from hab_ray.engine.online.engine import OnlineEngine
from hab_ray.engine.online.opening import AccountSetup, open_engine
from hab_ray.errors import Interrupted
from hab_ray.planning.counting import Counting
from hab_ray.planning.drafts import Cell, Draft, Measured
from hab_ray.planning.figures import PlanLine
from hab_ray.planning.make import Latencies
from hab_ray.stages import wiring
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.watches import Watch
from hab_ray.storage.replies.store import Store
from hab_ray.work import Shard, Work


def most(work: Work, store: Store, each: int) -> tuple[int, int]:
    """Return an upper bound of a probe's calls and nano-dollars, with `each` calls measured per reachable cell."""
    cells: dict[Cell, list[PlanLine]] = defaultdict(list)
    reachable = {(s.stage, s.name, s.dimension) for s in work.shards() if _is_reachable(work, s)}
    for line in Counting(work, store).lines():
        cell = line.stage, line.name, line.dimension
        if cell in reachable:
            cells[cell].append(line)
    calls = nanousd = 0
    for lines in cells.values():
        missing = max(0, each - sum(line.measured for line in lines))
        asked = min(missing, sum(line.figures.to_pay for line in lines))
        calls += asked
        nanousd += asked * max(line.dearest for line in lines)
    return calls, nanousd


@dataclass(frozen=True)
class Probed:
    """The result of a probe: requests sent, money in nano-dollars, and seconds per call by stage and model.

    `lost_nanousd` is what unanswered calls may have cost. `unanswered` are the reasons why calls have no answer;
    `failed` are those of calls that failed permanently, which the run does not send again.
    """

    calls: int
    cost_nanousd: int
    lost_nanousd: int
    latencies: Latencies
    unanswered: tuple[str, ...]
    failed: tuple[str, ...]
    budget_reached: bool


@dataclass
class Probe:
    """Sends calls of every cell until the store has `each` answers of it.

    The caller must hold the lease of `epoch`, which `watch` guards.
    """

    work: Work
    epoch: int
    watch: Watch
    each: int
    url: Callable[[str], str]
    money: BudgetService
    _engines: dict[str, OnlineEngine] = field(default_factory=dict)
    _asked: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _latencies: dict[tuple[str, str], float] = field(default_factory=dict)
    _stopped: bool = False

    async def run(self) -> Probed:
        """Probe every stage in turn; after `stop`, return what was measured so far.

        Raises:
            HabError: spending had to end; answers received by then are in the store.
        """
        with suppress(Interrupted):
            await self._all_stages()
        return self._probed()

    async def _all_stages(self) -> None:
        async with AsyncExitStack() as stack:
            for stage in (name for name, spec in wiring.stages().items() if spec.is_probed):
                jobs = self._jobs(stage)
                for provider in jobs.keys() - self._engines.keys():
                    self._engines[provider] = await stack.enter_async_context(self._engine(provider))
                if self._stopped:
                    raise Interrupted("stopped on request")
                await self._complete(stage, jobs)

    async def stop(self, drain_s: float) -> None:
        """Begin no further request; those in flight have `drain_s` seconds to be answered and stored."""
        self._stopped = True
        for engine in self._engines.values():
            await engine.stop(drain_s)

    def _jobs(self, stage: str) -> dict[str, list[Job]]:
        cells: dict[Cell, list[Draft]] = defaultdict(list)
        for draft in Counting(self.work, Store(open_folder(self.work.sweep.store))).drafts():
            if draft.shard.stage == stage:
                cells[draft.cell].append(draft)
        jobs: dict[str, list[Job]] = defaultdict(list)
        for number, drafts in enumerate(cells.values()):
            provider = self.work.model(drafts[0].shard).entry.provider
            known = sum((draft.measured for draft in drafts), Measured()).calls
            for row_id, call in _in_turn(drafts)[: max(0, self.each - known)]:
                jobs[provider].append(Job(number, row_id, call))
                self._asked[self.work.model(drafts[0].shard).name].append(call.key)
        return jobs

    async def _complete(self, stage: str, jobs: dict[str, list[Job]]) -> None:
        before = {provider: deepcopy(self._engines[provider].counters.traffic) for provider in jobs}
        running = (self._engines[provider].complete(stream(some)) for provider, some in jobs.items())
        for error in await asyncio.gather(*running, return_exceptions=True):
            if error is not None:
                raise error
        for provider, earlier in before.items():
            for model, now in self._engines[provider].counters.traffic.items():
                if count := now.answered - earlier[model].answered:
                    self._latencies[stage, model] = (now.waited_s - earlier[model].waited_s) / count

    def _engine(self, provider: str) -> AbstractAsyncContextManager[OnlineEngine]:
        work, store = self.work, self.work.sweep.store
        setup = AccountSetup(
            provider=provider,
            entry=work.catalog.providers[provider],
            url=self.url(provider),
            models=work.models_of(provider),
            store=store,
            epoch=self.epoch,
        )
        writer = f"{folder_name(provider)}-{os.getpid()}"
        return open_engine(
            setup,
            writer,
            setup.alone(self.money, self.watch),
            also_known=keys_in_flight(open_folder(store), provider),
        )

    def _probed(self) -> Probed:
        newest = {provider: engine.snapshot() for provider, engine in self._engines.items()}
        reasons = (f"{provider}: {row.reason}" for provider, counted in newest.items() for row in counted.open)
        return Probed(
            calls=sum(counted.calls for counted in newest.values()),
            cost_nanousd=sum(counted.cost_nanousd for counted in newest.values()),
            lost_nanousd=sum(counted.lost_nanousd for counted in newest.values()),
            latencies=self._latencies,
            unanswered=tuple(dict.fromkeys(reasons)),
            failed=tuple(dict.fromkeys(self._failures())),
            budget_reached=any(row.kind is OpenKind.BUDGET for counted in newest.values() for row in counted.open),
        )

    def _failures(self) -> Iterator[str]:
        """Yield why calls of the probe failed permanently."""
        store = Store(open_folder(self.work.sweep.store))
        for model, keys in self._asked.items():
            store.refresh(model)
            yield from (f"{model}: {failure.message}" for failure in store.failures(model, keys).values())


def _is_reachable(work: Work, shard: Shard) -> bool:
    """Whether a probe asks a shard's tasks: they need only calls, and everything computed before exists."""
    inputs = (one.shard for one in work.inputs(shard))
    return shard.spec.is_probed and all(
        (one.spec.makes_calls or work.is_frozen(one)) and _is_reachable(work, one) for one in inputs
    )


def _in_turn(drafts: Sequence[Draft]) -> list[tuple[str, Call]]:
    """Interleave the open calls of some shards: the first of each, then the second of each, ..."""
    rounds = zip_longest(*(draft.open for draft in drafts))
    return [asked for asked in chain.from_iterable(rounds) if asked is not None]
