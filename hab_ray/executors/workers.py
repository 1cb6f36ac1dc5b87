"""Workers on this machine: a thread that settles shards, and a process for each computation."""

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

from hab_ray.errors import EngineBroke
from hab_ray.executors.protocol import Channel, Compute, Event, ExecutorDied, Settle
from hab_ray.executors.settling import WorkerContext, compute_rows, settle_shard

AT_ONCE = 2


@dataclass(frozen=True)
class _Running:
    order: Compute
    process: BaseProcess
    line: Connection


class Computations:
    """Runs computations, `AT_ONCE` at a time, in processes that are spawned, not forked: this process has threads.

    A process that is done takes the next order that waits, for its imports take seconds; if none does, it ends.
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
        """RowsComputed of those that have ended, ExecutorDied of those that could not."""
        events: list[Event] = []
        for one in [one for one in self._running if one.line.poll() or not one.process.is_alive()]:
            self._running.remove(one)
            try:
                events.append(one.line.recv())
            except (EOFError, OSError):
                events.append(_death(one))
            else:
                if self._waiting and one.process.is_alive():
                    self._give(one.process, one.line)
                    continue
            one.line.close()
            one.process.join()
        self._fill()
        return events

    def close(self) -> None:
        """End all processes at once."""
        self._waiting.clear()
        for one in self._running:
            one.process.kill()
            one.process.join()
        self._running.clear()

    def _fill(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        while self._waiting and len(self._running) < AT_ONCE:
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_compute, args=(self._site, theirs), daemon=True)
            process.start()
            theirs.close()
            self._give(process, ours)

    def _give(self, process: BaseProcess, line: Connection) -> None:
        order = self._waiting.popleft()
        with suppress(OSError):  # a process that has died is found when its answer is looked for
            line.send(order)
        self._running.append(_Running(order, process, line))


def _death(one: _Running) -> ExecutorDied:
    """What is said of a computation whose process died without a word."""
    one.process.join()
    return ExecutorDied(
        EngineBroke(
            f"the process that chooses the tests of {one.order.shard.dimension} died (exit status "
            f"{one.process.exitcode}); what was paid for is kept, and the same command goes on where this ended"
        )
    )


def _compute(site: WorkerContext, line: Connection) -> None:
    """Compute what is ordered until the line is closed."""
    while True:
        try:
            order: Compute = line.recv()
        except (EOFError, OSError):
            return
        try:
            event: Event = compute_rows(site, order, site.open_store())
        except Exception as error:  # whatever it is: the driver ends the run with it
            event = ExecutorDied(error)
        line.send(event)


class LocalWorkers:
    """Settles one shard after another in a background thread, which keeps one reader of the store.

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
        """Nothing to do: no request is sent here."""

    def end(self) -> Collection[Channel]:
        """No channel is opened here."""
        return ()

    def close(self) -> None:
        """Cut off computations; the thread begins no further order."""
        self._computations.close()
        self._is_closed = True
        self._orders.put(None)

    def _work(self) -> None:
        store = self._site.open_store()
        while (order := self._orders.get()) and not self._is_closed:
            try:
                event: Event = settle_shard(self._site, order, store)
            except Exception as error:  # whatever it is: the driver would wait for ever
                event = ExecutorDied(error)
            self._events.put(event)
            self._wake()
