"""The batches of all accounts: made, listed, cancelled, deleted."""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hab_simulator.accounts import SimulatedAccount
from hab_simulator.batch.clock import VendorClock
from hab_simulator.batch.dialect import Dialect
from hab_simulator.batch.faults import BatchFault, Foreign, LostCreate, Struck
from hab_simulator.batch.files import FileStore, StoredFile
from hab_simulator.batch.jobs import BatchProblem, BatchState, Job, Order
from hab_simulator.batch.life import Life
from hab_simulator.batch.settings import BatchSettings
from hab_simulator.batch.spool import Entry, Lines
from hab_simulator.meter import BATCH_COUNTS, counters
from hab_simulator.profile import Profile
from hab_simulator.truth.answers import Mind
from hab_simulator.truth.draws import number


@dataclass(slots=True)
class BatchService:
    """The batch half of the simulator.

    `on_charge` is told of every line that is charged and delivered; `exhausted` says whether an account has used up
    its quota.
    """

    profile: Profile
    mind: Mind
    clock: VendorClock
    folder: Path
    on_charge: Callable[[Job, Entry], None]
    exhausted: Callable[[str], bool]
    rules: tuple[BatchFault, ...] = ()
    files: FileStore = field(init=False)
    life: Life = field(init=False)
    _jobs: dict[tuple[str, str], Job] = field(default_factory=dict)
    _creates: Counter[str] = field(default_factory=Counter)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rules = self.profile.batch_faults
        self.files = FileStore(self.profile.seed, self.folder / "files")
        self.files.folder.mkdir(parents=True)
        self.life = Life(self.mind, self.clock, self.account, self.over_quota, self.on_charge)

    def close(self) -> None:
        """End all batches and delete what is on disk."""
        for task in self._tasks:
            task.cancel()
        shutil.rmtree(self.folder, ignore_errors=True)

    def settings(self, account: str) -> BatchSettings:
        return self.profile.account(account).batch or self.profile.batch

    def account(self, name: str) -> SimulatedAccount:
        """The account with its batch prices."""
        return self.profile.account(name).at_batch_prices(self.settings(name).price_share)

    def strike(self, account: str) -> Struck:
        """Count a well-formed create request and draw what strikes it."""
        self._creates[account] += 1
        return Struck.of(self.profile.seed, self.rules, account, self._creates[account])

    def start(self, order: Order, dialect: Dialect, struck: Struck) -> Job:
        """Make a batch, and somebody else's beside it where the faults say so."""
        job = self._add(order, struck)
        os.link(order.source, job.folder / "input")
        lost = struck.find(LostCreate)
        job.hidden_until = job.created + lost.hidden_s if lost else 0.0
        begun = [job]
        if struck.find(Foreign):
            other = self._add(replace(order, tag=None), Struck())
            other.foreign, other.rows = True, len(Lines(order.source))
            begun.append(other)
        for each in begun:
            task = asyncio.get_running_loop().create_task(self._live(each, dialect))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return job

    def find(self, account: str, name: str) -> Job | None:
        """The batch of this id, even while lists hide it."""
        job = self._jobs.get((account, name))
        return None if job is None or job.deleted else job

    def listed(self, account: str) -> list[Job]:
        """The account's batches that lists show, newest first."""
        now = self.clock.now()
        jobs = (job for (owner, _), job in reversed(self._jobs.items()) if owner == account)
        return [job for job in jobs if job.hidden_until <= now and not job.deleted]

    def delete(self, job: Job) -> None:
        """Forget a batch and the files of its results; one that has not ended goes on unseen."""
        job.deleted = True
        for name in (job.output_id, job.errors_id):
            self.files.delete(job.account, name)

    def open(self, account: str) -> list[Job]:
        """The account's batches that have not ended."""
        return [job for (owner, _), job in self._jobs.items() if owner == account and not job.state.ended]

    def reading(self) -> list[dict[str, Any]]:
        """Wire JSON of `GET /_batches`, oldest first, deleted ones too."""
        return [job.reading() for job in self._jobs.values()]

    def counts(self) -> dict[str, Counter[str]]:
        """The counters of each account's batches, without those somebody else made.

        `created` counts them when they are made, `lines_billed` lines as they are delivered, the rest batches that have
        ended; one that failed as a whole has received no line, any other line was billed, failed, was left undone, or
        went missing.
        """
        found: dict[str, Counter[str]] = {}
        for job in (job for job in self._jobs.values() if not job.foreign):
            tally, own = job.tally, found.setdefault(job.account, counters(BATCH_COUNTS))
            own.update(created=1, lines_billed=tally.succeeded)
            if job.state.ended:
                received = tally.succeeded + tally.failed + tally.undone + tally.missing
                own[job.state] += 1
                own.update(lines_received=received, lines_failed=tally.failed)
                own.update(lines_undone=tally.undone, lines_missing=tally.missing)
        return found

    def over_quota(self, account: str, tokens: Mapping[str, int]) -> BatchProblem | None:
        """The problem if a model's queue has no room for so many tokens."""
        for name, wanted in tokens.items():
            model = self.profile.account(account).model(name)
            limit = model.batch_queue_tokens if model else None
            queued = sum((job.tokens or {}).get(name, 0) for job in self.open(account))
            if limit is not None and queued + wanted > limit:
                return BatchProblem(
                    "token_limit_exceeded",
                    f"Enqueued token limit reached for {name} in organization org-simulated. Limit: {limit:,} "
                    "enqueued tokens. Please try again once some in_progress batches have been completed.",
                )
        return None

    def _add(self, order: Order, struck: Struck) -> Job:
        made, now, seed = len(self._jobs) + 1, self.clock.now(), self.profile.seed
        name = f"{number(seed, 'batch', order.account, made):016x}{made:08x}"
        settings = self.settings(order.account)
        wait = settings.turnaround.seconds(seed, "turnaround", order.account, made)
        folder = self.folder / name
        folder.mkdir()
        job = Job(name, order, settings, struck, folder, now + wait, order.model, rows=order.rows or 0)
        job.tokens = order.tokens
        job.enter(BatchState.VALIDATING, now)
        self._jobs[order.account, name] = job
        return job

    async def _live(self, job: Job, dialect: Dialect) -> None:
        await (self.life.live_foreign if job.foreign else self.life.live)(job, dialect)
        for name, path in ((job.output_id, job.output), (job.errors_id, job.errors)):
            if path is not None:
                now = self.clock.now()
                self.files.add(StoredFile(name, job.account, f"{name}.jsonl", "batch_output", now, path, job.id))
