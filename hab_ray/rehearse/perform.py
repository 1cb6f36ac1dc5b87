"""A rehearsal from its start to the comparison: simulator, drive, scores, truth, bills."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from hab_ray.analysis.summary import Summary, summarise
from hab_ray.catalog.addresses import outside_address
from hab_ray.errors import ConfigError, Exit, Interrupted
from hab_ray.executors.choice import cluster_named
from hab_ray.progress import RunEnd
from hab_ray.rehearse.comparison import Comparison, compare
from hab_ray.rehearse.people import compare_people, plant, with_ratings
from hab_ray.rehearse.place import rehearsing
from hab_ray.rehearse.profile import Play, contexts, digest, profile_of
from hab_ray.rehearse.staging import at
from hab_ray.rehearse.truth import Truth
from hab_ray.report import write_scores
from hab_ray.resolve import write_record
from hab_ray.results import open_run
from hab_ray.rows import ChosenTest
from hab_ray.rubric import LiteralPrompts
from hab_ray.stages.views import tests_file
from hab_ray.stopping import Stop
from hab_ray.sweep.options import Options
from hab_ray.sweep.run import drive
from hab_ray.sweep.session import Say, Session
from hab_ray.work import Shard, Work, given_tests
from hab_simulator import MeterReading, Profile, SimulatorClient, SimulatorFailed, SimulatorProcess

_LOOPBACK = "127.0.0.1"
_UNEQUAL, _FEWEST = 3, 2


@dataclass(frozen=True)
class Rehearsal:
    """What came of a rehearsal: how the run ended, its results beside the truth, our books beside the meter's."""

    end: RunEnd
    seconds: float
    summary: Summary
    comparison: Comparison
    meter: MeterReading

    @property
    def bills_agree(self) -> bool:
        """Whether our books say to the nano-dollar what the meter says was charged for replies that arrived."""
        return self.end.cost_nanousd == self.meter.charged - self.meter.lost_nanousd

    @property
    def passed(self) -> bool:
        """Whether the run is complete, everything was recovered and the bills agree."""
        return self.end.exit is Exit.COMPLETE and self.comparison.passed and self.bills_agree


def _refuse_what_hides_the_truth(work: Work, play: Play) -> None:
    if work.sweep.responses is not None and play.trouble.people.raters:
        raise ConfigError(
            "--faults: people: rate answers of subjects that are asked, and this sweep's are given under `responses:`; "
            "leave `people` out"
        )
    imported = [name for name, rubric in work.rubrics.items() if _makes_in(rubric.literal)] if work.makes_tests else []
    if imported:
        raise ConfigError(
            f"rubrics: the prompts of {', '.join(imported)} that write and validate queries are imported, and a "
            "simulated model knows imported wording of judges alone; rehearse the sweep with `tests:`, `responses:` or "
            "without its `rubrics:`"
        )


def _makes_in(literal: LiteralPrompts | None) -> bool:
    """Whether queries are written or validated in imported wording."""
    return literal is not None and (literal.generation or literal.validation) is not None


def perform(work: Work, play: Play, options: Options, stop: Stop, say: Say, now: datetime) -> Rehearsal:
    """Rehearse a staged work.

    Raises:
        ConfigError: its folders are not a rehearsal's, its tests cannot be told apart, its queries are written in
            imported wording, or the simulator did not start.
        StoreHeld: another driver has its store.
        Interrupted: the user ended it.
    """
    _refuse_what_hides_the_truth(work, play)
    profile = profile_of(work, play).model_copy(update={"host": _host()})
    with rehearsing(work, stop, say) as session, _simulator(profile) as simulator:
        write_record(work, now)
        return rehearsed(session, options, SimulatorClient(simulator.url), play)


def _host() -> str:
    """Where the simulator listens: on a cluster, where lanes of other nodes reach it. Nothing it says is secret."""
    return (cluster_named(os.environ) and outside_address()) or _LOOPBACK


def _simulator(profile: Profile) -> SimulatorProcess:
    try:
        return SimulatorProcess.start(profile)
    except SimulatorFailed as error:
        raise ConfigError(str(error)) from None


def rehearsed(session: Session, options: Options, client: SimulatorClient, play: Play) -> Rehearsal:
    """Drive a staged work at a simulator that plays its profile, and compare what comes of it.

    Raises:
        Interrupted: the user ended it.
    """
    started, work = time.monotonic(), session.work
    _place_unequally(work)
    announcing = replace(options, chosen=_announcing(work, client))
    end = _driven(session, announcing, client)
    summary = _scored(work)
    comparison = compare(work, summary, client)
    if play.trouble.people.raters and end.exit is Exit.COMPLETE:
        planted = plant(work, Truth.of(work, client), play.trouble.people, play.seed)
        rated = _driven(replace(session, work=with_ratings(work, planted)), announcing, client)
        summary = _scored(work)
        comparison = replace(
            compare(work, summary, client), people=compare_people(summary.run, summary, planted, rated.calls)
        )
    return Rehearsal(
        end=end,
        seconds=time.monotonic() - started,
        summary=summary,
        comparison=comparison,
        meter=client.meter(),
    )


def _place_unequally(work: Work) -> None:
    """Place given tests in the run, which keeps them: of every second and third dimension one and two are left out.

    A mean over all answers is then not the mean of the dimensions, which it must not pass for. Given answers stay.
    """
    if work.sweep.responses is not None:
        return
    for place, (dimension, tests) in enumerate(given_tests(work).items()):
        fewer = place % _UNEQUAL
        kept = tests[:-fewer] if fewer and len(tests) - fewer >= _FEWEST else tests
        work.run.write(ChosenTest, tests_file(dimension), kept)


def _driven(session: Session, options: Options, client: SimulatorClient) -> RunEnd:
    end = drive(replace(session, work=at(session.work, client.url)), options)
    if end.exit is Exit.INTERRUPTED:
        raise Interrupted("interrupted; the same command begins the rehearsal anew")
    return end


def _scored(work: Work) -> Summary:
    summary = summarise(open_run(work.run_path))
    write_scores(summary)
    return summary


def _announcing(work: Work, client: SimulatorClient) -> Callable[[Shard], None]:
    """Tells the simulator of a dimension's tests when they are chosen, before they are asked of anybody."""

    def announce(shard: Shard) -> None:
        if shard.spec.row is not ChosenTest:
            return
        tests = work.run.read(ChosenTest, shard.file)
        client.announce({digest(test.prompt): shard.dimension for test in tests}, contexts(tests))

    return announce
