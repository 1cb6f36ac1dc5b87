"""Workers on this machine: a thread that settles shards, and one that computes rows beside it."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Generic, TypeVar

from hab_ray.executors.protocol import Channel, Compute, Event, ExecutorDied, Settle
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
