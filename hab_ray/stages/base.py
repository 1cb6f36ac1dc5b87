"""What every stage has in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Generic, Protocol, TypeVar

from hab_ray.calls import Call, Failure, Finish, Outcome, Reply, has_visible_text
from hab_ray.catalog import Model
from hab_ray.rows import Row, State

Task = TypeVar("Task")
Out = TypeVar("Out", bound=Row, covariant=True)


@dataclass(frozen=True)
class Again(Generic[Task]):
    """`parse` asks for one more call, of this task, before there is a row."""

    task: Task


class Stage(Protocol[Task, Out]):
    """One step of the method for one shard."""

    def requests(self, tasks: Iterable[Task]) -> Iterator[tuple[str, Call]]:
        """For each task, in order, its row's id and the call it needs; tasks may share a call."""

    def parse(self, task: Task, outcome: Outcome) -> Out | Again[Task]:
        """The row that a task becomes by what came back for its call."""


@dataclass(frozen=True)
class Unusable:
    """Why an outcome carries no text to work with."""

    state: State
    reason: str


def usable(model: Model, outcome: Outcome, accept_substitutes: bool) -> Reply | Unusable:
    """The reply, if it is the asked model's own and has text; else the state its row gets, and why."""
    if isinstance(outcome, Failure):
        return Unusable(State.FAILED, f"{outcome.kind}: {outcome.message}")
    if outcome.finish is Finish.REFUSED:
        return Unusable(State.BLOCKED, outcome.text or "blocked by the vendor")
    if not accept_substitutes and not model.is_itself(outcome.model_reported):
        return Unusable(State.SUBSTITUTED, f"answered by {outcome.model_reported}, asked {model.entry.wire}")
    if not outcome.vector and not has_visible_text(outcome.text):
        cut = outcome.finish is Finish.TRUNCATED
        return Unusable(State.EMPTY, "cut before any visible text" if cut else "no text in the reply")
    return outcome


def seeded_order(count: int, *seed: str | int) -> list[int]:
    """The numbers 0..count-1 in an order that depends on the seed alone, on every Python version."""
    label = "/".join(map(str, seed))
    return sorted(range(count), key=lambda i: sha256(f"{label}/{i}".encode()).digest())
