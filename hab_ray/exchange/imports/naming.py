"""What names in the published code stand for: methods by the words in them, parameters by their last word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from hab_ray.exchange.imports.values import OpenText, Seeds, ThemeList
from hab_ray.rubric import Insert, Value


class Role(StrEnum):
    """What a method's text is used for."""

    SUBJECT = "subject.system"
    GENERATION_SYSTEM = "generation.system"
    GENERATION = "generation.user"
    VALIDATION_SYSTEM = "validation.system"
    VALIDATION = "validation.user"
    JUDGING_SYSTEM = "judging.system"
    JUDGING = "judging.user"

    @property
    def is_system(self) -> bool:
        """Whether it is a system prompt, which depends on nothing."""
        return self.value.endswith(".system")


SEEDS = "seeds"
_STAGES: Mapping[str, tuple[str, ...]] = {
    "subject": ("subject", "assistant", "candidate", "tested"),
    "validation": ("validate", "validation", "validator", "validating", "qa", "quality", "filter", "verify"),
    "judging": ("eval", "evaluate", "evaluation", "evaluator", "judge", "judging", "grade", "grader", "grading"),
    "generation": ("gen", "generate", "generation", "generator", "generating", "create", "creation"),
}
_VALUES: Mapping[Value, tuple[str, ...]] = {
    Value.CONTEXT: ("misinformation", "misinfo", "falsehood", "sentence", "statement", "claim", "context"),
    Value.RESPONSE: ("answer", "response", "reply", "completion", "output"),
    Value.THEME: ("theme", "entropy", "topic"),
    Value.COUNT: ("n", "count", "num", "number", "amount", "k"),
    Value.PROMPT: ("question", "prompt", "query", "message", "paragraph", "input", "text"),
}
_COUNTS = re.compile(r"(?:n|num|number|count)_(?:of_)?\w+")
_SEEDS = ("seeds", "examples", "samples", "queries", "prompts", "questions", "paragraphs", "shots")
_ONE_SEED = re.compile(r"(?:\w+_)?(?:seed|example|sample|query|question|prompt|paragraph)_?([0-9]{1,3})")
_THEMES = ("themes", "entropies", "topics")


def role_of(name: str) -> Role | None:
    """What a method or attribute of this name is used for; None where its words do not say."""
    words = snake(name).split("_")
    stage = next((stage for stage, known in _STAGES.items() if any(word in known for word in words)), None)
    if stage is None:
        return None
    return Role(f"{stage}.{'system' if stage == 'subject' or 'system' in words else 'user'}")


def snake(name: str) -> str:
    """A name in lower case with `_` between its words."""
    return re.sub(
        r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    ).strip("_")


def value_named(word: str) -> Any:
    """What a value of ours stands for: one of `Value` but `number`, or `seeds`.

    Raises:
        ValueError: there is none of that name.
    """
    if word == SEEDS:
        return Seeds()
    value = Value(word)
    if value in (Value.SEED, Value.NUMBER):
        raise ValueError(f"{word} stands for a single seed")
    return OpenText((Insert(value=value),))


def values_of(parameters: Sequence[str], role: Role, means: Mapping[str, str]) -> dict[str, Any]:
    """What a method's parameters stand for; those of which that is not known are left out."""
    numbered = {name: int(match[1]) for name in parameters if (match := _ONE_SEED.fullmatch(name))}
    order = sorted(numbered, key=lambda name: numbered[name])
    found: dict[str, Any] = {}
    for name in parameters:
        if name in means:
            found[name] = value_named(means[name])
        elif role is Role.GENERATION and name in numbered:
            found[name] = OpenText((Insert(value=Value.SEED, at=order.index(name)),))
        elif (value := _value(name, role)) is not None:
            found[name] = value
    return found


def _value(name: str, role: Role) -> Any:
    last = name.lower().split("_")[-1]
    if role is Role.GENERATION:
        if _COUNTS.fullmatch(name.lower()):
            return OpenText((Insert(value=Value.COUNT),))
        if last in _SEEDS or name.lower().startswith(("seed", "example")):
            return Seeds()
        allowed: tuple[Value, ...] = (Value.THEME, Value.COUNT)
    else:
        allowed = (Value.CONTEXT, Value.RESPONSE, Value.PROMPT)
    for value in allowed:
        if last in _VALUES[value] or (value is Value.THEME and "theme" in name.lower()):
            return OpenText((Insert(value=value),))
    return None


def attribute_values() -> dict[str, Any]:
    """What attributes stand for that are read from files: `self.seeds`, `self.themes` and the like."""
    return {
        **{name: Seeds() for name in (*_SEEDS, "seed_queries", "seed_prompts")},
        **{name: ThemeList() for name in _THEMES},
    }
