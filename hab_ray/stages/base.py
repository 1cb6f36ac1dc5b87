"""The two kinds of stage, those that call models and those that compute, and helpers that stages share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Generic, TypeVar

from hab_ray.calls import Call, Failure, Finish, Outcome, Reply, has_visible_text
from hab_ray.catalog.models import Model
from hab_ray.rows import Candidate, Embedded, R, Row, State, Validation
from hab_ray.stages.replies.reading import Unreadable

Task = TypeVar("Task")
Out = TypeVar("Out", bound=Row)
Read = TypeVar("Read", Candidate, Validation, Embedded)


@dataclass(frozen=True)
class Rows:
    """The rows that a stage reads, by row type."""

    by_type: Mapping[type[Any], Sequence[Any]] = field(default_factory=dict)

    def __getitem__(self, row_type: type[R]) -> Sequence[R]:
        return self.by_type.get(row_type, ())


@dataclass(frozen=True)
class Forecast(Generic[Task]):
    """Rows (or tasks) that exist, and the number to come, from which `hab plan` prices later stages.

    Those to come are estimated from `typical` on average and from `longest` at most.
    """

    known: Sequence[Task] = ()
    to_come: int = 0
    typical: Sequence[Task] = ()
    longest: Sequence[Task] = ()

    @property
    def count(self) -> int:
        """The total number, known and to come."""
        return len(self.known) + self.to_come

    def __add__(self, other: Forecast[Task]) -> Forecast[Task]:
        return Forecast(
            [*self.known, *other.known],
            self.to_come + other.to_come,
            [*self.typical, *other.typical],
            [*self.longest, *other.longest],
        )


Forecasts = Mapping[type[Any], Forecast[Any]]


@dataclass(frozen=True)
class Again(Generic[Task]):
    """A request by `parse` for one more call, for `task`, before there is a row."""

    task: Task


class CallStage(ABC, Generic[Task, Out]):
    """A stage that calls a model for each of its rows, for one part of a sweep."""

    @abstractmethod
    def tasks(self, rows: Rows) -> list[Task]:
        """Return the tasks to do, given the rows that the stage reads."""

    @abstractmethod
    def requests(self, tasks: Iterable[Task]) -> Iterator[tuple[str, Call]]:
        """Yield, for each task in order, its row's id and the call it needs. Tasks may share a call.

        The same tasks must yield the same calls at any time and in any process: a call that differs is paid for anew.
        """

    @abstractmethod
    def parse(self, task: Task, outcome: Outcome) -> Out | Again[Task]:
        """Return a task's row, given the outcome of its call."""

    def kept(self, rows: Sequence[Out]) -> Sequence[Out]:
        """Return the rows as the part's view stores them, given all of the part's rows."""
        return rows

    @abstractmethod
    def answer_tokens(self) -> int:
        """Return the visible tokens per answer that a plan assumes until replies are measured; 0 for vectors."""

    def forecast_tasks(self, rows: Forecasts) -> Forecast[Task]:
        """Forecast the tasks. Every row to come of the first source yields as many tasks as a typical row."""
        known = self.tasks(Rows({row_type: forecast.known for row_type, forecast in rows.items()}))
        first = next(iter(rows), None)
        if first is None or not rows[first].to_come:
            return Forecast(known)
        source = rows[first]
        if not source.typical:
            raise NotImplementedError(f"the stage that makes {first.__name__} rows must forecast what they look like")
        typical = {row_type: [*forecast.known, *forecast.typical] for row_type, forecast in rows.items()}
        longest = {row_type: [*forecast.known, *forecast.longest] for row_type, forecast in rows.items()}
        tasks = self.tasks(Rows(typical | {first: source.typical}))
        return Forecast(
            known=known,
            to_come=source.to_come * len(tasks) // len(source.typical),
            typical=tasks,
            longest=self.tasks(Rows(longest | {first: source.longest})),
        )

    def forecast_rows(self, tasks: Forecast[Task], rows: Sequence[Out], waiting: Sequence[Task]) -> Forecast[Out]:
        """Forecast the rows. `waiting` are the known tasks that have no row yet.

        A stage whose rows another stage reads must override this and add `typical` and `longest` rows, even if all
        rows exist: the reader may not know yet which of them it takes.
        """
        return Forecast(rows, len(waiting) + tasks.to_come)


