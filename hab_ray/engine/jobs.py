"""The jobs given to an engine, and the counters that it reports."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import astuple, dataclass, field, fields, replace
from enum import StrEnum
from operator import add
from typing import Any

from hab_ray.calls import Answer, Call
from hab_ray.catalog.prices import NANO, Price
from hab_ray.engine.limits.protocol import Outage
from hab_ray.visible import counted, usd


@dataclass(frozen=True)
class Job:
    """The call of one row. `shard` is the driver's number for the row's shard.

    `task` is the position of the row's task among those of its shard; None for a re-ask, which has a task of its own.
    """

    shard: int
    row_id: str
    call: Call
    task: int | None = None


async def stream(jobs: Iterable[Job]) -> AsyncIterator[Job]:
    """Yield jobs as the asynchronous stream that an online engine reads."""
    for job in jobs:
        yield job


class OpenKind(StrEnum):
    """Why a row was left open: no answer, no money in the budget for its call, or the run was stopped."""

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
    """Totals of one model: calls and batch rows sent, requests refused as too fast, tokens and cost of answers.

    The `admitted` requests waited `queued_s` seconds for permits in total, the `answered` ones `waited_s` for answers.
    `stated` answers came with token counts and the vendor's price; the sum of these prices is `vendors_nanousd`, that
    of our own prices for them `ours_nanousd`. `unbilled` answers came with neither, and are booked at their bounds, in
    total `bounds_nanousd`. `dear` answers name a tier that vendors bill above their list. `beyond` answers have more
    tokens than their requests allow, or cost more than reserved.
    """

    sent: int = 0
    rate_limited: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nanousd: int = 0
    admitted: int = 0
    queued_s: float = 0.0
    answered: int = 0
    waited_s: float = 0.0
    stated: int = 0
    vendors_nanousd: int = 0
    ours_nanousd: int = 0
    unbilled: int = 0
    bounds_nanousd: int = 0
    beyond: int = 0
    dear: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*map(add, astuple(self), astuple(other)))

    def cost(self, answer: Answer, price: Price, bound: int) -> int:
        """Return the cost of an answer in nano-dollars: stated by the vendor, else by usage, else its `bound`."""
        stated = answer.stated_nanousd
        if not answer.bill_known:
            if stated is not None:
                return stated
            self.unbilled += 1
            self.bounds_nanousd += bound
            return bound
        ours = price.cost(answer.usage)
        if stated is None:
            self.dear += bool(answer.dear_tier)
            return ours
        self.stated += 1
        self.vendors_nanousd += stated
        self.ours_nanousd += ours
        return stated


@dataclass
class Counters:
    """An engine's counters; `finished` counts rows whose outcome is in the store, by shard.

    This process has paid `cost_nanousd` for outcomes; `lost_nanousd` is the most that calls without an outcome may
    have cost. Of the run's budget, `spent_nanousd` is spent and `reserved_nanousd` reserved for calls and batches in
    flight; `waits_for_nanousd` is the smallest reservation waiting for money, 0 if none is. `cut` counts requests cut
    off unanswered when the run was stopped, by model; `cut_nanousd`, part of `lost_nanousd`, is the most that they may
    have cost. `traffic` is by model.
    """

    finished: Counter[int] = field(default_factory=Counter)
    failed: Counter[int] = field(default_factory=Counter)
    open: list[OpenRow] = field(default_factory=list)
    calls: int = 0
    retries: int = 0
    in_flight: Counter[str] = field(default_factory=Counter)
    cost_nanousd: int = 0
    lost_nanousd: int = 0
    spent_nanousd: int = 0
    reserved_nanousd: int = 0
    waits_for_nanousd: int = 0
    stops: dict[str, str] = field(default_factory=dict)
    outage: Outage | None = None
    cut: Counter[str] = field(default_factory=Counter)
    cut_nanousd: int = 0
    traffic: defaultdict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))

    def __add__(self, other: Counters) -> Counters:
        merged: dict[str, Any] = {
            "waits_for_nanousd": smallest_wait((self, other)),
            "stops": {**self.stops, **other.stops},
            "outage": self.outage or other.outage,
            "traffic": self.traffic.copy(),
        }
        for model, more in other.traffic.items():
            merged["traffic"][model] += more
        added = {one.name for one in fields(Counters)} - merged.keys()
        return Counters(**merged, **{name: getattr(self, name) + getattr(other, name) for name in added})

    def written_off(self) -> Counters:
        """Return the counters of an engine that ended abnormally: calls in flight count as spent.

        Their cost will never be known.
        """
        return replace(
            self,
            open=[],
            outage=None,
            in_flight=Counter(),
            reserved_nanousd=0,
            waits_for_nanousd=0,
            lost_nanousd=self.lost_nanousd + self.reserved_nanousd,
            spent_nanousd=self.spent_nanousd + self.reserved_nanousd,
            cut=self.cut + self.in_flight,
            cut_nanousd=self.cut_nanousd + self.reserved_nanousd,
        )


def smallest_wait(engines: Iterable[Counters]) -> int:
    """Return the smallest reservation waiting for money, in nano-dollars; 0 if none is."""
    return min((counted.waits_for_nanousd for counted in engines if counted.waits_for_nanousd), default=0)


def billing_notes(engines: Iterable[Counters]) -> Iterator[str]:
    """Yield notes on models billed differently from our prices, answers without a bill, and too long answers."""
    total: defaultdict[str, Traffic] = defaultdict(Traffic)
    for engine in engines:
        for model, more in engine.traffic.items():
            total[model] += more
    for model, sums in sorted(total.items()):
        if abs(sums.vendors_nanousd - sums.ours_nanousd) > sums.stated:  # each side rounds to the nano-dollar
            yield (
                f"{model}: the vendor states ${sums.vendors_nanousd / NANO:.6g} for {sums.stated} calls, our prices "
                f"give ${sums.ours_nanousd / NANO:.6g}; the vendor's figure is booked: correct the model's price"
            )
        if sums.bounds_nanousd:
            yield (
                f"{model}: {counted(sums.unbilled, 'answer')} came without usable token counts, and are booked at what "
                f"was reserved for them, {usd(sums.bounds_nanousd)} of what is paid; the vendor may bill less"
            )
        if sums.dear:
            yield (
                f"{model}: {counted(sums.dear, 'answer')} came at a service tier (priority) or from a region (us) that "
                "vendors bill above their list, up to twice: the bill, and so the budget, may be exceeded. Set the "
                "default in the console (OpenAI: the project's service tier; Anthropic: the workspace's inference "
                "region), or the model's `price:`"
            )
        if sums.beyond:
            yield (
                f"{model}: {counted(sums.beyond, 'answer')} cost more than was reserved, because of more tokens than "
                "the requests allow, or a price that rose since their batch was sent; they are booked as reported, at "
                "today's price: check the vendor's bill, thinking_reserve and max_tokens"
            )
