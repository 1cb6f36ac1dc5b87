"""The jobs an engine is given, and the counters that it reports."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum

from hab_ray.calls import Call
from hab_ray.engine.billing import Billing


@dataclass(frozen=True)
class Job:
    """The call of one row; `shard` is the number that the driver gave to the row's shard.

    `task` is the position of the row's task among those of its shard; None for a re-ask, whose task is another one.
    """

    shard: int
    row_id: str
    call: Call
    task: int | None = None


class OpenKind(StrEnum):
    """Why a row was left open: it got no answer, the budget does not allow its call, or the run was stopped."""

    UNANSWERED = "unanswered"
    BUDGET = "budget reached"
    STOPPED = "stopped"


@dataclass(frozen=True)
class OpenRow:
    """A row that got no answer in this run."""

    shard: int
    row_id: str
    reason: str
    kind: OpenKind = OpenKind.UNANSWERED


@dataclass
class Traffic:
    """What went to one model, in totals: calls and batch rows sent, requests refused as too fast, tokens and
    nano-dollars of answers. `admitted` requests have waited `queued_s` seconds for their permits.
    """

    sent: int = 0
    rate_limited: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nanousd: int = 0
    admitted: int = 0
    queued_s: float = 0.0


@dataclass
class Counters:
    """What a lane has done so far; `finished` counts, by shard, rows whose outcome is in the store.

    This process has paid `cost_nanousd` for outcomes; `lost_nanousd` is the most that calls without an outcome may
    have cost. Of the run's budget, `spent_nanousd` is spent and `reserved_nanousd` reserved for calls and batches in
    flight. By model, `answered` counts answered requests and `waited_s` adds up their seconds; `cut` counts requests
    cut off unanswered because the run was stopped, and `cut_nanousd`, a part of `lost_nanousd`, is the most that they
    may have cost. `billing` compares the vendor's bills with our prices. `traffic`, by model, is for metrics.
    """

    finished: Counter[int] = field(default_factory=Counter)
    failed: Counter[int] = field(default_factory=Counter)
    open: list[OpenRow] = field(default_factory=list)
    calls: int = 0
    retries: int = 0
    in_flight: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    waited_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    cost_nanousd: int = 0
    lost_nanousd: int = 0
    spent_nanousd: int = 0
    reserved_nanousd: int = 0
    stops: dict[str, str] = field(default_factory=dict)
    billing: Billing = field(default_factory=Billing)
    cut: Counter[str] = field(default_factory=Counter)
    cut_nanousd: int = 0
    traffic: defaultdict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))
