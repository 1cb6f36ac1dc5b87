"""The batch engine: the calls of one provider account through its batch API, each completed once.

A row's life:

    offered ── answered already ──> finished         offered ── its key in an open batch ──> waits for that batch
    offered ── packed ── room, money ──> placed (see `placing`) ── ended ──> harvested ──> finished
    packed ── no money left, model or provider stopped ──> open: named with its reason
    packed ── the vendor takes no batches of the model ──> finished: to be offered online
    packed ── batch refused for its rows ──> packed in parts ── refused alone ──> finished: a permanent failure
    offered, packed ── the user stops the run ──> left where they are: the next run offers them again

`finished` counts rows whose batch has brought what it will, answered or not: whoever offered them looks into the
store and offers again what has no answer. Nothing is kept of a row but its key, so that a sweep of any size fits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from copy import deepcopy
from itertools import islice
from math import inf
from typing import Self

from hab_ray.catalog import BatchHabits, ModelEntry
from hab_ray.engine.harvesting import Harvest, Harvester
from hab_ray.engine.homes import BatchSurroundings, BatchTally, Home
from hab_ray.engine.jitter import jitter
from hab_ray.engine.jobs import Job, OpenKind, OpenRow
from hab_ray.engine.ledger import Batch, Ended, Intent, Ledger, Lines, Phase, body_hashes
from hab_ray.engine.packing import Pack, PackedRow, Room, RowPacker
from hab_ray.engine.placing import Placer
from hab_ray.engine.queues import Queues
from hab_ray.engine.wallet import Wallet
from hab_ray.errors import CallError, Interrupted, ModelError, ProviderError, RateLimited, TransientError
from hab_ray.fences import FenceCodes
from hab_ray.prices import NANO, Mode, rate
from hab_ray.providers.base import Provider
from hab_ray.providers.batching import BadRows, BatchApi, BatchRefused, BatchStatus, ResultsGone
from hab_ray.storage.keyindex import KeyIndex, KeySet
from hab_ray.storage.secret import fence_secret
from hab_ray.storage.store import Store, StoreWriter

CHUNK = 256
YOUNG_S = 300.0
WAIT_S = 0.2
QUICK_S = 2.0
FEWEST_TRIES = 8
TRIES_A_HALVING = 4
CREATE_LOOK_S = 0.05


class BatchEngine:
    """Completes the calls of one provider account. Used as a context; it works on one event loop."""

    def __init__(
        self,
        provider: Provider,
        api: BatchApi,
        models: Mapping[str, ModelEntry],
        ledger: Ledger,
        store: Store,
        writer: StoreWriter,
        habits: BatchHabits,
        world: BatchSurroundings,
    ) -> None:
        self._tally = BatchTally()
        self._provider, self._api, self._models = provider, api, models
        self._ledger, self._store, self._habits, self._world = ledger, store, habits, world
        self._prices = {name: rate(entry, Mode.BATCH) for name, entry in models.items()}
        self._codes = FenceCodes(fence_secret(store.folder))
        self._wallet = Wallet(world.money)
        self._placer = Placer(api, ledger, habits, world.watch, self._tally.notes.append, self._wallet.commit)
        self._harvester = Harvester(provider, api, writer, world.watch.today, self._tally.billing)
        self._packs: dict[str, Home] = {}
        self._answered = KeyIndex()
        self._open: list[Home] = []
        self._next = 1
        self._queues = Queues(models, habits.longest_poll_s, world.clock)
        self._packing, self._placing = asyncio.Lock(), asyncio.Lock()
        self.broken: Exception | None = None
        self._working: list[asyncio.Task[None]] = []
        self._streams: set[asyncio.Task[None]] = set()
        self._cut_at = inf

    async def __aenter__(self) -> Self:
        """Take up what earlier processes left open."""
        await self._wallet.__aenter__()
        await self._placing.acquire()
        for batch in await asyncio.to_thread(self._ledger.read):
            self._next = batch.number + 1
            if batch.batch_id:
                self._placer.know(batch.batch_id)
            if batch.phase is not Phase.DONE:
                await self._take_up(batch)
        self._working = [asyncio.create_task(self._settle_doubts()), asyncio.create_task(self._poll_regularly())]
        return self

    async def __aexit__(self, *_: object) -> None:
        """End; what is at the vendor stays there, and in the ledger."""
        if self._cut_at == inf:
            self.stop(0.0)
        await self._create_ended()
        await asyncio.gather(*self._working, *self._streams, return_exceptions=True)
        await self._wallet.__aexit__()
        await self._provider.close()
        await self._api.close()

    def stop(self, drain_s: float) -> None:
        """Begin no further request; the one that makes a batch, where one is open, has so many seconds to end.

        Harvests are cut off: what they filed is kept, and the next run reads the rest.
        """
        self._cut_at = min(self._cut_at, self._world.clock() + drain_s)
        self._placer.ending = True
        creating = self._placer.creating
        for task in (*self._working, *self._streams):
            if creating is None or task is not creating.task:
                task.cancel()

    async def _create_ended(self) -> None:
        """Wait for an open create request until the drain ends, then cut it off: its intent stays in the ledger."""
        while self._placer.creating and self._cut_at > self._world.clock():
            await asyncio.sleep(CREATE_LOOK_S)
        if creating := self._placer.creating:
            intent = creating.batch.intent
            self._tally.notes.append(
                f"the request to make batch {creating.batch.name} ({intent.rows} rows of {intent.model}, at most "
                f"${intent.nanousd / NANO:.4f}) was cut off: the same command looks for the batch at the vendor"
            )
        for task in (*self._working, *self._streams):
            task.cancel()

    async def complete(self, model: str, jobs: Iterator[Job]) -> None:
        """Bring the calls of these jobs, all of one model, to the vendor; several such streams may run at once.

        They fill their batches in turn, because all at once would fill the memory. Returns once each job is in a
        batch there, answered, or left open; `jobs` is read in a thread.

        Raises:
            LeaseLost: another driver has the store.
            ConfigError: the key belongs to another organisation than the open batches.
            OSError: the store cannot be written.
        """
        packer = RowPacker(self._provider, self._api, self._models[model], self._prices[model], self._codes)
        with self._breaking(), self._stream():
            async with self._packing:
                await self._pack_all(model, lambda: [packer.row(job) for job in islice(jobs, CHUNK)])

    @contextmanager
    def _stream(self) -> Iterator[None]:
        """Around one stream; one that `stop` ends has brought to the vendor what it could."""
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            self._world.watch.guard()
            yield
        except (Interrupted, asyncio.CancelledError):
            if not self._placer.ending:
                raise
        finally:
            self._streams.discard(task)

    async def _pack_all(self, model: str, next_rows: Callable[[], list[PackedRow]]) -> None:
        home, pack = Home(model), Pack()
        while not self._placer.ending and (chunk := await asyncio.to_thread(next_rows)):
            known = self._known([row.key for row in chunk])
            for row in chunk:
                self._tally.offered[row.shard] += 1
                if self._is_under_way(row, known):
                    continue
                if not pack.has_room_for(row, self._room(model)):
                    await self._place(home, pack)
                    home, pack = Home(model), Pack()
                    known = self._known([row.key for row in chunk])
                pack.add(row)
                home.waiting[row.shard] += 1
                self._packs[row.key] = home
        if pack.rows and not self._placer.ending:
            await self._place(home, pack)

    def holds(self, keys: Iterable[str]) -> bool:
        """Whether one of these calls is in an open batch, or on its way into one."""
        asked = list(keys)
        in_packs = any(key in self._packs for key in asked)
        return in_packs or any(home.keys.common(asked) for home in self._open if home.keys)

    def tell(self) -> BatchTally:
        """What was done so far; open rows and notes are told once."""
        tally = self._tally
        wallet = self._wallet
        tally.lost_nanousd, tally.spent_nanousd = wallet.lost, wallet.spent
        tally.reserved_nanousd = wallet.reserved + wallet.in_batches
        told = deepcopy(tally)
        told.batches = tuple(home.batch for home in self._open if home.batch)
        told.creating_nanousd = self._placer.creating.batch.intent.nanousd if self._placer.creating else 0
        tally.open.clear()
        tally.notes.clear()
        return told

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.broken = self.broken or error
            raise

    def _known(self, keys: Sequence[str]) -> dict[str, Home | None]:
        """Those of these keys that are in an open batch, with it, or answered."""
        known: dict[str, Home | None] = dict.fromkeys(self._answered.places(keys))
        for home in self._open:
            known.update(dict.fromkeys(home.keys.common(keys) if home.keys else (), home))
        return known

    def _is_under_way(self, row: PackedRow, known: Mapping[str, Home | None]) -> bool:
        """Whether a row needs no place in a batch of its own: it waits for the one that has its key."""
        home = self._packs.get(row.key) or known.get(row.key)
        if home is not None:
            home.waiting[row.shard] += 1
        elif row.key in known:
            self._tally.finished[row.shard] += 1
        else:
            return False
        return True

    def _room(self, model: str) -> Room:
        return Room(
            rows=min(self._habits.rows, self._api.batch_size.rows),
            bytes=min(int(self._habits.megabytes * 2**20), self._api.batch_size.bytes),
            tokens=self._queues.limit(model),
            nanousd=inf if self._wallet.left is None else self._wallet.left,
        )

    async def _place(self, home: Home, pack: Pack) -> None:
        """Bring a pack to the vendor, in parts where the vendor refuses it for some of its rows."""
        tries = FEWEST_TRIES + TRIES_A_HALVING * len(pack.rows).bit_length()
        parts = [(home, pack)]
        bad: list[tuple[Home, PackedRow, BadRows]] = []
        while parts:
            home, pack = parts.pop()
            try:
                await self._place_part(home, pack)
            except BadRows as error:
                tries -= 1
                if tries <= 0:
                    self._tally.refuse(home.model, BatchRefused(f"too many of its rows are malformed: {error}"))
                if len(pack.rows) == 1:
                    bad.append((home, pack.rows[0], error))
                    continue
                rest, apart = pack.parted(error.rows)
                parts += [(home, rest), (self._moved(home, apart), apart)]
        for home, row, refusal in bad:
            if tries > 0:
                await self._fail(home, row, refusal)
            self._give_back(home)

    def _moved(self, home: Home, pack: Pack) -> Home:
        """A home of their own for some rows of another."""
        moved = home.part(pack.rows)
        self._packs.update(dict.fromkeys(pack.keys(), moved))
        return moved

    async def _fail(self, home: Home, row: PackedRow, error: BadRows) -> None:
        """End a row that the vendor refuses in a batch of its own too."""
        await self._harvester.give_up(home.model, row.key, str(error))
        self._answered.add([row.key], 0)
        self._tally.notes.append(f"{home.model}: row {row.row_id} failed every batch it was in: {error}")

    async def _place_part(self, home: Home, pack: Pack) -> None:
        """Bring a pack to the vendor once there is room and money for it.

        Raises:
            BadRows: the vendor refuses it for some of its rows.
        """
        while await self._has_leave(home, pack):
            batch: Batch | None = None
            lines = pack.lines()
            try:
                async with self._placing:
                    batch, self._next = Batch(self._ledger.provider, self._next), self._next + 1
                    await asyncio.to_thread(self._ledger.keep, batch.number, lines)
                    await self._placer.place(batch, lines, self._intent(home.model, pack, lines))
                home.keys = KeySet(pack.keys())
                self._unpack(home)
                return self._opened(home, batch)
            except RateLimited as error:
                self._queues.wait(home.model, error)
                self._refused(batch, error)
            except TransientError as error:
                self._stop("", f"{error}; its batches are looked for when the same command is given again")
            except BadRows as error:
                self._refused(batch, error)
                self._set_free(home.nanousd, batch)
                raise
            except CallError as error:
                self._refused(batch, error)
                self._heed_one(home.model, error)
            except (Interrupted, asyncio.CancelledError):
                self._set_free(home.nanousd, batch)
                raise
            self._set_free(home.nanousd, batch)

    def _set_free(self, nanousd: int, batch: Batch | None) -> None:
        """Take back what was set aside for a batch that was not made; while that is in doubt, nothing."""
        if batch is None or not batch.events:
            self._wallet.release(nanousd)
        elif batch.phase is Phase.DONE:
            self._wallet.collect(nanousd, cost=0, lost=0)

    def _intent(self, model: str, pack: Pack, lines: Lines) -> Callable[[str, str | None], Intent]:
        watch, first = self._world.watch, pack.rows[0]

        def made(owner: str, newest: str | None) -> Intent:
            return Intent(
                epoch=watch.epoch,
                at=watch.today(),
                tag=self._world.token(),
                run=self._world.run,
                model=model,
                wire=self._models[model].wire,
                path=first.path,
                version=first.version,
                embeds=first.embeds,
                rows=len(pack.rows),
                bytes=pack.bytes,
                tokens=pack.tokens,
                nanousd=pack.nanousd,
                rows_file=lines.rows_file,
                requests_file=lines.requests_file,
                owner=owner,
                newest=newest,
            )

        return made

    def _refused(self, batch: Batch | None, error: CallError) -> None:
        """Close a batch that the vendor did not make."""
        if batch and batch.events:
            self._placer.close(batch, "refused", str(error), Harvest())

    async def _has_leave(self, home: Home, pack: Pack) -> bool:
        """Wait for room in the vendor's queue and for money; False if the pack will not be sent from here."""
        model = home.model
        if not await self._waited(home, lambda: self._has_room(model, pack)):
            return False
        refusal = await self._reserved(pack)
        while refusal and pack.rows:
            self._leave_open(home, [pack.pop()], OpenKind.BUDGET, refusal)
            if self._wallet.left is not None and pack.nanousd <= self._wallet.left:
                refusal = await self._reserved(pack)
        home.nanousd = pack.nanousd
        if not pack.rows:
            self._give_back(home)
        return bool(pack.rows)

    async def _reserved(self, pack: Pack) -> str | None:
        """Set aside what a pack may cost, or say why that cannot be."""
        reserving = asyncio.ensure_future(self._wallet.reserve(pack.nanousd))
        try:
            await asyncio.wait({reserving}, timeout=QUICK_S)
            while self._wallet.is_asking and not reserving.done():
                await asyncio.wait({reserving}, timeout=WAIT_S)
            if reserving.done():
                return reserving.result()
            async with self._stuck():
                return await reserving
        except asyncio.CancelledError:
            if reserving.done() and not reserving.cancelled() and reserving.result() is None:
                self._wallet.release(pack.nanousd)
            reserving.cancel()
            raise

    def _has_room(self, model: str, pack: Pack) -> bool:
        return self._queues.has_room(model, self._enqueued(model), pack.tokens)

    def _enqueued(self, model: str) -> int:
        """The estimated tokens of a model's open batches."""
        return sum(h.batch.intent.tokens for h in self._open if h.batch and h.model == model)

    async def _waited(self, home: Home, ready: Callable[[], bool]) -> bool:
        """Wait; False if meanwhile nothing more may be sent, and then the pack's rows are given back."""
        if ready() and not self._stopped(home.model) and not self._is_late():
            return True
        async with self._stuck():
            while not (reason := self._stopped(home.model)) and not self._is_late() and not ready():
                await asyncio.sleep(WAIT_S)
        if reason or self._is_late():
            self._give_back(home)
            return False
        return True

    @asynccontextmanager
    async def _stuck(self) -> AsyncIterator[None]:
        """While a stream waits for room in the vendor's queue, or for money that open batches have set aside.

        Meanwhile it lets another stream pack.
        """
        self._tally.stuck += 1
        self._packing.release()
        try:
            yield
        finally:
            self._tally.stuck -= 1
            await self._packing.acquire()

    def _stopped(self, model: str) -> str | None:
        return "stopped on request" if self._placer.ending else self._tally.closed(model)

    def _is_late(self) -> bool:
        return self._world.deadline is not None and self._world.watch.today() >= self._world.deadline

    def _give_back(self, home: Home) -> None:
        """Rows that are in no batch, or whose batch is no longer waited for, go back to whoever offered them."""
        self._tally.finished.update(home.waiting)
        home.waiting.clear()
        self._unpack(home)

    def _unpack(self, home: Home) -> None:
        """Its rows are in no pack any more."""
        for key in [key for key, place in self._packs.items() if place is home]:
            del self._packs[key]

    def _leave_open(self, home: Home, rows: Sequence[PackedRow], kind: OpenKind, reason: str) -> None:
        for row in rows:
            self._tally.open.append(OpenRow(row.shard, row.row_id, reason, kind))
            home.waiting[row.shard] -= 1
            del self._packs[row.key]

    def _stop(self, model: str, reason: str) -> None:
        """Send nothing more to a model, or to the whole provider where the name is empty."""
        self._tally.stops.setdefault(model, reason)
        if not model:
            for home in self._open:
                self._give_back(home)

    def _heed_one(self, model: str, error: CallError) -> None:
        """Draw the consequences of an error that is no single row's for a model or its provider."""
        if isinstance(error, BatchRefused):
            self._tally.refuse(model, error)
        else:
            self._stop("" if isinstance(error, ProviderError) else model, str(error))

    async def _take_up(self, batch: Batch) -> None:
        """Wait for a batch that an earlier process made."""
        intent = batch.intent
        if intent.model not in self._models:
            self._tally.notes.append(
                f"batch {batch.name} is of the model {intent.model}, which this sweep does not use: the sweep "
                f"whose run is at {intent.run}, seen from the store, collects it"
            )
            return
        home = Home(intent.model, batch=batch, is_own=batch.events[0].epoch in self._world.epochs)
        if home.is_own:
            home.nanousd = intent.nanousd
            self._wallet.take_up(intent.nanousd)
        if batch.phase is Phase.ENDED and batch.batch_id is None:
            self._placer.close(batch, "", "", Harvest())
            return self._wallet.collect(home.nanousd, cost=0, lost=0)
        home.since = home.due = self._world.clock()
        home.keys = KeySet(body_hashes(await asyncio.to_thread(self._ledger.rows, batch)))
        self._open.append(home)
        self._tally.in_flight[home.model] += intent.rows

    async def _settle_doubts(self) -> None:
        """Find out what became of the batches that a crash left in doubt, before any other is made."""
        try:
            with self._breaking():
                for home in [h for h in self._open if h.batch and h.batch.phase is Phase.IN_DOUBT]:
                    assert home.batch is not None
                    if self._placer.ending:
                        return
                    await self._settle_doubt(home, home.batch)
        finally:
            self._placing.release()

    async def _settle_doubt(self, home: Home, batch: Batch) -> None:
        lines = await asyncio.to_thread(self._ledger.lines, batch)
        before = batch.intent
        watch = self._world.watch

        def again(owner: str, newest: str | None) -> Intent:
            fresh = {"epoch": watch.epoch, "at": watch.today(), "owner": owner, "newest": newest}
            return before.model_copy(update=fresh)

        try:
            await self._placer.place(batch, lines, again)
            home.since = home.due = self._world.clock()
        except TransientError as error:
            if not isinstance(error, RateLimited):
                return self._stop("", f"{error}; its batches are looked for when the same command is given again")
            self._queues.wait(home.model, error)
            self._give_up(home, "refused", str(error), Harvest())
        except BadRows as error:
            self._give_up(home, "refused", str(error), Harvest())
        except CallError as error:
            self._heed_one(home.model, error)
            self._give_up(home, "refused", str(error), Harvest())

    def _opened(self, home: Home, batch: Batch) -> None:
        home.batch, home.since = batch, self._world.clock()
        home.due = home.since + self._interval_s(home)
        self._open.append(home)
        self._tally.calls += batch.intent.rows
        self._tally.in_flight[home.model] += batch.intent.rows

    def _interval_s(self, home: Home) -> float:
        """How long until a batch is asked after again: a tenth of its age, between the account's two bounds.

        The jitter depends on the batch and the number of looks alone.
        """
        age = self._world.clock() - home.since
        name = home.batch.name if home.batch else ""
        longest_s = self._habits.longest_poll_s if home.counters is None else self._habits.still_s
        return max(self._habits.poll_s, min(longest_s, age / 10)) * (0.9 + 0.2 * jitter(name, home.looks))

    async def _poll_regularly(self) -> None:
        with self._breaking():
            while True:
                for home, batch in self._due():
                    await self._look(home, batch)
                    home.due = self._world.clock() + self._interval_s(home)
                await asyncio.sleep(WAIT_S)

    def _due(self) -> list[tuple[Home, Batch]]:
        """The batches to be asked after now."""
        if "" in self._tally.stops:
            return []
        now = self._world.clock()
        at_vendor = [(h, h.batch) for h in self._open if h.batch and h.batch.phase is not Phase.IN_DOUBT]
        late = self._is_late()
        return [(h, b) for h, b in at_vendor if h.due <= now or (late and b.is_certain and not h.cancelled)]

    async def _look(self, home: Home, batch: Batch) -> None:
        """Ask after one batch, and harvest it if it has ended."""
        assert batch.batch_id is not None
        home.looks += 1
        try:
            if not home.cancelled and batch.is_certain and (reason := self._too_long(batch)):
                await self._api.cancel(batch.batch_id)
                home.cancelled = True
                self._tally.notes.append(f"batch {batch.name} {reason} and is cancelled")
            status = await self._api.poll(batch.batch_id)
            if not status.known and home.looks == 1:
                self._tally.notes.append(f"batch {batch.name} is in a state that is not known here: {status.word}")
            if status.ended and home.is_still(status.counters, self._world.clock(), self._habits.still_s):
                await self._harvest(home, batch, status)
        except ResultsGone as error:
            just_made = batch.is_certain and self._world.clock() - home.since <= YOUNG_S
            if batch.ended or not just_made:
                self._tally.notes.append(f"batch {batch.name} is gone at the vendor: {error}")
                self._give_up(home, "gone", str(error), self._cut_off(home, batch))
        except ProviderError as error:
            self._stop("", str(error))
        except CallError as error:
            self._tally.retries += 1
            if not isinstance(error, TransientError):
                self._tally.notes.append(f"batch {batch.name}: {error}")

    def _too_long(self, batch: Batch) -> str | None:
        """Why a batch is waited for no longer; None while it is."""
        if self._is_late():
            return "was not done by the deadline"
        age_s = (self._world.watch.today() - batch.intent.at).total_seconds()
        return f"was not done after {age_s:.0f} s" if age_s > self._habits.longest_s else None

    async def _harvest(self, home: Home, batch: Batch, status: BatchStatus) -> None:
        watch = self._world.watch
        if batch.ended is None:
            problem = str(status.problem) if status.problem else None
            self._ledger.add(batch, Ended(epoch=watch.epoch, at=watch.today(), word=status.word, problem=problem))
        hashes = body_hashes(await asyncio.to_thread(self._ledger.rows, batch))
        if home.harvest is None:
            home.harvest = await asyncio.to_thread(self._resumed, home.model, batch, hashes)
        await self._harvester.harvest(home.harvest, batch.intent, self._prices[home.model], hashes, status)
        self._ledger.add(batch, home.harvest.event(batch.intent.rows, watch.epoch, watch.today()))
        self._finish(home, home.harvest, hashes)
        self._heed(home, status, home.harvest)
        if batch.is_certain or home.harvest.answered:
            with suppress(CallError):
                await self._api.clean_up(status.id)

    def _resumed(self, model: str, batch: Batch, hashes: Mapping[str, str]) -> Harvest:
        """What an earlier process has filed of a batch before its harvest was cut off."""
        if batch.intent.epoch == self._world.watch.epoch:
            return Harvest()
        self._store.refresh(model)
        return Harvest.resumed(self._store.read(model, list(hashes)).values())

    def _heed(self, home: Home, status: BatchStatus, harvest: Harvest) -> None:
        """Draw the consequences of what a batch as a whole, or one of its lines, says of model or account."""
        assert home.batch is not None
        intent = home.batch.intent
        if isinstance(status.problem, RateLimited):
            self._queues.overflowed(home.model, self._enqueued(home.model), intent.tokens, status.problem)
            self._tally.deferred.update(home.waiting)
        elif status.problem is None:
            self._queues.passed(home.model)
        for problem in (status.problem, harvest.stop, harvest.refused):
            if isinstance(problem, ProviderError | ModelError | BatchRefused):
                self._heed_one(home.model, problem)
        if status.problem:
            self._tally.notes.append(f"batch {home.batch.name} {status.word}: {status.problem}")

    def _finish(self, home: Home, harvest: Harvest, hashes: Mapping[str, str]) -> None:
        paid_now = harvest.nanousd - harvest.earlier_nanousd
        if home.is_own:
            self._wallet.collect(home.nanousd, harvest.nanousd, harvest.lost_nanousd)
        self._tally.cost_nanousd += paid_now
        self._answered.add(sorted(harvest.answered), 0)
        self._open.remove(home)
        self._queues.ended(home.model)
        self._tally.in_flight[home.model] -= len(hashes)
        self._tally.finished.update(home.waiting)

    def _give_up(self, home: Home, word: str, problem: str, harvest: Harvest) -> None:
        """Close a batch that brings no more than what was harvested of it."""
        assert home.batch is not None
        self._placer.close(home.batch, word, problem, harvest)
        self._finish(home, harvest, body_hashes(self._ledger.rows(home.batch)))

    def _cut_off(self, home: Home, batch: Batch) -> Harvest:
        """What was harvested of a batch that is gone at the vendor; the rest may have been billed all the same."""
        harvest = home.harvest or self._resumed(home.model, batch, body_hashes(self._ledger.rows(batch)))
        harvest.lost_nanousd = max(0, batch.intent.nanousd - harvest.nanousd)
        return harvest
