"""What `hab init` is told: models, dimensions, number of tests, judges, and an endpoint of one's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from pydantic import ValidationError

from hab_ray.catalog.models import Catalog, ProviderEntry, Purpose, UsdPrice, folder_name, load_catalog
from hab_ray.errors import ConfigError
from hab_ray.inputs.files import causes_of

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
MAX_TESTS = 100_000
_PRICE = re.compile(r"(\d+(?:\.\d+)?)/(\d+(?:\.\d+)?)")
# Who writes and scores candidates, and who embeds them. The first is the paper's and takes its temperature of 1.4.
_MAKERS = (
    ("gpt-4.1", "text-embedding-3-small"),
    ("gpt-6.1-terra", "text-embedding-3-small"),
    ("gemini-3.8-flash", "gemini-embedding-2"),
)


@dataclass(frozen=True)
class OwnEndpoint:
    """An address beyond the catalogue's: a gateway `like` one of its vendors, or any server of OpenAI's protocol.

    `key_env` names the variable that holds its key. `price` is in dollars per million tokens; None is the vendor's.
    """

    url: str
    like: str | None = None
    key_env: str | None = None
    price: UsdPrice | None = None

    @property
    def name(self) -> str:
        """What the sweep calls it."""
        return "gateway" if self.like else "endpoint"

    def has(self, model: str, catalog: Catalog) -> bool:
        """Whether a model is asked here: one of the vendor that this is like, or one that the catalogue lacks."""
        if self.like and model in catalog.models:
            return catalog.models[model].provider == self.like
        return model not in catalog.models and model.partition("/")[0] not in catalog.providers


@dataclass(frozen=True)
class Makers:
    """The models that write and score candidates, and that embed them, by their names in the sweep."""

    chat: str
    embedding: str


@dataclass(frozen=True)
class Answers:
    """A sweep in a user's words. No `dimensions` are all of them; no `tests` are the rubrics' own seed queries."""

    name: str
    models: tuple[str, ...]
    judges: tuple[str, ...]
    dimensions: tuple[str, ...] = ()
    tests: int | None = None
    endpoint: OwnEndpoint | None = None

    def called(self, model: str) -> str:
        """A model's name in the sweep, behind the endpoint's where it is asked there."""
        at = self.endpoint
        if at is None or model.startswith(f"{at.name}/"):
            return model
        return f"{at.name}/{model}" if at.has(model, load_catalog()) else model

    def makers(self, with_key: frozenset[str], today: date) -> Makers:
        """Who makes the tests: models that are there today, at a provider of which a key is at hand if any is.

        `with_key` are the providers of the catalogue whose key is set; a gateway goes before them.
        """
        catalog = load_catalog()
        like = self.endpoint.like if self.endpoint else None

        def rank(makers: tuple[str, str]) -> tuple[bool, bool]:
            provider = catalog.models[makers[0]].provider
            return provider != like, provider not in with_key

        there = [pair for pair in _MAKERS if not _is_gone(catalog, pair, today)]
        chat, embedding = min(there, key=rank)
        return Makers(self.called(chat), self.called(embedding))


def _is_gone(catalog: Catalog, names: tuple[str, ...], today: date) -> bool:
    ends = [catalog.models[name].lifecycle for name in names]
    return any(end is not None and end.ends <= today for end in ends)


def catalogue_models(given: Iterable[str]) -> tuple[str, ...]:
    """Models that can be measured or judge, each once; `provider/model` of a provider of the catalogue is one.

    Raises:
        ConfigError: the catalogue has none of a name, or the model only embeds texts.
    """
    catalog, names = load_catalog(), tuple(dict.fromkeys(given))
    for name in names:
        if catalog.find(name).purpose is not Purpose.CHAT:
            raise ConfigError(f"{name}: embeds texts and answers none; give a model that chats (`hab models`)")
    return names


def dimensions_of(given: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Dimensions of those that are `known`, each once; none for `all`.

    Raises:
        ConfigError: there is none of a name.
    """
    if unknown := [name for name in given if name not in (*known, "all")]:
        raise ConfigError(f"dimensions: there is no {unknown[0]!r}; give all, or some of {', '.join(known)}")
    return () if "all" in given else tuple(dict.fromkeys(given))


def number_of_tests(given: str) -> int | None:
    """How many tests of each dimension; None for `seeds`.

    Raises:
        ConfigError: it is neither `seeds` nor a whole number above 0.
    """
    if given.strip() == "seeds":
        return None
    digits = given.strip().lstrip("0")
    if not digits.isdecimal() or not any(map(int, digits)):
        raise ConfigError(
            "tests: give a whole number above 0 for each dimension, or seeds for the rubrics' own queries"
        )
    if len(digits) > len(str(MAX_TESTS)) or int(digits) > MAX_TESTS:
        raise ConfigError(f"tests: more than {MAX_TESTS:,} of each dimension; the paper asks 500, give fewer")
    return int(digits)


def variable(given: str) -> str:
    """The name of an environment variable. What is refused is not repeated: it may be the key itself.

    Raises:
        ConfigError: it is none.
    """
    if not _VARIABLE.fullmatch(given):
        raise ConfigError(
            "key: this is not the name of a variable (capital letters, digits and _). Keys never go into a sweep file: "
            "put the key into a variable or into .env, and give the variable's name, such as GATEWAY_KEY"
        )
    return given


def price_of(given: str) -> UsdPrice:
    """Dollars per million tokens, input/output, such as 0.1/0.5; 0/0 for a server of one's own.

    Raises:
        ConfigError: it is no such pair, or one of millions.
    """
    found = _PRICE.fullmatch(given.strip())
    if not found:
        raise ConfigError("price: give dollars per million tokens as input/output, such as 0.1/0.5; 0/0 costs nothing")
    try:
        return UsdPrice(input=float(found[1]), output=float(found[2]))
    except ValidationError as error:
        raise ConfigError(f"price: {causes_of(error)}") from None


def vendor_like(given: str) -> str:
    """A vendor of the catalogue that a gateway may be like.

    Raises:
        ConfigError: the catalogue has none of this name.
    """
    vendors = load_catalog().vendors
    if given not in vendors:
        raise ConfigError(f"like: the catalogue has no vendor {given!r}; it has {', '.join(vendors)}")
    return given


def sweep_name(stem: str) -> str:
    """The name of the sweep in a file of this stem."""
    return folder_name(stem.lower())


def key_variables() -> dict[str, str]:
    """The variable that holds the key of each provider of the catalogue that wants one."""
    known: dict[str, ProviderEntry] = dict(load_catalog().providers)
    return {name: entry.key_env for name, entry in known.items() if entry.key_env}
