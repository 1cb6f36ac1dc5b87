"""The executor that completes calls online in this process, with one thread per provider. Needs no Ray."""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Generic, TypeVar

from hab_ray.catalog.models import folder_name
from hab_ray.catalog.prices import Mode
from hab_ray.engine.online.reply_writer import MAX_QUEUED
from hab_ray.errors import EngineBroke
from hab_ray.executors.account_lock import AccountLock
from hab_ray.executors.online import RunSetup, account_name, account_setup
from hab_ray.executors.protocol import (
    Channel,
    ChannelEnded,
    Compute,
    Dispatch,
    DispatchEnded,
    Event,
    ExecutorDied,
    Settle,
    Workers,
)
from hab_ray.executors.provider_engine import EngineReport, ProviderEngine, events_of, read_in_thread
from hab_ray.executors.settling import WorkerContext, compute_rows, settle_shard
from hab_ray.storage.replies.store import Store

Order = TypeVar("Order", Settle, Compute)


class _Worker(Generic[Order]):
    """A thread that carries out one order after another with one reader of the store, from the first order on."""

    def __init__(
        self,
        name: str,
        site: WorkerContext,
        carry_out: Callable[[WorkerContext, Order, Store], Event],
        tell: Callable[[Event], None],
    ) -> None:
        self._name, self._site, self._tell = name, site, tell
        self._carry_out: Callable[[Order, Store], Event] = partial(carry_out, site)
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def start(self, order: Order) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._orders.put(order)

    def close(self) -> None:
        """Let the thread end after its current order."""
        self._is_closed = True
        self._orders.put(None)

    def join(self) -> None:
        if self._thread:
            self._thread.join()

    def _work(self) -> None:
        try:
            store = self._site.open_store()
            while (order := self._orders.get()) and not self._is_closed:
                self._tell(self._carry_out(order, store))
        except Exception as error:  # any error, or the driver would wait forever
            self._tell(ExecutorDied(error))


class LocalWorkers:
    """Settles in one thread and computes in another, so that choosing among many candidates holds up no other shard.

    Threads are enough: nearly all of a choice is spent in libraries that let other threads run meanwhile.
    """

    def __init__(self, site: WorkerContext, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._events: deque[Event] = deque()
        self._settling = _Worker("settling", site, settle_shard, self._tell)
        self._computing = _Worker("computing", site, compute_rows, self._tell)

    def settle(self, order: Settle) -> None:
        self._settling.start(order)

    def compute(self, order: Compute) -> None:
        self._computing.start(order)

    def poll(self) -> Sequence[Event]:
        return [self._events.popleft() for _ in range(len(self._events))]

    def stop(self, drain_s: float) -> None:
        """Do nothing: workers send no requests."""

    def end(self) -> Collection[Channel]:
        """Return nothing: workers have no channels."""
        return ()

    def close(self) -> None:
        """Let both threads end after their current orders, and wait for a choice.

        If Python ended amid one, the library's memory would be freed under its hands, and the process would abort.
        """
        self._settling.close()
        self._computing.close()
        self._computing.join()

    def _tell(self, event: Event) -> None:
        self._events.append(event)
        self._wake()


ANSWER_S = 20.0


@dataclass(frozen=True)
class _Account:
    """The engine of one provider account, and the lock that keeps other processes from calling it."""

    channel: Channel
    engine: ProviderEngine
    lock: AccountLock | None

    def report(self) -> EngineReport:
        """Return the engine's report; raise EngineBroke if the engine's thread did not answer within `ANSWER_S`."""
        try:
            return self.engine.report().result(ANSWER_S)
        except TimeoutError:
            raise EngineBroke(
                f"the thread that calls {self.channel.provider} does not answer; what was paid for is kept, and the "
                "same command resumes the run"
            ) from None


class LocalExecutor:
    """The online executor in the driver's process. An engine opens at its provider's first dispatch."""

    def __init__(self, setup: RunSetup, wake: Callable[[], None]) -> None:
        self._setup, self._wake = setup, wake
        self._accounts: dict[str, _Account] = {}
        self._under_way: dict[int, Future[None]] = {}
        self._ending: dict[Channel, Future[EngineReport]] | None = None

    @property
    def workers(self) -> Workers | None:
        """None: `LocalWorkers` settle and compute."""
        return None

    def start(self, dispatch: Dispatch) -> Channel:
        account, site = self._account(dispatch.provider), self._setup.site
        account.engine.follow(dispatch.feeds, site)
        jobs = read_in_thread(site.pending.jobs(dispatch.spools))
        end = account.engine.complete(jobs, inf if dispatch.is_flowing else MAX_QUEUED)
        end.add_done_callback(lambda _: self._wake())
        self._under_way[dispatch.order] = end
        return account.channel

    @property
    def is_parked(self) -> bool:
        return not self._under_way

    def poll(self) -> Sequence[Event]:
        if self._ending is not None:
            return list(self._last_events(self._ending))
        try:
            return list(self._events())
        except Exception as error:  # any error of an engine ends the run
            return [ExecutorDied(error)]

    def _events(self) -> Iterator[Event]:
        ended = [order for order, end in self._under_way.items() if end.done()]
        for account in self._accounts.values():
            if account.engine.is_open:
                yield from events_of(account.channel, account.report())
        for order in ended:
            self._under_way.pop(order).result()
            yield DispatchEnded(order)

    def _last_events(self, ending: dict[Channel, Future[EngineReport]]) -> Iterator[Event]:
        for channel in [channel for channel, last in ending.items() if last.done()]:
            last = ending.pop(channel)
            if last.exception() is None:
                yield from events_of(channel, last.result())
            yield ChannelEnded(channel)

    def stop(self, drain_s: float) -> None:
        for account in list(self._accounts.values()):
            account.engine.stop(drain_s)

    def end(self) -> Collection[Channel]:
        self._ending = {account.channel: account.engine.close() for account in self._accounts.values()}
        for last in self._ending.values():
            last.add_done_callback(lambda _: self._wake())
        return list(self._ending)

    def close(self) -> None:
        """Release the account locks. Engine threads that have not ended will end with the process."""
        for account in self._accounts.values():
            if account.lock:
                account.lock.release()

    def _account(self, provider: str) -> _Account:
        if provider not in self._accounts:
            setup, work = account_setup(self._setup, provider), self._setup.site.work
            name = account_name(provider, setup.url, setup.entry.key_env)
            lock = None if setup.entry.serve else AccountLock(name, provider, str(work.run_path.absolute()))
            writer = f"{folder_name(provider)}-{os.getpid()}"
            services = setup.alone(self._setup.budget, self._setup.lease.watch())
            engine = ProviderEngine(setup, writer, services, self._setup.wait_s)
            self._accounts[provider] = _Account(Channel(provider, Mode.ONLINE), engine, lock)
        return self._accounts[provider]
