"""The meter: what was received, refused, lost and charged, counted exactly and cheaply.

Calls online and lines of batches are counted apart; but what is the same body, however it was sent, has one label,
so that a body charged twice shows wherever it was charged.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

from hab_simulator.asks import Bill

_DOUBLES_SHOWN = 20
_IDENTITY_BYTES = 16
_TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
# Of a model: `received` = billed + refused + faulted; `lost_after_billing` is the part of billed whose reply never
# arrived whole, `lost_nanousd` what that cost.
_COUNTS = ("received", "billed", "refused", "faulted", "lost_after_billing", "lost_nanousd", *_TOKENS, "nanousd")
_LINE_COUNTS = ("billed", "lost_nanousd", *_TOKENS, "nanousd")
BATCH_COUNTS = (
    *("created", "completed", "failed", "expired", "cancelled"),
    *("lines_received", "lines_billed", "lines_failed", "lines_undone", "lines_missing"),
)


def counters(names: tuple[str, ...]) -> Counter[str]:
    """Counters of these names, all 0."""
    return Counter(dict.fromkeys(names, 0))


class Outcome(StrEnum):
    """What became of a request; each has exactly one."""

    BILLED = "billed"
    LOST = "lost"
    REFUSED = "refused"
    FAULTED = "faulted"


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
    _models: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    _charged: Counter[bytes] = field(default_factory=Counter)
    _doubles: dict[bytes, tuple[str, str]] = field(default_factory=dict)
    _batch_models: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)

    def enter(self) -> None:
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)

    def leave(self) -> None:
        self.in_flight -= 1

    def record(self, call: CallRecord, bill: Bill | None) -> None:
        """Count a request whose fate is decided; its number is its place in `calls`, from 1."""
        self.calls.append(call)
        counts = self._models.setdefault((call.account, call.model), counters(_COUNTS))
        counts.update(received=1, refused=call.outcome is Outcome.REFUSED, faulted=call.outcome is Outcome.FAULTED)
        if bill is not None:
            _charge(counts, bill)
            self._note(call.label, call.account, call.path)
            if call.outcome is Outcome.LOST:
                counts.update(lost_after_billing=1, lost_nanousd=bill.nanousd)

    def record_line(self, account: str, path: str, model: str, label: bytes, bill: Bill) -> None:
        """Count a line of a batch that is charged."""
        _charge(self._batch_models.setdefault((account, model), counters(_LINE_COUNTS)), bill)
        self._note(label, account, path)

    def _note(self, label: bytes, account: str, path: str) -> None:
        self._charged[label] += 1
        if self._charged[label] == 2:
            self._doubles[label] = account, path

    def reading(self, batches: Mapping[str, Counter[str]]) -> dict[str, Any]:
        """Wire JSON of `GET /_meter`; `batches` are the counters of each account's batches."""
        total = counters(_COUNTS)
        for counts in self._models.values():
            total.update(counts)
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
                {"account": account, "model": model, **counts}
                for (account, model), counts in sorted(self._models.items())
            ],
            "batch": self._batch_reading(batches),
        }

    def _batch_reading(self, batches: Mapping[str, Counter[str]]) -> dict[str, Any]:
        total = counters(BATCH_COUNTS)
        paid: Counter[str] = Counter()
        for counts in batches.values():
            total.update(counts)
        for (account, _), charged in self._batch_models.items():
            paid[account] += charged["nanousd"]
        return {
            **total,
            "nanousd": paid.total(),
            "accounts": [{"account": name, **own, "nanousd": paid[name]} for name, own in sorted(batches.items())],
            "models": [
                {"account": account, "model": model, **charged}
                for (account, model), charged in sorted(self._batch_models.items())
            ],
        }


def _charge(counts: Counter[str], bill: Bill) -> None:
    used = bill.usage
    counts.update(billed=1, input_tokens=used.input, cached_tokens=used.cached, nanousd=bill.nanousd)
    counts.update(output_tokens=used.output, reasoning_tokens=used.reasoning)