class ReadStage(CallStage[Task, Read]):
    """A stage that reads each reply once: `blank` makes the row without the reply's content, `read` fills it in."""

    model: Model
    accept_substitutes: bool

    @abstractmethod
    def blank(self, task: Task, outcome: Outcome) -> Read:
        """Return a task's row with every field that does not depend on the reply's content."""

    @abstractmethod
    def read(self, task: Task, blank: Read, reply: Reply) -> Read:
        """Fill a blank row with the reply's content.

        Raises:
            Unreadable: the reply does not contain what was requested.
        """

    def parse(self, task: Task, outcome: Outcome) -> Read:
        """Return the row; without usable content its state and reason say why."""
        blank = self.blank(task, outcome)
        reply = usable(self.model, outcome, self.accept_substitutes)
        if isinstance(reply, Unusable):
            return replace(blank, state=reply.state, reason=reply.reason)
        try:
            return self.read(task, blank, reply)
        except Unreadable as problem:
            return replace(blank, state=State.UNREADABLE, reason=str(problem))


@dataclass(frozen=True)
class Computed(Generic[Out]):
    """The rows of a part, and a note for the user or ""."""

    rows: Sequence[Out]
    note: str = ""


class ComputeStage(ABC, Generic[Out]):
    """A stage that computes its rows without calls, from complete sources, for one part of a sweep."""

    @abstractmethod
    def compute(self, rows: Rows) -> Computed[Out]:
        """Compute the part's rows, given the rows that the stage reads."""

    @abstractmethod
    def forecast_rows(self, rows: Forecasts) -> Forecast[Out]:
        """Forecast the number of rows and their typical and longest forms."""


@dataclass(frozen=True)
class Unusable:
    """Why an outcome has no usable text or vector, and the state its row gets."""

    state: State
    reason: str


def usable(model: Model, outcome: Outcome, accept_substitutes: bool) -> Reply | Unusable:
    """Return the reply if the requested model gave it and it is not empty, else why it cannot be used."""
    if isinstance(outcome, Failure):
        return Unusable(State.FAILED, f"{outcome.kind}: {outcome.message}")
    if outcome.finish is Finish.REFUSED:
        return Unusable(State.BLOCKED, outcome.text or "blocked by the vendor")
    if not accept_substitutes and (substitute := model.substitute(outcome.model_reported)):
        return Unusable(State.SUBSTITUTED, substitute)
    if not outcome.vector and not has_visible_text(outcome.text):
        cut = outcome.finish is Finish.TRUNCATED
        return Unusable(State.EMPTY, "cut before any visible text" if cut else "no text in the reply")
    return outcome


def bill(outcome: Outcome) -> dict[str, Any]:
    """Return a row's fields about its call: key and cost, and for a reply also the model, tokens and seconds."""
    paid = {"reply_key": outcome.key, "cost_nanousd": outcome.cost_nanousd}
    if isinstance(outcome, Failure):
        return paid
    return paid | {
        "model_reported": outcome.model_reported,
        "input_tokens": outcome.usage.input,
        "output_tokens": outcome.usage.output,
        "latency_s": outcome.latency_s,
    }


def seeded_order(count: int, *seed: str | int) -> list[int]:
    """Return the numbers 0..count-1 in an order that depends only on the seed, on every Python version."""
    label = "/".join(map(str, seed))
    return sorted(range(count), key=lambda i: sha256(f"{label}/{i}".encode()).digest())
