"""Mutants of the pipeline: what is changed in it for one test."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest

from hab_ray.calls import ChatCall
from hab_ray.stages.verdict_rows import VerdictTask

Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]
Mutants = Mapping[str, tuple[Mutant, str]]


def rounds(*tables: Mutants) -> list[Mutants]:
    """One mutant of each table after another, planted together where one of them spoils no other's table."""
    return [dict(each for each in row if each) for row in zip_longest(*(table.items() for table in tables))]


def first_at_once(mutants: Iterable[str]) -> list[Any]:
    """The names of mutants that take a rehearsal each: those after the first are left to `make bench`."""
    return [pytest.param(name, marks=pytest.mark.bench) if at else name for at, name in enumerate(mutants)]


def planted(mutants: Mutants, patch: Patch) -> list[str]:
    """The reasons for which these mutants are found, once they are planted."""
    for plant, _ in mutants.values():
        plant(patch)
    return [reason for _, reason in mutants.values()]


def together(*mutants: Mutant) -> Mutant:
    def plant(patch: Patch) -> None:
        for mutant in mutants:
            mutant(patch)

    return plant


def calls_of(stage: Any, change: Callable[[ChatCall], ChatCall]) -> Mutant:
    """Every call of a stage changed."""

    def plant(patch: Patch) -> None:
        sound = stage.requests

        def requests(self: Any, tasks: Iterable[Any]) -> Iterator[tuple[str, ChatCall]]:
            return ((row_id, change(call)) for row_id, call in sound(self, tasks))

        patch.setattr(stage, "requests", requests)

    return plant


def tasks_of(stage: Any, change: Callable[[list[Any]], list[Any]]) -> Mutant:
    """Every task of a stage changed before it is asked."""

    def plant(patch: Patch) -> None:
        sound = stage.requests
        patch.setattr(stage, "requests", lambda self, tasks: sound(self, change(list(tasks))))

    return plant


def of_one(stage: Any, of: str, name: str, plant: Mutant) -> Mutant:
    """A mutant of the requests of all judges or subjects, for one of them."""

    def planted(patch: Patch) -> None:
        sound = stage.requests
        plant(patch)
        mutant = stage.requests
        patch.setattr(
            stage,
            "requests",
            lambda self, tasks: (mutant if getattr(self, of).name == name else sound)(self, tasks),
        )

    return planted


def put(place: object, name: str, value: object) -> Mutant:
    return lambda patch: patch.setattr(place, name, value)


def around(place: object, name: str, change: Callable[[Any], Any]) -> Mutant:
    """What `change` makes of the sound function or method."""
    return lambda patch: patch.setattr(place, name, change(getattr(place, name)))


def params(**changes: Any) -> Callable[[ChatCall], ChatCall]:
    return lambda call: replace(call, params=replace(call.params, **changes))


def of_tests(**changes: Any) -> Callable[[list[VerdictTask]], list[VerdictTask]]:
    """For `tasks_of` judges: the test that they are shown is changed."""
    return lambda tasks: [replace(task, test=replace(task.test, **changes)) for task in tasks]


def of_responses(change: Callable[[str], str]) -> Callable[[list[VerdictTask]], list[VerdictTask]]:
    """For `tasks_of` judges: the answer that they are shown is changed."""
    return lambda tasks: [replace(t, response=replace(t.response, text=change(t.response.text))) for t in tasks]


def result(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """For `around`: what `change` makes of each result of the sound function or method."""
    return lambda sound: lambda *given, **named: change(sound(*given, **named))


def then(place: object, name: str, change: Callable[[Any], Any]) -> Mutant:
    """The sound function or method, and then `change` on its result."""
    return around(place, name, result(change))


def halved(p: float) -> float:
    return p / 2


def swapped(one: str, other: str) -> Callable[[Any], Any]:
    """A result with the values of two of its fields exchanged."""
    return lambda found: replace(found, **{one: getattr(found, other), other: getattr(found, one)})


ends_swapped = swapped("low", "high")


def other_letters(named: Any) -> Any:
    """The shares of the issues in reverse order."""
    return named[..., ::-1]
