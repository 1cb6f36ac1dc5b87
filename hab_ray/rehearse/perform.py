"""Runs a rehearsal: starts the simulator, drives the sweep, and compares scores and bills with the truth."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from hab_ray.analysis.summary import Summary, summarise
from hab_ray.catalog.addresses import outside_address
from hab_ray.errors import ConfigError, Exit, Interrupted
from hab_ray.executors.choice import cluster_named
from hab_ray.location import Location
from hab_ray.progress import RunEnd
from hab_ray.providers.access import proxy_bypassed
from hab_ray.rehearse.comparison import Comparison, compare
from hab_ray.rehearse.people import compare_people, plant, with_ratings
from hab_ray.rehearse.profile import Play, contexts, digest, profile_of
from hab_ray.rehearse.staging import at
from hab_ray.rehearse.truth import Truth
from hab_ray.report import write_scores
from hab_ray.resolve import write_record
from hab_ray.results import open_run
from hab_ray.rows import ChosenTest
from hab_ray.stages.views import tests_file
from hab_ray.stopping import Stop
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.store import Store
from hab_ray.storage.run import FIGURES, MARKER, OF_A_RUN, SHEETS, SWEEP
from hab_ray.sweep.options import Options
from hab_ray.sweep.run import drive
from hab_ray.sweep.session import Say, Session, spending
from hab_ray.work import Shard, Work, given_tests
from hab_simulator import MeterReading, Profile, SimulatorClient, SimulatorFailed, SimulatorProcess

_LOOPBACK = "127.0.0.1"
_MIN_TESTS = 2
_MARKER_TEXT = "The files in this folder came from the simulator. The next rehearsal here replaces them.\n"
_KEPT = (SHEETS, FIGURES)
_OF_A_STORE = ("replies", "embeddings", "failures", "sidecars", "ledger", "closed", "lost", "budget", "runs")


@dataclass(frozen=True)
class Rehearsal:
    """Result of a rehearsal: the run's end, its comparison with the truth, and the simulator's meter.

    `stored_nanousd` is the cost of all outcomes in its store.
    """

    end: RunEnd
    seconds: float
    summary: Summary
    comparison: Comparison
    meter: MeterReading
    stored_nanousd: int

    @property
    def pays_once(self) -> bool:
        """Whether our costs equal those of all outcomes in the store, of which it has one for each call."""
        return self.end.cost_nanousd == self.stored_nanousd

    @property
    def bills_agree(self) -> bool:
        """Whether our costs equal, to the nano-dollar, what the meter charged for replies that arrived."""
        return self.end.cost_nanousd == self.arrived_nanousd

    @property
    def arrived_nanousd(self) -> int:
        """What the meter charged for replies that arrived."""
        return self.meter.charged - self.meter.lost_nanousd

    @property
    def passed(self) -> bool:
        """Whether the run is complete, the truth was recovered, the bills agree and no call was paid for twice."""
        return self.end.exit is Exit.COMPLETE and self.comparison.passed and self.bills_agree and self.pays_once


def _refuse_unsupported(work: Work, play: Play) -> None:
    if work.sweep.responses is not None and play.trouble.people.raters:
        raise ConfigError(
            "--faults: people: can only rate answers that subjects give in the run, but this sweep's are given under "
            "`responses:`; leave `people` out"
        )
    imported = [
        name
        for name, rubric in (work.rubrics.items() if work.makes_tests else ())
        if rubric.literal is not None and (rubric.literal.generation or rubric.literal.validation) is not None
    ]
    if imported:
        raise ConfigError(
            f"rubrics: the prompts of {', '.join(imported)} that write and validate queries are imported, but a "
            "simulated model knows only the imported wording of judges; rehearse the sweep with `tests:`, `responses:` "
            "or without its `rubrics:`"
        )


def perform(work: Work, play: Play, options: Options, stop: Stop, say: Say, now: datetime) -> Rehearsal:
    """Rehearse a staged work.

    Raises:
        ConfigError: its folders hold something other than a rehearsal, its tests are not distinct, its queries are
            written in imported wording, or the simulator did not start.
        StoreHeld: another driver holds its store.
        Interrupted: the user ended the rehearsal.
    """
    _refuse_unsupported(work, play)
    outside = cluster_named(os.environ) and outside_address()  # which other nodes can reach; it holds nothing secret
    host = outside or _LOOPBACK
    profile = profile_of(work, play).model_copy(update={"host": host})
    with rehearsing(work, stop, say) as session, _simulator(profile) as simulator, proxy_bypassed(host):
        write_record(work, now)
        return rehearsed(session, options, SimulatorClient(simulator.url), play)


def _simulator(profile: Profile) -> SimulatorProcess:
    try:
        return SimulatorProcess.start(profile)
    except SimulatorFailed as error:
        raise ConfigError(str(error)) from None


def rehearsed(session: Session, options: Options, client: SimulatorClient, play: Play) -> Rehearsal:
    """Drive a staged work at a simulator that plays its profile, and compare the results with the truth.

    Raises:
        Interrupted: the user ended the rehearsal.
    """
    started, work = time.monotonic(), session.work
    _write_given_tests(work)
    announcing = replace(options, chosen=_announcer(work, client))
    end = _drive(session, announcing, client)
    summary = _score(work)
    comparison = compare(work, summary, client)
    if play.trouble.people.raters and end.exit is Exit.COMPLETE:
        planted = plant(work, Truth(work, client), play.trouble.people, play.seed)
        rated = _drive(replace(session, work=with_ratings(work, planted)), announcing, client)
        summary = _score(work)
        comparison = replace(
            compare(work, summary, client), people=compare_people(summary.run, summary, planted, rated.calls)
        )
    store = Store(open_folder(work.sweep.store))
    return Rehearsal(
        end=end,
        seconds=time.monotonic() - started,
        summary=summary,
        comparison=comparison,
        meter=client.meter(),
        stored_nanousd=sum(sum(store.costs(name, list(store.known([name]))).values()) for name in work.models),
    )


def _write_given_tests(work: Work) -> None:
    """Write given tests into the run, with one or two fewer in some dimensions; given answers need all their tests.

    With unequal numbers, a mean over all answers differs from the mean of the dimensions and so cannot pass for it.
    """
    if work.sweep.responses is not None:
        return
    for number, (dimension, tests) in enumerate(given_tests(work).items()):
        dropped = number % 3
        kept = tests[:-dropped] if dropped and len(tests) - dropped >= _MIN_TESTS else tests
        work.run.write(ChosenTest, tests_file(dimension), kept)


def _drive(session: Session, options: Options, client: SimulatorClient) -> RunEnd:
    end = drive(replace(session, work=at(session.work, client.url)), options)
    if end.exit is Exit.INTERRUPTED:
        raise Interrupted("interrupted; the same command restarts the rehearsal")
    return end


def _score(work: Work) -> Summary:
    summary = summarise(open_run(work.run_path))
    write_scores(summary)
    return summary


def _announcer(work: Work, client: SimulatorClient) -> Callable[[Shard], None]:
    """Return a function that tells the simulator a dimension's chosen tests, before any subject is asked them."""

    def announce(shard: Shard) -> None:
        if shard.spec.row is not ChosenTest:
            return
        tests = work.run.read(ChosenTest, shard.file)
        client.announce({digest(test.prompt): shard.dimension for test in tests}, contexts(tests))

    return announce


