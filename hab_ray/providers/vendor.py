"""What an entry in the table of vendors (`catalog.vendors`) names: how to reach an account of the vendor's kind.

To add a vendor, write a module or package with a `Vendor` and give it one entry: in the table, or as an entry point
of the group `hab_ray.providers` in another distribution. For an API that is OpenAI's with differences, inherit from
`hab_ray.providers.openai.chat.OpenAIProvider` and `hab_ray.providers.openai.batch.OpenAIBatches`, as xai does, and
replace in `hab_ray.providers.openai.PROTOCOL` what differs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from hab_ray.providers.base import Endpoint, JsonObject, Provider
from hab_ray.providers.batching import BatchApi


@dataclass(frozen=True)
class Sum:
    """A count that is the sum of others in the same object, dots leading into objects within; absent ones are 0."""

    total: str
    parts: tuple[str, ...]

    def problem(self, counts: JsonObject) -> str | None:
        """What is wrong with the counts of one object; None where nothing is, or where it has no such sum."""
        total, first = count(counts, self.total), count(counts, self.parts[0])
        if total is None or first is None:
            return None
        added = sum(count(counts, part) or 0 for part in self.parts)
        return None if added == total else f"`{self.total}` is {total}, and {' + '.join(self.parts)} is {added}"


@dataclass(frozen=True)
class AtMost:
    """A count that is a part of another in the same object."""

    part: str
    whole: str

    def problem(self, counts: JsonObject) -> str | None:
        part, whole = count(counts, self.part), count(counts, self.whole)
        if part is None or whole is None or part <= whole:
            return None
        return f"`{self.part}` is {part}, more than `{self.whole}` ({whole})"


def count(counts: JsonObject, path: str) -> int | None:
    """A whole number in an object, dots leading into objects within; None where there is none."""
    value: Any = counts
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class WireProtocol:
    """What the rehearsal and the doctor know of a vendor's protocol beside what its clients do.

    `played_as` is the simulator's name for it. `version` is what an endpoint's url ends in. `is_openais_online`: single
    calls go out as OpenAI takes them. The doctor holds replies against `sums`; `open_states` are the vendor's words for
    a batch that has not ended, some of which the simulator may pass through too fast to be seen, and `same_ends` words
    for an end that means the same to a sweep as the ordinary one. `is_open` says of a batch as the vendor shows it
    whether it has not ended, where that is said otherwise than by a word at the top.
    """

    played_as: str
    version: str
    is_openais_online: bool
    sums: tuple[Sum | AtMost, ...]
    open_states: frozenset[str]
    same_ends: frozenset[str]
    is_open: Callable[[JsonObject], bool] | None = None


def later(name: str) -> Callable[[Endpoint], Any]:
    """What a name ("module:attribute") stands for, imported when it is first called: an SDK takes about a second."""
    return lambda endpoint: resolve_name(name)(endpoint)


@dataclass(frozen=True)
class Vendor:
    """A vendor's clients, each made for one endpoint.

    `connect` and `connect_batch` import the vendor's SDK when they are called, not before: see `later`. Without
    `connect_batch` the vendor is used online only. `protocol` is what the simulator answers in when a sweep is
    rehearsed. `list_models` gives the names of the models that an account can call today, from the vendor's free list
    of them (raises CallError); without it nobody can be asked.
    """

    connect: Callable[[Endpoint], Provider]
    connect_batch: Callable[[Endpoint], BatchApi] | None
    protocol: WireProtocol
    list_models: Callable[[Endpoint], Awaitable[frozenset[str]]] | None = None
