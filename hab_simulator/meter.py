"""The meter: what was received, refused, lost and charged, counted exactly and cheaply.

Calls online and lines of batches are counted apart; but what is the same body, however it was sent, has one label,
so that a body charged twice shows wherever it was charged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

from hab_simulator.asks import Bill

_DOUBLES_SHOWN = 20
_IDENTITY_BYTES = 16
BATCH_COUNTS = (
    *("created", "completed", "failed", "expired", "cancelled"),
    *("lines_received", "lines_billed", "lines_failed", "lines_undone", "lines_missing"),
)


class Outcome(StrEnum):
    """What became of a request; each has exactly one."""

    BILLED = "billed"
    LOST = "lost"
    REFUSED = "refused"
    FAULTED = "faulted"


@dataclass(slots=True)
class Counts:
    """Counters of one model: `received` = billed + refused + faulted.

    `lost_after_billing` is the part of billed whose reply never arrived whole, `lost_nanousd` what that cost.
    """

    received: int = 0
    billed: int = 0
    refused: int = 0
    faulted: int = 0
    lost_after_billing: int = 0
    lost_nanousd: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    nanousd: int = 0

    def add(self, outcome: Outcome, bill: Bill | None) -> None:
        self.received += 1
        self.refused += outcome is Outcome.REFUSED
        self.faulted += outcome is Outcome.FAULTED
        if bill is None:
            return
        if outcome is Outcome.LOST:
            self.lost_after_billing += 1
            self.lost_nanousd += bill.nanousd
        self.charge(bill)

    def charge(self, bill: Bill) -> None:
        self.billed += 1
        self.input_tokens += bill.usage.input
        self.cached_tokens += bill.usage.cached
        self.output_tokens += bill.usage.output
        self.reasoning_tokens += bill.usage.reasoning
        self.nanousd += bill.nanousd


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One request in order of arrival; `status` is None where no HTTP answer was given.

    `digest` is the sha256 of its bytes; `label` is what makes it the same as another request (see call_label), empty
    where it was refused.
    """

    number: int
    account: str
    model: str
    path: str
    digest: bytes
    status: int | None
    outcome: Outcome
    label: bytes
    body: bytes | None

    def reading(self) -> dict[str, Any]:
        """Wire JSON of `GET /_calls`."""
        seen: dict[str, Any] = {
            "number": self.number,
            "account": self.account,
            "model": self.model,
            "path": self.path,
            "sha256": self.digest.hex(),
            "identity": self.label[-_IDENTITY_BYTES:].hex(),
            "status": self.status,
            "outcome": self.outcome,
        }
        if self.body is not None:
            seen["body"] = self.body.decode("utf-8", "replace")
        return seen


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One HTTP request to a vendor, noted when its headers were there; `at` is wall time in seconds since 1970."""

    at: float
    account: str
    method: str
    path: str


def call_label(account: str, path: str, body: bytes) -> bytes:
    """What makes two requests the same: account, path (Gemini's holds the model) and the body's `identity`."""
    return f"{account} {path} ".encode() + body


@dataclass(slots=True)
class Meter:
    """All counters of one simulator.

    `_doubles` are the bodies that were charged more than once: account and path that the second went to.
    """

    in_flight: int = 0
    in_flight_max: int = 0
    unread: int = 0
    calls: list[CallRecord] = field(default_factory=list)
    requests: list[ReceivedRequest] = field(default_factory=list)
    _models: defaultdict[tuple[str, str], Counts] = field(default_factory=lambda: defaultdict(Counts))
    _charged: Counter[bytes] = field(default_factory=Counter)
    _doubles: dict[bytes, tuple[str, str]] = field(default_factory=dict)
    _batch_models: defaultdict[tuple[str, str], Counts] = field(default_factory=lambda: defaultdict(Counts))

    def enter(self) -> None:
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)

    def leave(self) -> None:
        self.in_flight -= 1

    def record(self, call: CallRecord, bill: Bill | None) -> None:
        """Count a request whose fate is decided; its number is its place in `calls`, from 1."""
        self.calls.append(call)
        self._models[call.account, call.model].add(call.outcome, bill)
        if bill is not None:
            self._note(call.label, call.account, call.path)

    def record_line(self, account: str, path: str, model: str, label: bytes, bill: Bill) -> None:
        """Count a line of a batch that is charged."""
        counts = self._batch_models[account, model]
        counts.received += 1
        counts.charge(bill)
        self._note(label, account, path)

    def _note(self, label: bytes, account: str, path: str) -> None:
        self._charged[label] += 1
        if self._charged[label] == 2:
            self._doubles[label] = account, path

    def reading(self, batches: Mapping[str, Counter[str]]) -> dict[str, Any]:
        """Wire JSON of `GET /_meter`; `batches` are the counters of each account's batches."""
        total: Counter[str] = Counter(asdict(Counts()))
        for counts in self._models.values():
            total.update(asdict(counts))
        return {
            **total,
            "in_flight": self.in_flight,
            "in_flight_max": self.in_flight_max,
            "unread": self.unread,
            "billed_more_than_once": {
                "bodies": len(self._doubles),
                "first": [
                    {
                        "account": account,
                        "path": path,
                        "identity": label[-_IDENTITY_BYTES:].hex(),
                        "times": self._charged[label],
                    }
                    for label, (account, path) in islice(self._doubles.items(), _DOUBLES_SHOWN)
                ],
            },
            "models": [
                {"account": account, "model": model, **asdict(counts)}
                for (account, model), counts in sorted(self._models.items())
            ],
            "batch": self._batch_reading(batches),
        }

    def _batch_reading(self, batches: Mapping[str, Counter[str]]) -> dict[str, Any]:
        total: Counter[str] = Counter(dict.fromkeys(BATCH_COUNTS, 0))
        paid: Counter[str] = Counter()
        for counts in batches.values():
            total.update(counts)
        for (account, _), charged in self._batch_models.items():
            paid[account] += charged.nanousd
        return {
            **total,
            "nanousd": paid.total(),
            "accounts": [{"account": name, **own, "nanousd": paid[name]} for name, own in sorted(batches.items())],
            "models": [
                {"account": account, "model": model, **_charges(charged)}
                for (account, model), charged in sorted(self._batch_models.items())
            ],
        }


def _charges(counts: Counts) -> dict[str, int]:
    """The counters that a batch's lines have too."""
    names = ("_tokens", "nanousd")
    return {name: count for name, count in asdict(counts).items() if name == "billed" or name.endswith(names)}
