"""Rows in one line each."""

from __future__ import annotations

from dataclasses import replace

from hab_ray.analysis.marks import ScoreSettings
from hab_ray.rows import Response, State, Verdict

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
    test: str,
    *,
    subject: str = "s",
    sample: int = 0,
    state: State = State.OK,
    finish: str = "ok",
    reason: str = "",
    sent: str = "",
) -> Response:
    """A response to a test named `<dimension>-<number>`."""
    dimension = test.split("-")[0]
    key = f"{subject}/{test}/{sample}"
    return Response(test, dimension, subject, sample, state, "text", finish, sent, "m-1", "", reason, key)


def verdict(
    test: str,
    score: int | None,
    *,
    subject: str = "s",
    sample: int = 0,
    judge: str = "j",
    reason: str = "",
    replicate: int = 0,
) -> Verdict:
    """A verdict; without a score it could not be read."""
    state = State.UNREADABLE if score is None else State.OK
    dimension = test.split("-")[0]
    row = Verdict(test, dimension, subject, sample, judge, state, (), "", score, 1, reason, "key")
    return replace(row, replicate=replicate)
