"""Chooses where online calls are made where the sweep says `executor: auto`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hab_ray.resources import RAY_JOB
from hab_ray.work import Work, given_rows, goes_by_batch

if TYPE_CHECKING:
    from hab_ray.given.responses import GivenResponses

# Ray takes some 20 s and 1.5 GB to start, and at 400 calls/s has made that good after some 14,000 calls: one process
# keeps up about 250 (`benchmarks/flow.py`).
MAX_CALLS = 20_000
_OF_RAY = ("RAY_ADDRESS", RAY_JOB)


@dataclass(frozen=True)
class Choice:
    """`executor` is "local" or "ray", `reason` a clause for the user."""

    executor: str
    reason: str


def choose_executor(work: Work, environment: Mapping[str, str]) -> Choice:
    """Where the online calls of a run are made.

    In this process, unless there is a Ray cluster to use, or more to do than one process is good for.
    """
    if work.sweep.executor != "auto":
        return Choice(work.sweep.executor, "as the sweep says")
    named = cluster_named(environment)
    if named:
        return Choice("ray", f"{named} is set")
    calls = online_calls(work)
    if calls >= MAX_CALLS:
        return Choice("ray", f"there are up to {calls:,} online calls, not below {MAX_CALLS:,}")
    return Choice("local", f"there are at most {calls:,} online calls, below {MAX_CALLS:,}")


def cluster_named(environment: Mapping[str, str]) -> str | None:
    """The environment variable that names a Ray cluster to use; None where none does."""
    return next((name for name in _OF_RAY if environment.get(name)), None)


def online_calls(work: Work) -> int:
    """The calls of a sweep that do not go by batch."""
    calls, entries = calls_by_key(work), {name: model.entry for name, model in work.models.items()}
    return sum(
        calls[key]
        for key, name, mode in work.sweep.modes_by_key()
        if not goes_by_batch(entries[name], mode, calls[key])
    )


def calls_by_key(work: Work) -> dict[str, int]:
    """The calls to each model that the sweep names, by its key there; none is answered yet, re-asks left out."""
    sweep, given = work.sweep, given_rows(work)
    candidates = len(work.rubrics) * sweep.generate.candidates if sweep.generate else 0
    asked = _tests(work, given) * sweep.samples
    read = asked * len(sweep.subjects) + sum(map(len, given.responses.values()))
    verdicts = read * (1 + len(sweep.variants.judges)) + asked * len(sweep.varied_subjects)
    each = {
        "generate": candidates,
        "validate": candidates,
        "select": candidates,
        "subjects": asked * (1 + len(sweep.variants.subjects)),
        "judges": verdicts * sweep.replicates,
    }
    return {key: each[key.partition(".")[0]] for key, _ in sweep.models_by_key()}


def _tests(work: Work, given: GivenResponses) -> int:
    sweep = work.sweep
    if sweep.gives_tests:
        return sum(map(len, given.tests.values()))
    return len(work.rubrics) * sweep.select.tests if sweep.select else 0
