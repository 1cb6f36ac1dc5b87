"""The shape of JSON documents: which fields there are, of which types; and how two shapes differ.

A field is named by its path, such as `choices[].message.content`; `[]` stands for every member of a list. A shape is
learnt from documents of one kind: a field is expected where every object that may hold it does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}
_NULL, _WHOLE, _NUMBER = _KINDS[type(None)], _KINDS[int], _KINDS[float]
_MAX_SHOWN = 60
_MEMBER = "[]"


@dataclass
class Seen:
    """A field in some documents: how often, of which types, its texts and numbers, how many empty lists."""

    times: int = 0
    empty: int = 0
    kinds: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    numbers: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Shape:
    """The fields of some documents by path, and how many objects each parent path had."""

    fields: Mapping[str, Seen]
    objects: Mapping[str, int]

    def is_expected(self, path: str) -> bool:
        """Whether every object that may hold a field does."""
        is_named = path in self.fields and not path.endswith(_MEMBER)
        return is_named and self.fields[path].times == self.objects[parent(path)]

    def under(self, path: str) -> str:
        """The uppermost field above a path, or itself, that is not there."""
        steps = path.split(".")
        paths = (".".join(steps[: n + 1]) for n in range(len(steps)))
        return next((each for each in paths if each not in self.fields), path)


def shape(documents: Iterable[Any]) -> Shape:
    """The shape of documents of one kind."""
    fields: defaultdict[str, Seen] = defaultdict(Seen)
    objects: defaultdict[str, int] = defaultdict(int)

    def see(value: Any, path: str) -> None:
        if isinstance(value, dict):
            objects[path] += 1
            for name, member in value.items():
                below = f"{path}.{name}" if path else str(name)
                seen = fields[below]
                seen.times += 1
                seen.kinds.add(_KINDS[type(member)])
                if isinstance(member, str):
                    seen.texts.add(member)
                elif isinstance(member, int | float) and not isinstance(member, bool):
                    seen.numbers.append(member)
                seen.empty += member == []
                see(member, below)
        elif isinstance(value, list):
            for member in value:
                fields[f"{path}{_MEMBER}"].kinds.add(_KINDS[type(member)])
                see(member, f"{path}{_MEMBER}")

    for document in documents:
        see(document, "")
    return Shape(dict(fields), dict(objects))


def parent(path: str) -> str:
    """The path of the object that holds a field."""
    return path.rpartition(".")[0]


def leaf(path: str) -> str:
    """A field's own name."""
    return path.rpartition(".")[2]


@dataclass(frozen=True, order=True)
class FieldChange:
    """What is otherwise in a field, in words; `is_in_some` where only some of the objects that may hold it do not."""

    words: str
    path: str
    is_in_some: bool = False

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class FieldChanges:
    """How a vendor's fields differ from the simulator's; `unexpected` fields are news, and no trouble yet."""

    differences: tuple[FieldChange, ...]
    unexpected: tuple[str, ...]


def changes(theirs: Shape, ours: Shape) -> FieldChanges:
    """What differs between a vendor's documents and the simulator's."""
    new = [path for path in theirs.fields if path not in ours.fields and not path.endswith(_MEMBER)]
    top_new = [path for path in new if ours.under(path) == path]
    found: list[FieldChange] = []
    explained: set[str] = set()
    for path in _missing(theirs, ours):
        elsewhere = _moved(path, new, theirs, ours) or _renamed(path, top_new, explained, theirs, ours)
        if elsewhere:
            explained.add(elsewhere)
            found.append(FieldChange(f"`{path}` is `{elsewhere}` instead", path))
        elif path in theirs.fields:
            found.append(FieldChange(f"`{path}` is missing in some", path, is_in_some=True))
        elif ours.fields[path].kinds != {_NULL}:
            found.append(FieldChange(f"no `{path}`", path))
    for path in theirs.fields.keys() & ours.fields.keys():
        words = _other_values(path, theirs.fields[path], ours.fields[path])
        found += [FieldChange(word, path) for word in words]
    unexpected = tuple(path for path in top_new if not any(_is_within(known, path) for known in explained))
    return FieldChanges(tuple(sorted(found)), unexpected)


def _missing(theirs: Shape, ours: Shape) -> list[str]:
    """Fields that the simulator always sends and the vendor does not; only the uppermost of those within another."""
    gone = []
    for path in ours.fields:
        above = parent(path)
        had = theirs.objects.get(above, 0)
        if ours.is_expected(path) and had and theirs.fields.get(path, Seen()).times < had:
            gone.append(path)
    return gone


def _moved(path: str, new: Collection[str], theirs: Shape, ours: Shape) -> str | None:
    """Where a missing field may have gone: a new field of the same name elsewhere."""
    places = [each for each in new if leaf(each) == leaf(path) and _fits(path, each, theirs, ours)]
    return places[0] if len(places) == 1 else None


def _renamed(path: str, new: Sequence[str], taken: Collection[str], theirs: Shape, ours: Shape) -> str | None:
    """The name that a missing field may have now: the one new field of the same object and type."""
    places = [each for each in new if parent(each) == parent(path) and _fits(path, each, theirs, ours)]
    left = [each for each in places if each not in taken]
    return left[0] if len(left) == 1 else None


def _fits(path: str, other: str, theirs: Shape, ours: Shape) -> bool:
    return path not in theirs.fields and bool(ours.fields[path].kinds & theirs.fields[other].kinds)


def _is_within(path: str, above: str) -> bool:
    return path == above or path.startswith((f"{above}.", f"{above}["))


def _other_values(path: str, theirs: Seen, ours: Seen) -> Iterable[str]:
    strange = theirs.kinds - ours.kinds
    if _NUMBER in ours.kinds:
        strange.discard(_WHOLE)
    if ours.kinds == {_KINDS[str]} and ours.texts == {""}:
        strange.discard(_NULL)  # an empty text and null both say that there is none
    if strange and ours.kinds != {_NULL}:
        yield f"`{path}` is {' or '.join(sorted(strange))}, where the simulator has {' or '.join(sorted(ours.kinds))}"
    if theirs.empty > ours.empty == 0:
        yield f"`{path}` is empty"
    least = min(theirs.numbers, default=0)
    if least < 0 <= min(ours.numbers, default=0):
        yield f"`{path}` is negative: {str(least)[:_MAX_SHOWN]}"


def shown(texts: Iterable[str]) -> str:
    """Some values, as they are named in a message."""
    return ", ".join(repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}...") for text in sorted(texts))
