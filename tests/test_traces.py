"""One row is followed through a sweep in this process: what docs/architecture.md says of its way is what happens."""

import configparser
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hab_ray.analysis.summary import summarise
from hab_ray.calls import Answer, ChatCall, Failure, Reply
from hab_ray.config.sweep import load_sweep
from hab_ray.engine.jobs import Job
from hab_ray.engine.limits.protocol import Report
from hab_ray.engine.online.sender import Request
from hab_ray.errors import Exit
from hab_ray.providers.base import Exchange, Wire
from hab_ray.resolve import resolve, write_record
from hab_ray.results import open_run
from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.stages.method.respond import ResponseTask
from hab_ray.stages.verdict_rows import VerdictTask
from hab_ray.stopping import Stop
from hab_ray.storage.lease.lease import LocalLease
from hab_ray.sweep.options import Options
from hab_ray.sweep.run import drive
from hab_ray.sweep.session import Session
from hab_simulator import Profile
from tests.conftest import Desk, started_simulator
from tests.forking import Forks
from tests.tracing import Step, Trace

pytestmark = pytest.mark.xdist_group("traces")

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs/architecture.md"
OF_THE_ROW = (
    ChosenTest,
    ResponseTask,
    VerdictTask,
    Job,
    ChatCall,
    Request,
    Wire,
    Exchange,
    Answer,
    Reply,
    Failure,
    Response,
    Verdict,
)
MAX_FILES, DEPTH = 12, 3
DIMENSION = "encourage_learning"
# What a lower floor calls though it stands above: callbacks and implementations that the upper floor handed down.
HANDED_DOWN = {
    "hab_ray.executors.budget.RunBudget.grant": "implements engine.budget.protocol.BudgetService",
    "hab_ray.executors.provider_engine.ProviderEngine._feed": "is the engine's `on_durable`",
    "hab_ray.executors.provider_engine.ProviderEngine._reported": "is what the engine's thread reports",
    "hab_ray.executors.online.RunSetup.guard.<locals>.check": "asks whether spending must end",
    "hab_ray.sweep.run._Run._url": "finds an account's URL, and starts a local model's server",
}


@dataclass(frozen=True)
class Traced:
    """The trace of a sweep of one test, one subject and one judge, whose first call was refused with a 429."""

    trace: Trace
    verdict: Verdict

    def first(self, found: Callable[[Step], bool]) -> Step:
        return next(step for step in self.trace.steps if found(step))


