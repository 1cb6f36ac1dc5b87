"""Rows in one line each."""

from hab_ray.analysis.marks import Answered, Judged, ScoreSettings
from hab_ray.rows import State

DIMENSIONS = ("d1", "d2")


def settings(
    *subjects: str,
    judges: tuple[str, ...] = ("j",),
    tests: dict[str, int] | None = None,
    samples: int = 1,
    replicates: int = 1,
) -> ScoreSettings:
    """What is asked: `tests` counts each dimension's tests, whose ids are `<dimension>-<number>`."""
    counts = tests or {"d1": 2}
    ids = {d: tuple(f"{d}-{i}" for i in range(count)) for d, count in counts.items()}
    return ScoreSettings(subjects or ("s",), judges, ids, samples, replicates)


def answer(
    test: str, *, subject: str = "s", sample: int = 0, state: State = State.OK, finish: str = "ok", reason: str = ""
) -> Answered:
    """A response to a test named `<dimension>-<number>`."""
    dimension = test.split("-")[0]
    key = f"{subject}/{test}/{sample}"
    return Answered(test, dimension, subject, sample, state, finish, reason, key)


def verdict(
    test: str,
    score: int | None,
    *,
    subject: str = "s",
    sample: int = 0,
    judge: str = "j",
    reason: str = "",
    replicate: int = 0,
    state: State | None = None,
) -> Judged:
    """A verdict; without a score it could not be read, unless its state is another."""
    state = state or (State.UNREADABLE if score is None else State.OK)
    dimension = test.split("-")[0]
    return Judged(test, dimension, subject, sample, state, judge, score, reason, "key", replicate)
