"""The figures of a plan: calls, tokens, money in nano-dollars, seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TypeVar

from hab_ray.planning.rounds import BudgetOutlook

Group = TypeVar("Group")


@dataclass(frozen=True)
class Figures:
    """Calls and what they come to. `reused` calls are in the store already and cost nothing more.

    Tokens and money are those of the calls still to be paid: as estimated, and at most (`most_*`: one token a byte
    of input, every answer as long as its limit, and no verdict asked for again). `batch` is what the vendor's batch API
    would charge, or the online price where it is not used for the model; `batchable` counts the calls it is used for.
    """

    calls: int = 0
    reused: int = 0
    batchable: int = 0
    input: int = 0
    output: int = 0
    most_input: int = 0
    most_output: int = 0
    online: int = 0
    most_online: int = 0
    batch: int = 0
    most_batch: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Figures)))

    @property
    def to_pay(self) -> int:
        """The number of calls that are not in the store."""
        return self.calls - self.reused


@dataclass(frozen=True)
class PlanLine:
    """One stage, model and dimension. `name` is the subject's or judge's, else the model's.

    `exact`: every call is known as it will be sent; else some are counted and their sizes are typical ones.
    `measured` replies in the store tell how many tokens such calls take; `assumed`: none does, of any line of this
    stage, name and dimension.
    `dearest` is the most that one of its open calls can cost online, in nano-dollars; `largest` bounds what is reserved
    for one of its requests, with all that a vendor's format adds to what a call says. `by_batch`: so the sweep's modes
    have it sent.
    """

    stage: str
    name: str
    model: str
    dimension: str
    exact: bool
    assumed: bool
    measured: int
    figures: Figures
    dearest: int
    largest: int
    by_batch: bool = False


@dataclass(frozen=True)
class StageTime:
    """How long a stage takes online, in seconds, at the catalogue's limits, and the model that takes longest.

    `a_call` is the time one of its calls takes, where it was measured; `tokens_per_minute` is its limit where that
    decides how long it takes.
    """

    stage: str
    slowest: str
    seconds: float
    a_call: float | None = None
    tokens_per_minute: int | None = None


@dataclass(frozen=True)
class Plan:
    """A sweep's lines, how long its stages take, and the budgets (nano-dollars) at which nothing waits.

    `as_sent` is the estimate with each call online or by batch as the sweep's modes have it, `online_seconds` the time
    of those that go online; `outlook` says what smaller budgets mean for such a run. `times` are those of all calls
    online. `at_vendors` is the most that the run's open batches can cost by calls that are counted among those to pay.
    `of_others` counts those among them in open batches of other runs, which pay for them. The run's batches also hold
    `unasked_calls`, which the sweep no longer asks for, such as those of a subject that was taken out:
    the run collects these as well, for at most `unasked`, on top of all other figures.

    Nothing waits: what is spent by then, as estimated, plus all that may be reserved at one moment stays below the
    budget. Online that is the calls in flight, in a batch every call of the model.
    """

    lines: tuple[PlanLine, ...]
    times: tuple[StageTime, ...]
    online_budget: int
    batch_budget: int
    as_sent: int
    online_seconds: float
    outlook: BudgetOutlook
    at_vendors: int
    of_others: int
    unasked_calls: int
    unasked: int

    @property
    def total(self) -> Figures:
        """All lines together."""
        return sum((line.figures for line in self.lines), Figures())

    @property
    def exact(self) -> bool:
        """Whether every call is known exactly."""
        return all(line.exact for line in self.lines)

    @property
    def assumed(self) -> tuple[tuple[str, str], ...]:
        """The stages and names with calls to pay whose tokens no reply has measured."""
        return tuple(dict.fromkeys((line.stage, line.name) for line in self.lines if line.assumed))

    @property
    def seconds(self) -> float:
        """The sum of the stages' times, all online. Stages overlap, so this overestimates."""
        return sum(time.seconds for time in self.times)

    def grouped(self, by: Callable[[PlanLine], Group]) -> Mapping[Group, Figures]:
        """Add up the figures by the group that `by` returns for a line, in the order of the lines."""
        return added_up((by(line), line.figures) for line in self.lines)


def added_up(pairs: Iterable[tuple[Group, Figures]]) -> dict[Group, Figures]:
    """Add up the figures of each group, in order of first appearance."""
    sums: dict[Group, Figures] = {}
    for group, figures in pairs:
        sums[group] = sums.get(group, Figures()) + figures
    return sums
