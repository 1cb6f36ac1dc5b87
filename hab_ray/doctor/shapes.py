"""The shape of JSON documents, their fields and types, and the differences between two shapes.

A field is named by its path, such as `choices[].message.content`; `[]` stands for every member of a list. A shape is
inferred from documents of one kind: a field is expected if every object at its parent path has it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
    """A field's occurrences in documents: count, types, texts and numbers, and the number of empty lists."""

    times: int = 0
    empty: int = 0
    kinds: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    numbers: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Shape:
    """The fields of documents by path, and the number of objects at each parent path."""

    fields: Mapping[str, Seen]
    objects: Mapping[str, int]

    def is_expected(self, path: str) -> bool:
        """Return whether every object at the field's parent path has it."""
        is_named = path in self.fields and not path.endswith(_MEMBER)
        return is_named and self.fields[path].times == self.objects[parent(path)]

    def topmost_missing(self, path: str) -> str:
        """Return the topmost missing field of a path, or the path itself if it is complete."""
        steps = path.split(".")
        paths = (".".join(steps[: n + 1]) for n in range(len(steps)))
        return next((each for each in paths if each not in self.fields), path)


def shape(documents: Iterable[Any]) -> Shape:
    """Infer the shape of documents of one kind."""
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
    """Return the path of the object that holds a field."""
    return path.rpartition(".")[0]


def leaf(path: str) -> str:
    """Return a field's name without its path."""
    return path.rpartition(".")[2]


class FieldChange(NamedTuple):
    """A difference of a field, in words; `is_in_some` if only some of the objects at its parent path lack it."""

    words: str
    path: str
    is_in_some: bool = False


def changes(theirs: Shape, ours: Shape) -> tuple[list[FieldChange], list[str]]:
    """Return the differences between a vendor's documents and the simulator's, and the vendor's new fields."""
    new = [path for path in theirs.fields if path not in ours.fields and not path.endswith(_MEMBER)]
    top_new = [path for path in new if ours.topmost_missing(path) == path]
    found: list[FieldChange] = []
    explained: set[str] = set()
    for path in _missing(theirs, ours):
        renamed = (each for each in top_new if parent(each) == parent(path) and each not in explained)
        moved = (each for each in new if leaf(each) == leaf(path))
        if replacement := _only_fit(path, moved, theirs, ours) or _only_fit(path, renamed, theirs, ours):
            explained.add(replacement)
            found.append(FieldChange(f"`{path}` is `{replacement}` instead", path))
        elif path in theirs.fields:
            found.append(FieldChange(f"`{path}` is missing in some", path, is_in_some=True))
        elif ours.fields[path].kinds != {_NULL}:
            found.append(FieldChange(f"no `{path}`", path))
    for path in theirs.fields.keys() & ours.fields.keys():
        found += [FieldChange(words, path) for words in _other_values(path, theirs.fields[path], ours.fields[path])]
    inside = {path: (f"{path}.", f"{path}[") for path in top_new if path not in explained}
    return sorted(found), [path for path in inside if not any(each.startswith(inside[path]) for each in explained)]


def _missing(theirs: Shape, ours: Shape) -> Iterator[str]:
    """Yield fields that the simulator always sends and the vendor does not, if the vendor sends their parent."""
    for path in ours.fields:
        objects = theirs.objects.get(parent(path), 0)
        if ours.is_expected(path) and theirs.fields.get(path, Seen()).times < objects:
            yield path


def _only_fit(path: str, candidates: Iterable[str], theirs: Shape, ours: Shape) -> str | None:
    """Return the candidate with the type of a field that is missing everywhere, if there is only one."""
    found = [each for each in candidates if ours.fields[path].kinds & theirs.fields[each].kinds]
    return found[0] if len(found) == 1 and path not in theirs.fields else None


def _other_values(path: str, theirs: Seen, ours: Seen) -> Iterable[str]:
    strange = theirs.kinds - ours.kinds
    if _NUMBER in ours.kinds:
        strange.discard(_WHOLE)
    if ours.kinds == {_KINDS[str]} and ours.texts == {""}:
        strange.discard(_NULL)  # empty text and null mean the same
    if strange and ours.kinds != {_NULL}:
        yield f"`{path}` is {' or '.join(sorted(strange))}, where the simulator has {' or '.join(sorted(ours.kinds))}"
    if theirs.empty > ours.empty == 0:
        yield f"`{path}` is empty"
    least = min(theirs.numbers, default=0)
    if least < 0 <= min(ours.numbers, default=0):
        yield f"`{path}` is negative: {str(least)[:_MAX_SHOWN]}"


def shown(texts: Iterable[str]) -> str:
    """Return values for a message: quoted, sorted and cut."""
    return ", ".join(repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}...") for text in sorted(texts))