@contextmanager
def rehearsing(work: Work, stop: Stop, say: Say) -> Iterator[Session]:
    """Hold the store for a rehearsal, and remove an earlier rehearsal's files from both folders.

    Simulated replies are kept from paid ones twice. Keys of rehearsed calls differ (their `as_of` is "simulated"). And
    both folders carry a marker: a rehearsal accepts only empty or marked folders, and a real run refuses marked ones.

    A rehearsal starts from nothing, because a new simulator knows only the truth of its own answers. The keys of
    raters' sheets and the figures stay: with the same seed the answers are the same.

    Raises:
        ConfigError: a folder holds something other than a rehearsal.
        StoreHeld: another driver holds the store.
    """
    folders = {"run": work.run_path, "store": work.sweep.store}
    for option, folder in folders.items():
        _mark(option, folder)
    with spending(work, stop, say) as session:
        _remove(work.run_path, (SWEEP, *(name for name in OF_A_RUN if name not in _KEPT)))
        _remove(work.sweep.store, _OF_A_STORE)
        yield session


def _mark(option: str, location: Location) -> None:
    folder = open_folder(location)
    if folder.exists(MARKER):
        return
    if not _is_empty(location):
        raise ConfigError(
            f"--{option} {location}: is not empty and does not come from a rehearsal (no {MARKER}); a rehearsal needs "
            f"a separate folder: omit --{option}, or name a new one"
        )
    folder.put(MARKER, _MARKER_TEXT.encode())


def _is_empty(location: Location) -> bool:
    try:
        return not open_folder(location).list()
    except NotADirectoryError:
        return False


def _remove(location: Location, names: tuple[str, ...]) -> None:
    folder = open_folder(location)
    for name in names:
        for file in [name] if folder.exists(name) else folder.list(name):
            folder.delete(file)