@pytest.fixture(scope="module")
def traced(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    folder, refused = tmp_path_factory.mktemp("traced"), {"kind": "status", "status": 429, "retry_after_s": 0.1}
    fault = {**refused, "probability": 1, "model": "alpha", "first_attempts": 1}
    simulator = started_simulator(forks, folder, Profile.model_validate({"folder": folder, "faults": [fault]}))
    trace, now, desk = Trace(), datetime.now(UTC), Desk(folder, forks)
    places = {name: str(folder / name) for name in ("run", "store")}
    one: dict[str, Any] = {"tests": desk.tests(1), "dimensions": [DIMENSION], "subjects": ["sim/alpha"]}
    sweep = desk.sweep("traced", simulator.url, executor="local", **places, **one)
    try:
        work = resolve(load_sweep(sweep), now)
        lease = LocalLease.acquire(work.sweep.store, work.run_path, now)
        write_record(work, now)
        with trace.on():
            assert drive(Session(work, lease, Stop()), Options()).exit is Exit.COMPLETE
            summarise(open_run(work.run_path))
        lease.release()
    finally:
        simulator.stop()
    (shard,) = (shard for shard in work.shards() if shard.spec.row is Verdict)
    (verdict,) = work.run.read(Verdict, shard.file)
    return Traced(trace, verdict)


def documented(event: str) -> list[str]:
    """The functions that the document says an event goes through."""
    (row,) = (line for line in DOCUMENT.read_text("utf-8").splitlines() if line.startswith(f"| {event} |"))
    return re.findall(r"`([^`]+)`", row)


def names(steps: Iterable[Step]) -> list[str]:
    """The public functions of these steps, each once."""
    return list(dict.fromkeys(step.function.dotted for step in steps if step.function.is_public))


def nearest(step: Step) -> Step:
    """The public function that a step was called by, itself or through private ones."""
    return next(caller for caller in step.callers() if caller.function.is_public)


def test_a_429(traced: Traced) -> None:
    """Whoever is handed a report of a refusal, apart from the report itself, and who made it."""
    told = [step for step in traced.trace.steps if any(map(_is_refusal, list(step.arguments.values())[1:]))]
    told = [step for step in told if step.function.module != Report.__module__]
    assert documented("a 429") == names([nearest(told[0]), *told])


def _is_refusal(given: Any) -> bool:
    return isinstance(given, Report) and bool(given.refused)


def test_a_durable_reply(traced: Traced) -> None:
    """Who has the reply written, who puts the file, and who makes the next stage's calls of it."""
    put = traced.first(lambda step: _puts_reply(step))
    *_, writes = (step for step in put.callers() if step.function.package == "storage")
    parsed = traced.first(lambda step: isinstance(step.result, Response) and step.function.is_public)
    assert documented("a durable reply") == names([nearest(writes), writes, nearest(parsed)])


def _puts_reply(step: Step) -> bool:
    return step.function.package == "storage" and str(step.arguments.get("name", "")).startswith("replies/")


def test_a_score(traced: Traced) -> None:
    """Who makes the verdict, who reads its letters out of the judge's words, and who counts."""
    verdict = traced.verdict
    made = traced.first(lambda step: isinstance(step.result, Verdict) and step.result.state is State.OK)
    steps = traced.trace.steps
    own = [made, *(step for step in steps if step.caller is made and not step.function.is_public)]
    called = [s for s in steps if s.function.is_public and any(s.caller is each for each in own)]
    (read,) = (step for step in called if getattr(step.result, "letters", None) == verdict.issues)
    (counted,) = (step for step in called if step.result == verdict.score and type(step.result) is int)
    assert verdict.score is not None
    assert documented("a score") == names([made, read, counted])


def test_few_files(traced: Traced) -> None:
    """Few files hand a row on, from the sweep file to the score.

    Those are the files in which a function that was handed the row (as its test, task, job, call, request, reply,
    response or verdict) calls one of another file with it. What only answers a question about the row, such as its hash
    or its price, and what keeps it, hands it to nobody.
    """
    found = dict.fromkeys(
        step.caller.function.module
        for step in traced.trace.steps
        if step.caller
        and step.function.module != step.caller.function.module
        and _holds_row(step)
        and _holds_row(step.caller)
    )
    assert len(found) <= MAX_FILES, "\n".join(found)


def _holds_row(step: Step) -> bool:
    return any(_is_of_row(given, DEPTH) for given in step.arguments.values())


def _is_of_row(given: Any, depth: int) -> bool:
    if isinstance(given, OF_THE_ROW) or not depth:
        return isinstance(given, OF_THE_ROW)
    if isinstance(given, Mapping):
        return any(_is_of_row(each, depth - 1) for each in given.values())
    return isinstance(given, list | tuple) and any(_is_of_row(each, depth - 1) for each in given)


def floors() -> dict[str, int]:
    """The height of every package and module, by the layers that import-linter checks."""
    layers = configparser.ConfigParser()
    layers.read(ROOT / ".importlinter")
    rows = layers["importlinter:contract:layers"]["layers"].split("\n")
    return {name: -row for row, line in enumerate(rows) for name in re.findall(r"\w+", line)}


def test_no_call_goes_up(traced: Traced) -> None:
    """No function calls one of a floor above its own, but for what was handed down to it, which is listed."""
    height = floors()
    upwards = {
        step.function.dotted
        for step in traced.trace.steps
        if step.is_call and step.caller and height[step.function.package] > height[step.caller.function.package]
    }
    assert upwards == set(HANDED_DOWN)
