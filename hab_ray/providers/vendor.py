"""The description of a vendor, to which an entry in the table of vendors (`catalog.vendors`) refers.

To add a vendor, write a module or package with a `Vendor` and give it one entry: in the table, or as an entry point of
the group `hab_ray.providers` in another distribution. For an API like OpenAI's, inherit from
`hab_ray.providers.openai.chat.OpenAIProvider` and `hab_ray.providers.openai.batch.OpenAIBatches`, as xai does with the
former, and replace the differing fields of `hab_ray.providers.openai.PROTOCOL`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from hab_ray.providers.base import Endpoint, JsonObject, Provider
from hab_ray.providers.batching import BatchApi


@dataclass(frozen=True)
class Sum:
    """A count that is the sum of others in the same object, named by dotted paths; absent ones are 0."""

    total: str
    parts: tuple[str, ...]

    def problem(self, counts: JsonObject) -> str | None:
        """Return how counts violate the sum; None if they do not, or if `total` or the first part is absent."""
        total, first = count(counts, self.total), count(counts, self.parts[0])
        if total is None or first is None:
            return None
        added = sum(count(counts, part) or 0 for part in self.parts)
        return None if added == total else f"`{self.total}` is {total}, but {' + '.join(self.parts)} is {added}"


@dataclass(frozen=True)
class AtMost:
    """A count that is at most another one in the same object."""

    part: str
    whole: str

    def problem(self, counts: JsonObject) -> str | None:
        part, whole = count(counts, self.part), count(counts, self.whole)
        if part is None or whole is None or part <= whole:
            return None
        return f"`{self.part}` is {part}, more than `{self.whole}` ({whole})"


def count(counts: JsonObject, path: str) -> int | None:
    """Return the whole number at a dotted path in an object, or None."""
    value: Any = counts
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class WireProtocol:
    """A vendor's protocol, as far as the rehearsal and the doctor need to know it.

    `played_as` is the simulator's name for it. `version` is the suffix of an endpoint's URL. `is_openais_online`:
    online calls use OpenAI's protocol. The doctor checks replies against `sums`. `open_states` are the vendor's names
    for states of a batch that has not ended; the simulator may pass some too fast to be seen. `same_ends` are finish
    reasons that a sweep treats like a normal end. `is_open` tells whether a batch body shows an open batch, if that is
    not a name at its top level.
    """

    played_as: str
    version: str
    is_openais_online: bool
    sums: tuple[Sum | AtMost, ...]
    open_states: frozenset[str]
    same_ends: frozenset[str]
    is_open: Callable[[JsonObject], bool] | None = None


def later(name: str) -> Callable[[Endpoint], Any]:
    """Return a function that imports and calls "module:attribute" on use, because an SDK takes a second to import."""
    return lambda endpoint: resolve_name(name)(endpoint)


@dataclass(frozen=True)
class Vendor:
    """Constructors of a vendor's clients.

    `connect` and `connect_batch` must not import the SDK before they are called: see `later`. Without `connect_batch`
    the vendor is used online only. `protocol` is used by the simulator in a rehearsal. `list_models`, if the vendor has
    a free list of models, returns the names of those that an account can call today; it raises CallError.
    """

    connect: Callable[[Endpoint], Provider]
    connect_batch: Callable[[Endpoint], BatchApi] | None
    protocol: WireProtocol
    list_models: Callable[[Endpoint], Awaitable[frozenset[str]]] | None = None
