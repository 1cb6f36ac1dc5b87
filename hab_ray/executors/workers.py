"""Workers on this machine: a thread that settles shards, and processes that compute rows."""

from __future__ import annotations

import multiprocessing
import queue
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from hab_ray.errors import EngineBroke, sendable
from hab_ray.executors.protocol import Channel, Compute, Event, ExecutorDied, Settle
from hab_ray.executors.settling import WorkerContext, compute_rows, settle_shard

MAX_PROCESSES = 2


@dataclass(frozen=True)
class _Running:
    order: Compute
    process: BaseProcess
    pipe: Connection


class Computations:
    """Computations in at most `MAX_PROCESSES` processes, which are spawned rather than forked because of our threads.

    A process that has finished takes the next waiting order, which saves seconds of imports, or else ends.
    """

    def __init__(self, site: WorkerContext) -> None:
        self._site = site
        self._waiting: deque[Compute] = deque()
        self._running: list[_Running] = []

    def start(self, order: Compute) -> None:
        """Compute a shard's rows as soon as a process is free."""
        self._waiting.append(order)
        self._fill()

    def poll(self) -> list[Event]:
        """Return RowsComputed for finished computations and ExecutorDied for those that failed."""
        events: list[Event] = []
        for one in [one for one in self._running if one.pipe.poll() or not one.process.is_alive()]:
            self._running.remove(one)
            try:
                events.append(one.pipe.recv())
            except (EOFError, OSError):
                events.append(_death(one))
            else:
                if self._waiting and one.process.is_alive():
                    self._assign_next(one.process, one.pipe)
                    continue
            one.pipe.close()
            one.process.join()
        self._fill()
        return events

    def close(self) -> None:
        """Kill all processes."""
        self._waiting.clear()
        for one in self._running:
            one.process.kill()
            one.process.join()
        self._running.clear()

    def _fill(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        while self._waiting and len(self._running) < MAX_PROCESSES:
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_compute, args=(self._site, theirs), daemon=True)
            process.start()
            theirs.close()
            self._assign_next(process, ours)

    def _assign_next(self, process: BaseProcess, pipe: Connection) -> None:
        order = self._waiting.popleft()
        with suppress(OSError):  # `poll` notices a dead process
            pipe.send(order)
        self._running.append(_Running(order, process, pipe))


def _death(one: _Running) -> ExecutorDied:
    one.process.join()
    return ExecutorDied(
        EngineBroke(
            f"the process that chooses the tests of {one.order.shard.dimension} died (exit status "
            f"{one.process.exitcode}); what was paid for is kept; run the same command again to resume"
        )
    )


def _compute(site: WorkerContext, pipe: Connection) -> None:
    while True:
        try:
            order: Compute = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            event: Event = compute_rows(site, order, site.open_store())
        except Exception as error:  # the driver ends the run with any error
            event = ExecutorDied(sendable(error))
        pipe.send(event)


class LocalWorkers:
    """A background thread that settles one shard after another with one reader of the store, and `Computations`.

    The thread starts with the first order.
    """

    def __init__(self, site: WorkerContext, wake: Callable[[], None]) -> None:
        self._site, self._wake = site, wake
        self._orders: queue.SimpleQueue[Settle | None] = queue.SimpleQueue()
        self._is_closed = False
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._computations = Computations(site)

    def settle(self, order: Settle) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="settling", daemon=True)
            self._thread.start()
        self._orders.put(order)

    def compute(self, order: Compute) -> None:
        self._computations.start(order)

    def poll(self) -> Sequence[Event]:
        events = self._computations.poll()
        while not self._events.empty():
            events.append(self._events.get())
        return events

    def stop(self, drain_s: float) -> None:
        """Do nothing: workers send no requests."""

    def end(self) -> Collection[Channel]:
        """Return nothing: workers have no channels."""
        return ()

    def close(self) -> None:
        """Kill computations and let the thread end after its current order."""
        self._computations.close()
        self._is_closed = True
        self._orders.put(None)

    def _work(self) -> None:
        store = self._site.open_store()
        while (order := self._orders.get()) and not self._is_closed:
            try:
                event: Event = settle_shard(self._site, order, store)
            except Exception as error:  # any error, or the driver would wait forever
                event = ExecutorDied(error)
            self._events.put(event)
            self._wake()
