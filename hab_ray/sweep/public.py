"""`hab_ray.run` and `hab_ray.plan`: the commands as functions, for scripts and notebooks."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hab_ray.config.sweep import Sweep, checked_sweep, load_sweep, without_contradictions
from hab_ray.errors import ConfigError, Exit, Interrupted, file_problem
from hab_ray.planning import Plan, make_plan
from hab_ray.planning.preflight import Problem, prepare, refuse_errors
from hab_ray.results import Run, open_run
from hab_ray.stopping import Stop
from hab_ray.sweep.options import Options
from hab_ray.sweep.start import run_work, write_results
from hab_ray.work import Work

_WHERE = "sweep"
LOG = logging.getLogger("hab_ray.run")
Given = str | Path | Mapping[str, Any] | Sweep
T = TypeVar("T")


def run(given: Given, options: Options) -> Run:
    """Run a sweep as far as it goes and open the run. Body of `hab_ray.run`."""
    now, stop = datetime.now(UTC), Stop()
    work, problems = _prepared(given, now)
    refuse_errors(problems)
    _say_all(problems)
    try:
        end = _in_thread(partial(run_work, work, options, stop, _say, now), stop)
    except Interrupted:
        raise KeyboardInterrupt from None
    _say_all((*end.notes, *(f"{who} was stopped: {why}" for who, why in end.stops.items())))
    if end.exit is Exit.INTERRUPTED:
        raise KeyboardInterrupt
    write_results(work)
    return open_run(work.run_path)


def plan(given: Given) -> Plan:
    """Plan the calls that a run of a sweep still has to make. Body of `hab_ray.plan`."""
    work, problems = _prepared(given, datetime.now(UTC))
    _say_all(problems)
    return make_plan(work)


def _say(text: str) -> None:
    LOG.warning("%s", text)


def _say_all(messages: Iterable[object]) -> None:
    for message in messages:
        _say(str(message))


def _prepared(given: Given, now: datetime) -> tuple[Work, list[Problem]]:
    try:
        return prepare(_sweep(given), now)
    except OSError as error:
        raise file_problem(error) or error from None


def _sweep(given: Given) -> Sweep:
    if isinstance(given, Sweep):
        return without_contradictions(given, _WHERE)
    if isinstance(given, Mapping):
        return checked_sweep(given, _WHERE)
    if not isinstance(given, str | Path):
        kind = type(given).__name__
        raise ConfigError(f"{_WHERE}: is of type {kind}; pass the path of a file, its keys as a dict, or a Sweep")
    return load_sweep(Path(given))


def _in_thread(task: Callable[[], T], stop: Stop) -> T:
    """Run a task in a new thread, which has no event loop even in a notebook; Ctrl-C requests a stop."""
    with _interrupts(stop.request), ThreadPoolExecutor(1, "hab_ray.run") as threads:
        return threads.submit(task).result()


@contextmanager
def _interrupts(on_interrupt: Callable[[], None]) -> Iterator[None]:
    """Have Ctrl-C call `on_interrupt`. Does nothing outside the main thread, which alone receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: on_interrupt())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
