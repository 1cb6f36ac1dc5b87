"""Workers on this machine: a thread that settles shards, and a process for each computation."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Sequence

from hab_ray.executors.computing import Computations
from hab_ray.executors.protocol import Channel, Compute, Event, ExecutorDied, Settle
from hab_ray.executors.settling import Site, settle_shard


class LocalWorkers:
    """Settles one shard after another in a background thread, which keeps one reader of the store.

    The thread starts with the first order.
    """

    def __init__(self, site: Site, wake: Callable[[], None]) -> None:
        self._site, self._wake = site, wake
        self._orders: queue.SimpleQueue[Settle] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._computations = Computations(site)

    def settle(self, order: Settle) -> None:
        """See Workers."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="settling", daemon=True)
            self._thread.start()
        self._orders.put(order)

    def compute(self, order: Compute) -> None:
        """See Workers."""
        self._computations.start(order)

    def poll(self) -> Sequence[Event]:
        """See Service."""
        events = self._computations.poll()
        while not self._events.empty():
            events.append(self._events.get())
        return events

    def stop(self, drain_s: float) -> None:
        """Nothing to do: no request is sent here."""

    def end(self) -> Collection[Channel]:
        """See Service. No channel is opened here."""
        return ()

    def close(self) -> None:
        """Cut off computations; the thread ends with the process."""
        self._computations.close()

    def _work(self) -> None:
        store = self._site.open_store()
        while True:
            order = self._orders.get()
            try:
                event: Event = settle_shard(self._site, order, store)
            except Exception as error:  # whatever it is: the driver would wait for ever
                event = ExecutorDied(error)
            self._events.put(event)
            self._wake()
