"""The page on profiles: each example is a profile, and every setting there is has its place in one."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from hab_ray.rehearse.trouble import Trouble
from hab_simulator import BatchFault, Fault, Profile
from hab_simulator.accounts import Lengths, entry
from tests.distributions import Distributions

PAGE = (Path(__file__).parents[2] / "docs/simulator.md").read_text("utf-8")
KINDS: dict[str, type[BaseModel]] = {"faults": Trouble, "": Profile}


def blocks() -> Iterator[tuple[type[BaseModel], str]]:
    for kind, text in re.findall(r"^```yaml ?(\w*)\n(.*?)^```", PAGE, re.M | re.S):
        yield KINDS[kind], text


@pytest.mark.parametrize(("kind", "text"), list(blocks()))
def test_every_example_is_one(kind: type[BaseModel], text: str) -> None:
    given = yaml.safe_load(text)
    assert kind.model_validate(given) != kind()
    with pytest.raises(ValidationError):
        kind.model_validate(given | {"unheard_of": 1})


def test_every_setting_stands_in_an_example() -> None:
    shown = {key for kind, text in blocks() if kind is Profile for key in keys(yaml.safe_load(text))}
    assert settings(Profile) - shown == set()


@pytest.mark.parametrize("union", [Fault, BatchFault])
def test_every_kind_of_fault_stands_in_an_example(union: Any) -> None:
    kinds = {rule.model_fields["kind"].default for rule in get_args(get_args(union)[0])}
    assert len(kinds) > 5 and {kind for kind in kinds if f"kind: {kind}," not in PAGE} == set()


def test_lengths_lie_between_their_bounds_as_they_are_named() -> None:
    rng = Random(1)
    drawn = {kind: [kind.drawn(rng, 2, 32) for _ in range(2000)] for kind in Lengths}
    assert all(min(lengths) == 2 and max(lengths) == 32 for lengths in drawn.values())
    assert {*drawn[Lengths.RARE]} == {2, 32} and 20 < drawn[Lengths.RARE].count(32) < 60
    assert median(drawn[Lengths.LOGNORMAL]) < mean(drawn[Lengths.LOGNORMAL]) < 8 < mean(drawn[Lengths.UNIFORM])


def keys(value: Any) -> Iterator[str]:
    """Every key of a nested value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


def settings(model: type[BaseModel]) -> set[str]:
    """Every field of a model and of the models in its fields."""
    found: set[str] = set()
    for name, field in model.model_fields.items():
        found.add(name)
        for inner in models_in(field.annotation):
            found |= settings(inner)
    return found


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def test_a_distribution_cannot_play_a_vendor_that_is_played_here(distributions: Distributions) -> None:
    assert entry("openai").value == "hab_simulator.openai:VENDOR"
    distributions.install_modules("evil", "1", {}, {"hab_simulator.vendors": {"openai": "evil:VENDOR"}})
    with pytest.raises(ValueError, match="there are 2 installed packages that play 'openai'"):
        entry("openai")
