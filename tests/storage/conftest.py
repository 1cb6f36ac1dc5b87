"""What the tests of storage share: replies and failures made by hand."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from hab_ray.calls import Failure, Finish, Reply, Usage
from hab_ray.errors import FailureKind


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def full(*_: object) -> None:
    """What a full disk does."""
    raise OSError(28, "No space left on device")


def key_of(name: str) -> str:
    """The key that a test calls by a name."""
    return sha256(name.encode()).hexdigest()


def reply(name: str, **changes: Any) -> Reply:
    """A reply for the key of a name, with any other field changed."""
    fields: dict[str, Any] = {
        "finish": Finish.OK,
        "usage": Usage(10, 4, 2, 20, 5),
        "cost_nanousd": 1_250,
        "model_reported": "m-2026",
        "served_by": "fp_1",
        "body_sha256": "ab" * 32,
        "at": datetime(2026, 11, 21, 9, 30, 0, 123456, UTC),
        "text": f"answer to {name}",
    }
    return Reply(key_of(name), **fields | changes)


def failure(name: str, message: str = "too long") -> Failure:
    """A permanent failure for the key of a name."""
    return Failure(key_of(name), FailureKind.TOO_LONG, attempts=3, message=message, cost_nanousd=7)
