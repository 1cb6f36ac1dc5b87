"""Chooses where online calls are made where the sweep says `executor: auto`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hab_ray.catalog import Limits
from hab_ray.sections import Validate
from hab_ray.storage.given_responses import GivenResponses
from hab_ray.work import Work, given_rows

# Measured with benchmarks/flow.py: one process keeps up 200 calls/s with half a core to spare.
MOST_PER_S = 200.0
MOST_CALLS = 20_000
RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # the job server sets it for the entry point alone
_OF_RAY = ("RAY_ADDRESS", RAY_JOB)
_TYPICAL_CALL_S = 4.0


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
    per_s = sum(_per_s(work, provider) for provider in _providers(work))
    if per_s > MOST_PER_S:
        return Choice("ray", f"the limits allow {per_s:.0f} calls/s, more than {MOST_PER_S:.0f}")
    calls = most_calls(work)
    if calls >= MOST_CALLS:
        return Choice("ray", f"there are up to {calls:,} calls, not below {MOST_CALLS:,}")
    return Choice("local", f"there are at most {calls:,} calls, below {MOST_CALLS:,}")


def cluster_named(environment: Mapping[str, str]) -> str | None:
    """The environment variable that names a Ray cluster to use; None where none does."""
    return next((name for name in _OF_RAY if environment.get(name)), None)


def _providers(work: Work) -> set[str]:
    """The providers that online calls may go to."""
    calling = (shard for shard in work.shards() if shard.spec.makes_calls)
    return {work.model(shard).entry.provider for shard in calling if work.mode(shard) != "batch"}


def _per_s(work: Work, provider: str) -> float:
    entry = work.catalog.providers[provider]
    return sum(calls_per_s(model.limits or entry.limits) for model in work.models_of(provider).values())


def calls_per_s(limits: Limits) -> float:
    """The most calls per second that limits allow, by their rate and by how many may be in flight."""
    at_once = limits.concurrent / _TYPICAL_CALL_S
    return at_once if limits.requests_per_minute is None else min(at_once, limits.requests_per_minute / 60)


def most_calls(work: Work) -> int:
    """The calls of a sweep, none of them answered yet, re-asks left out."""
    sweep = work.sweep
    making = 0
    if not sweep.gives_tests and sweep.generate and sweep.select:
        candidates = sweep.generate.candidates
        validations = candidates if isinstance(sweep.validation, Validate) else 0
        making = len(work.rubrics) * (candidates + validations + candidates)
    given = given_rows(work)
    asked_each = _tests(work, given) * sweep.samples
    answers, varied = asked_each * len(sweep.subjects), asked_each * len(sweep.varied_subjects)
    read = answers + sum(map(len, given.responses.values()))
    verdicts = read * (len(sweep.judges) + len(sweep.varied_judges)) + varied * len(sweep.judges)
    return making + answers + varied + verdicts * sweep.replicates


def _tests(work: Work, given: GivenResponses) -> int:
    sweep = work.sweep
    if sweep.gives_tests:
        return sum(map(len, given.tests.values()))
    return len(work.rubrics) * sweep.select.tests if sweep.select else 0
