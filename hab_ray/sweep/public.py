"""`hab_ray.run` and `hab_ray.plan`: the commands as functions, for scripts and notebooks."""

import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from hab_ray.config.sweep import Sweep, checked_sweep, load_sweep
from hab_ray.engine.descriptors import allow_open_files
from hab_ray.errors import ConfigError, Exit, Interrupted, problem_of
from hab_ray.planning import Plan, make_plan
from hab_ray.planning.preflight import prepare, refuse_second_run
from hab_ray.planning.problems import refuse_errors
from hab_ray.progress import Progress
from hab_ray.results import Run, open_run
from hab_ray.stopping import SAME_SIGNAL_S, SIGNALS, Stop, detach, open_terminals
from hab_ray.sweep.options import Options
from hab_ray.sweep.start import missing_results_reported, run_work, write_results

_WHERE = "sweep"
LOG = logging.getLogger("hab_ray.run")
Given = str | Path | Mapping[str, Any] | Sweep
T = TypeVar("T")


@contextmanager
def _errors_with_remedies() -> Iterator[None]:
    """Raise what ends a command, such as a full disk, as the error of ours that the command would show."""
    try:
        yield
    except (OSError, MemoryError) as error:
        problem = problem_of(error)
        if problem is None:
            raise
        for note in getattr(error, "__notes__", ()):
            problem.add_note(note)
        raise problem from None


@_errors_with_remedies()
def run(given: Given, options: Options) -> Run:
    """Run a sweep as far as it goes and open the run. Body of `hab_ray.run`."""
    allow_open_files()
    now, stop = datetime.now(UTC), Stop()
    work, problems = prepare(_sweep(given), now, options.failures_since)
    refuse_errors(problems)
    _say_all(problems)
    options = replace(options, watch=partial(_watch, options.watch, stop))
    try:
        end = _in_thread(partial(run_work, work, options, stop, _say, now), stop)
    except Interrupted:
        raise KeyboardInterrupt from None
    stops = (f"{who} was stopped: {why}" for who, why in end.stops.items())
    _say_all((*end.notes, *stops, *end.failed, *end.without_ok))
    if end.exit is Exit.INTERRUPTED:
        raise KeyboardInterrupt
    if end.exit is not Exit.COMPLETE:
        _say(end.exit.meaning)
    with missing_results_reported(work):
        write_results(work)
    return open_run(work.run_path)


@_errors_with_remedies()
def plan(given: Given) -> Plan:
    """Plan the calls that a run of a sweep still has to make. Body of `hab_ray.plan`."""
    work, problems = prepare(_sweep(given), datetime.now(UTC))
    _say_all(problems)
    return make_plan(work)


def _watch(watch: Callable[[Progress], None], stop: Stop, progress: Progress) -> None:
    """Pass progress to `watch`, which may stop the run by KeyboardInterrupt, in whichever thread the run is."""
    try:
        watch(progress)
    except KeyboardInterrupt:
        stop.request()


def _say(text: str) -> None:
    LOG.warning("%s", text)


def _say_all(messages: Iterable[object]) -> None:
    for message in messages:
        _say(str(message))


def _sweep(given: Given) -> Sweep:
    if isinstance(given, Sweep):
        return checked_sweep(keys_of(given), _WHERE)
    if isinstance(given, Mapping):
        return checked_sweep(given, _WHERE)
    if not isinstance(given, str | Path):
        kind = type(given).__name__
        raise ConfigError(f"{_WHERE}: is of type {kind}; pass the path of a file, its keys as a dict, or a Sweep")
    sweep = load_sweep(Path(given))
    refuse_second_run(sweep, Path(given))
    return sweep


def keys_of(given: Any) -> Any:
    """Return a sweep as keys and values, also within its sections, which `model_copy(update=...)` does not check."""
    if isinstance(given, list | tuple):
        return [keys_of(each) for each in given]
    if isinstance(given, Mapping):
        return {name: keys_of(value) for name, value in given.items()}
    if not isinstance(given, BaseModel):
        return given
    fields, given_names = type(given).model_fields, given.model_fields_set
    aliases = {name: field.alias or name for name, field in fields.items()}
    return {aliases.get(name, name): keys_of(value) for name, value in given if name in given_names}


def _in_thread(task: Callable[[], T], stop: Stop) -> T:
    """Run a task in a new thread, which has no event loop even in a notebook; the first signal requests a stop.

    The thread does not keep the process alive: once a second signal has raised KeyboardInterrupt here, a script ends.
    """
    ended: Future[T] = Future()

    def work() -> None:
        try:
            ended.set_result(task())
        except BaseException as error:
            ended.set_exception(error)

    with _signals(stop):
        threading.Thread(target=work, name="hab_ray.run", daemon=True).start()
        try:
            return ended.result()
        finally:
            if not stop.requested and not ended.done():  # a handler of the script raised an error
                stop.request()
                wait([ended])


@contextmanager
def _signals(stop: Stop) -> Iterator[None]:
    """Let the first signal request a stop, and a second raise KeyboardInterrupt.

    SIGTERM and SIGHUP are left to the script if it handles or ignores them. Does nothing outside the main thread, which
    alone receives signals.
    """

    def interrupt(number: int, _: object) -> None:
        if number == signal.SIGHUP:
            detach(terminals)
        if stop.since_s > SAME_SIGNAL_S:
            raise KeyboardInterrupt
        stop.request()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    terminals = open_terminals()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    ours = [number for number in SIGNALS if number == signal.SIGINT or before[number] == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
