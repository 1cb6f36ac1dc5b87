"""The choice of the online executor for a sweep with `executor: auto`."""

from collections.abc import Mapping
from dataclasses import dataclass

from hab_ray.resources import RAY_JOB
from hab_ray.work import Work, given_rows, goes_by_batch

# Ray takes about 20 s and 1.5 GB to start. At 400 calls/s, against 250 in one process (`benchmarks/flow.py`), it makes
# up for that after about 14,000 calls.
MAX_CALLS = 20_000
_RAY_VARIABLES = ("RAY_ADDRESS", RAY_JOB)


@dataclass(frozen=True)
class Choice:
    """The chosen executor, "local" or "ray", and the reason as a clause for the user."""

    executor: str
    reason: str


def choose_executor(work: Work, environment: Mapping[str, str]) -> Choice:
    """Choose where to make the online calls of a run.

    `auto` means this process, unless the environment names a Ray cluster or there are `MAX_CALLS` or more.
    """
    if work.sweep.executor != "auto":
        return Choice(work.sweep.executor, "as the sweep says")
    named = cluster_named(environment)
    if named:
        return Choice("ray", f"{named} is set")
    if online_calls(work) >= MAX_CALLS:
        return Choice("ray", f"there may be {MAX_CALLS:,} online calls or more")
    return Choice("local", f"there are fewer than {MAX_CALLS:,} online calls")


def cluster_named(environment: Mapping[str, str]) -> str | None:
    """Return the environment variable that names the Ray cluster to use; None if none is set."""
    return next((name for name in _RAY_VARIABLES if environment.get(name)), None)


def online_calls(work: Work) -> int:
    """Return the number of calls of a sweep that do not go by batch."""
    calls, entries = calls_by_key(work), {name: model.entry for name, model in work.models.items()}
    return sum(
        calls[key]
        for key, name, mode in work.sweep.modes_by_key()
        if not goes_by_batch(entries[name], mode, calls[key])
    )


def calls_by_key(work: Work) -> dict[str, int]:
    """Return the number of calls to each model of an unanswered sweep, by its key in the sweep, without re-asks."""
    sweep, given = work.sweep, given_rows(work)
    candidates = len(work.rubrics) * sweep.generate.candidates if sweep.generate else 0
    chosen = len(work.rubrics) * sweep.select.tests if sweep.select else 0
    tests = sum(map(len, given.tests.values())) if sweep.gives_tests else chosen
    asked = tests * sweep.samples
    judged = asked * len(sweep.subjects) + sum(map(len, given.responses.values()))
    verdicts = judged * (1 + len(sweep.variants.judges)) + asked * len(sweep.varied_subjects)
    each = {
        "generate": candidates,
        "validate": candidates,
        "select": candidates,
        "subjects": asked * (1 + len(sweep.variants.subjects)),
        "judges": verdicts * sweep.replicates,
    }
    return {key: each[key.partition(".")[0]] for key, _, _ in sweep.modes_by_key()}
