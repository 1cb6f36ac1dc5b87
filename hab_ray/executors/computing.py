"""Computations in processes of their own on this machine: clustering holds the interpreter's lock for minutes."""

from __future__ import annotations

import multiprocessing
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from hab_ray.errors import EngineBroke
from hab_ray.executors.protocol import Compute, Event, ExecutorDied
from hab_ray.executors.settling import Site, compute_rows
from hab_ray.executors.threads import ThreadWorkers

AT_ONCE = 2


@dataclass(frozen=True)
class _Running:
    order: Compute
    process: BaseProcess
    answer: Connection


class Computations:
    """Runs computations, `AT_ONCE` at a time. They are spawned, not forked: this process has threads."""

    def __init__(self, site: Site) -> None:
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
        for one in [one for one in self._running if one.answer.poll() or not one.process.is_alive()]:
            self._running.remove(one)
            events.append(_answer(one))
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
            order = self._waiting.popleft()
            ours, theirs = spawn.Pipe(duplex=False)
            process = spawn.Process(target=_compute, args=(self._site, order, theirs), daemon=True)
            process.start()
            theirs.close()
            self._running.append(_Running(order, process, ours))


def _answer(one: _Running) -> Event:
    """What a computation's process has said, or that it died without a word."""
    try:
        event: Event = one.answer.recv()
    except EOFError:
        shard = one.order.shard
        event = ExecutorDied(
            EngineBroke(
                f"the process that chooses the tests of {shard.dimension} died (exit status {one.process.exitcode}); "
                "what was paid for is kept, and the same command goes on where this ended"
            )
        )
    return event


def _compute(site: Site, order: Compute, answer: Connection) -> None:
    try:
        event: Event = compute_rows(site, order, site.open_store(), ThreadWorkers())
    except Exception as error:  # whatever it is: the driver ends the run with it
        event = ExecutorDied(error)
    answer.send(event)
