"""Writes docs/sweep.md, the reference of sweep files: keys, values and defaults from the models that read them.

    python -m benchmarks.sweep_reference

What a key means stands in sweep_words.yaml beside this file; a key without words ends it with a message.
"""

import types
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hab_ray.catalog.base import Strict
from hab_ray.config.sweep import Sweep
from hab_ray.location import Location

ROOT = Path(__file__).resolve().parent.parent
PAGE, WORDS = ROOT / "docs/sweep.md", Path(__file__).with_name("sweep_words.yaml")
_KINDS = {int: "whole number", float: "number", str: "text", bool: "true or false", Path: "path", Location: "path"}
_OF_MEMORY = 2**31
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def page() -> str:
    """The whole page in Markdown.

    Raises:
        KeyError: a model or key has no words, or words are there for what is none.
    """
    words: dict[str, Any] = yaml.safe_load(WORDS.read_text(encoding="utf-8"))
    models = list(_reached(Sweep))
    names = {model.__name__ for model in models}
    if missing := sorted(names ^ (words.keys() - {"head"})):
        raise KeyError(f"{WORDS}: words and models differ in {', '.join(missing)}")
    return "\n".join([words["head"].strip(), *(_section(model, words[model.__name__]) for model in models)]) + "\n"


def _reached(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model and those of its sections, each once, in the order of the keys."""
    found: dict[type[BaseModel], None] = {}

    def visit(one: type[BaseModel]) -> None:
        if one not in found:
            found[one] = None
            for field in one.model_fields.values():
                for each in _models_in(field.annotation):
                    visit(each)

    visit(model)
    return iter(found)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _section(model: type[BaseModel], words: Mapping[str, Any]) -> str:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if missing := sorted(fields.keys() ^ words["keys"].keys()):
        raise KeyError(f"{WORDS}: {model.__name__}: words and keys differ in {', '.join(missing)}")
    rows = [f"| `{key}` | {words['keys'][key]} | {_values(f)} | {_default(f)} |" for key, f in fields.items()]
    table = ["| key | meaning | values | default |", "|---|---|---|---|", *rows]
    return "\n".join(["", f"## {words['title']}", "", words["about"].strip(), "", *table])


def _values(field: FieldInfo) -> str:
    found = {word: bound for name, word in _BOUNDS.items() if (bound := _bound(field.metadata, name)) is not None}
    bounds = [f"{word} {bound:,}" for word, bound in found.items() if abs(bound) < _OF_MEMORY]
    return " ".join([_kind(field.annotation), *bounds])


def _bound(metadata: list[Any], name: str) -> float | None:
    return next((value for each in metadata if (value := getattr(each, name, None)) is not None), None)


def _kind(annotation: Any) -> str:
    origin, parts = get_origin(annotation), [part for part in get_args(annotation) if part not in (type(None), ...)]
    if origin is Annotated:
        return _kind(parts[0])
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_kind, parts)))
    if origin in (tuple, list):
        return f"list of {_kind(parts[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"names, each with {_kind(parts[1])}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{member.value}`" for member in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    return _KINDS.get(annotation, str(getattr(annotation, "__name__", annotation)))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), {}, ""):
        return "none"
    if isinstance(value, tuple):
        return ", ".join(f"`{part}`" for part in value)
    if isinstance(value, BaseModel):
        return "as there"
    shown = value.value if isinstance(value, Enum) else value
    return f"`{str(shown).lower() if isinstance(shown, bool) else f'{shown:g}' if isinstance(shown, float) else shown}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
