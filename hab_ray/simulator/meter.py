"""The meter: what was received, refused, lost and charged, counted exactly and cheaply."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

from hab_ray.simulator.asks import Bill

_DOUBLES_SHOWN = 20
_SECONDS_SHOWN = 30


class Outcome(StrEnum):
    """What became of a request; each has exactly one."""

    BILLED = "billed"
    LOST = "lost"
    REFUSED = "refused"
    FAULTED = "faulted"


@dataclass(slots=True)
class Counts:
    """Counters of one model: `received` = billed + refused + faulted.

    `lost_after_billing` is the part of billed whose reply never arrived whole.
    """

    received: int = 0
    billed: int = 0
    refused: int = 0
    faulted: int = 0
    lost_after_billing: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_written_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    nanousd: int = 0

    def add(self, outcome: Outcome, bill: Bill | None) -> None:
        """Count one request."""
        self.received += 1
        if outcome is Outcome.REFUSED:
            self.refused += 1
        elif outcome is Outcome.FAULTED:
            self.faulted += 1
        if bill is None:
            return
        self.billed += 1
        self.lost_after_billing += outcome is Outcome.LOST
        self.input_tokens += bill.usage.input
        self.cached_tokens += bill.usage.cached
        self.cache_written_tokens += bill.usage.written
        self.output_tokens += bill.usage.output
        self.reasoning_tokens += bill.usage.reasoning
        self.nanousd += bill.nanousd

    def reading(self) -> dict[str, int]:
        """The counters by name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One request in order of arrival; `status` is None where no HTTP answer was given."""

    number: int
    account: str
    model: str
    path: str
    digest: bytes
    status: int | None
    outcome: Outcome
    body: bytes | None

    @property
    def label(self) -> bytes:
        """What makes two requests the same: account, path (Gemini's holds the model) and body."""
        return call_label(self.account, self.path, self.digest)

    def reading(self) -> dict[str, Any]:
        """Wire JSON of `GET /_calls`."""
        seen: dict[str, Any] = {
            "number": self.number,
            "account": self.account,
            "model": self.model,
            "path": self.path,
            "sha256": self.digest.hex(),
            "status": self.status,
            "outcome": self.outcome,
        }
        if self.body is not None:
            seen["body"] = self.body.decode("utf-8", "replace")
        return seen


def call_label(account: str, path: str, digest: bytes) -> bytes:
    """See CallRecord.label; `digest` is the body's sha256."""
    return f"{account} {path} ".encode() + digest


@dataclass(slots=True)
class Meter:
    """All counters of one simulator; `clock` gives monotonic seconds."""

    clock: Callable[[], float]
    in_flight: int = 0
    in_flight_max: int = 0
    calls: list[CallRecord] = field(default_factory=list)
    _models: dict[tuple[str, str], Counts] = field(default_factory=dict)
    _charged: Counter[bytes] = field(default_factory=Counter)
    _doubles: dict[bytes, CallRecord] = field(default_factory=dict)
    _seconds: deque[list[int]] = field(default_factory=lambda: deque(maxlen=_SECONDS_SHOWN))

    def enter(self) -> None:
        """A request began."""
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        second = int(self.clock())
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1][1] += 1
        else:
            self._seconds.append([second, 1])

    def leave(self) -> None:
        """A request ended, however it ended."""
        self.in_flight -= 1

    def record(self, call: CallRecord, bill: Bill | None) -> None:
        """Count a request whose fate is decided; its number is its place in `calls`, from 1."""
        self.calls.append(call)
        counts = self._models.get((call.account, call.model))
        if counts is None:
            counts = self._models[call.account, call.model] = Counts()
        counts.add(call.outcome, bill)
        if bill is not None:
            label = call.label
            self._charged[label] += 1
            if self._charged[label] == 2:
                self._doubles[label] = call

    def reading(self) -> dict[str, Any]:
        """Wire JSON of `GET /_meter`."""
        total: Counter[str] = Counter(Counts().reading())
        for counts in self._models.values():
            total.update(counts.reading())
        now = int(self.clock())
        return {
            **total,
            "in_flight": self.in_flight,
            "in_flight_max": self.in_flight_max,
            "requests_per_second": [
                {"seconds_ago": now - second, "requests": count} for second, count in self._seconds
            ],
            "billed_more_than_once": {
                "bodies": len(self._doubles),
                "first": [
                    {
                        "account": call.account,
                        "path": call.path,
                        "sha256": call.digest.hex(),
                        "times": self._charged[label],
                    }
                    for label, call in islice(self._doubles.items(), _DOUBLES_SHOWN)
                ],
            },
            "models": [
                {"account": account, "model": model, **counts.reading()}
                for (account, model), counts in sorted(self._models.items())
            ],
        }
