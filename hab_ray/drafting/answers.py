"""The answers that `hab init` needs: models, dimensions, tests, judges, an own endpoint; and models to suggest."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from pydantic import ValidationError

from hab_ray.catalog.base import UsdPrice
from hab_ray.catalog.models import Catalog, ModelEntry, Purpose, load_catalog
from hab_ray.catalog.prices import priced
from hab_ray.errors import ConfigError
from hab_ray.inputs.files import causes_of

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
MAX_TESTS = 100_000
MAX_EXAMPLES = 4
NONE = "-"
_PRICE = re.compile(r"(\d+(?:\.\d+)?)/(\d+(?:\.\d+)?)")
# Pairs of a chat model that writes and scores candidates, and an embedding model. The first chat model is the paper's
# and accepts its temperature of 1.4.
_MAKERS = (
    ("gpt-4.1", "text-embedding-3-small"),
    ("gpt-6.1-terra", "text-embedding-3-small"),
    ("gemini-3.8-flash", "gemini-embedding-2"),
)
_JUDGES = ("gpt-6.1-terra", "claude-sonnet-5-5", "gemini-3.8-flash")


@dataclass(frozen=True)
class OwnEndpoint:
    """An endpoint outside the catalogue: a gateway `like` one of its vendors, or any server with OpenAI's protocol.

    `key_env` names the environment variable of its key. `price` is in dollars per million tokens; None takes the
    vendor's.
    """

    url: str
    like: str | None = None
    key_env: str | None = None
    price: UsdPrice | None = None

    @property
    def name(self) -> str:
        return "gateway" if self.like else "endpoint"

    def serves(self, model: str, catalog: Catalog) -> bool:
        """Return whether a model is called here: one of the vendor behind the gateway, or one not in the catalogue."""
        if self.like and model in catalog.models:
            return catalog.models[model].provider == self.like
        return model not in catalog.models and model.partition("/")[0] not in catalog.providers


@dataclass(frozen=True)
class Makers:
    """The model that writes and scores candidates and the one that embeds them, by their names in the sweep."""

    chat: str
    embedding: str


@dataclass(frozen=True)
class Answers:
    """What a sweep file is written from. No `dimensions` means all; no `tests` means the rubrics' seed queries."""

    name: str
    models: tuple[str, ...]
    judges: tuple[str, ...]
    dimensions: tuple[str, ...] = ()
    tests: int | None = None
    endpoint: OwnEndpoint | None = None

    def name_in_sweep(self, model: str) -> str:
        """Return a model's name in the sweep, prefixed with the endpoint's name if it is called there."""
        endpoint = self.endpoint
        if endpoint is None or model.startswith(f"{endpoint.name}/") or not endpoint.serves(model, load_catalog()):
            return model
        return f"{endpoint.name}/{model}"


@dataclass(frozen=True)
class Examples:
    """Suggests models `today`, those of providers in `with_key`, whose API key is set, before others."""

    with_key: frozenset[str]
    today: date

    def models(self, vendor: str | None) -> tuple[str, ...]:
        """Return the cheapest models of a vendor; without one, the cheapest model of each of several vendors."""
        if vendor is not None:
            return self._cheapest(vendor)[:MAX_EXAMPLES]
        vendors = sorted(load_catalog().vendors, key=lambda name: name not in self.with_key)
        return tuple(name for each in vendors for name in self._cheapest(each)[:1])[:MAX_EXAMPLES]

    def judge(self, endpoint: OwnEndpoint | None, chosen: Sequence[str]) -> str:
        """Return a judge: of the gateway's vendor, else of one whose key is set, else one `chosen` at the endpoint."""
        models = load_catalog().models
        if endpoint and endpoint.like:
            own = [name for name in _JUDGES if models[name].provider == endpoint.like]
            return (own or self.models(endpoint.like)[-1:] or list(_JUDGES))[0]
        judge = min(_JUDGES, key=lambda name: models[name].provider not in self.with_key)
        return chosen[0] if endpoint and models[judge].provider not in self.with_key else judge

    def makers(self, answers: Answers) -> Makers:
        """Return the models that generate the tests: of the gateway's vendor, else of one whose key is set.

        If there is neither, a judge of an own endpoint writes them; an embedding model there is not known.
        """
        models, like = load_catalog().models, answers.endpoint and answers.endpoint.like

        def rank(makers: tuple[str, str]) -> tuple[bool, bool]:
            provider = models[makers[0]].provider
            return provider != like, provider not in self.with_key

        chat, embedding = makers = min((pair for pair in _MAKERS if not any(map(self._is_retired, pair))), key=rank)
        if answers.endpoint and all(rank(makers)):
            chat = answers.judges[0]
        return Makers(answers.name_in_sweep(chat), answers.name_in_sweep(embedding))

    def _cheapest(self, vendor: str) -> tuple[str, ...]:
        catalog = load_catalog()
        entries = {name: catalog.find(name) for name, model in catalog.models.items() if model.provider == vendor}
        prices = {name: self._price(entry) for name, entry in entries.items()}
        return tuple(sorted((name for name in prices if prices[name]), key=lambda name: prices[name] or 0))

    def _price(self, entry: ModelEntry) -> float | None:
        """Return the dollars per million tokens of output, or None for a model that is not suggested."""
        now = priced(entry, self.today)
        if now.purpose is not Purpose.CHAT or now.lifecycle is not None or now.price is None:
            return None
        return now.price.output

    def _is_retired(self, name: str) -> bool:
        lifecycle = load_catalog().models[name].lifecycle
        return lifecycle is not None and lifecycle.ends <= self.today


def catalogue_models(given: Iterable[str]) -> tuple[str, ...]:
    """Return distinct chat models by catalogue name or `provider/model`; raise ConfigError for any other name."""
    catalog, names = load_catalog(), tuple(dict.fromkeys(given))
    for name in names:
        if catalog.find(name).purpose is not Purpose.CHAT:
            raise ConfigError(f"{name}: only embeds texts; give a chat model (see `hab models`)")
    return names


def models_behind(endpoint: OwnEndpoint, given: Iterable[str]) -> tuple[str, ...]:
    """Return distinct models; raise ConfigError for one without a price: the gateway's vendor has no such model."""
    catalog, names = load_catalog(), tuple(dict.fromkeys(given))
    if endpoint.like is None or endpoint.price is not None:
        return names
    for name in names:
        if endpoint.serves(name, catalog) and name.removeprefix(f"{endpoint.name}/") not in catalog.models:
            near = catalog.near(name)
            hint = f"did you mean {' or '.join(near)}? If not, " if near else ""
            raise ConfigError(
                f"{name}: the catalogue has no such model of {endpoint.like}, so its price is not known; {hint}give "
                "--price IN/OUT, which applies to all models of the endpoint"
            )
    return names


def models_at(endpoint: OwnEndpoint, given: Iterable[str]) -> tuple[str, ...]:
    """Return distinct models that were named as an endpoint's; raise ConfigError as `models_behind` does.

    Without a vendor behind it, the endpoint may call its models as it likes, so they get its prefix even if the
    catalogue has such a name. Only a name that begins with a provider of the catalogue means that provider's model.
    """
    names = models_behind(endpoint, given)
    if endpoint.like:
        return names
    known = (endpoint.name, *load_catalog().providers)
    at = (name if name.partition("/")[0] in known else f"{endpoint.name}/{name}" for name in names)
    return tuple(dict.fromkeys(at))


def dimensions_of(given: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return distinct dimensions, () for `all`; raise ConfigError if one is not among the `known`.

    They may be written with spaces or hyphens, as tables print them.
    """
    given = [re.sub(r"[\s-]+", "_", name.strip().lower()) for name in given]
    if unknown := [name for name in given if name not in (*known, "all")]:
        raise ConfigError(f"dimensions: there is no {unknown[0]!r}; give all, or some of {', '.join(known)}")
    return () if "all" in given else tuple(dict.fromkeys(given))


def number_of_tests(given: str) -> int | None:
    """Read the number of tests per dimension, None for `seeds`; raise ConfigError unless it is 1 to `MAX_TESTS`."""
    if given.strip() == "seeds":
        return None
    digits = given.strip().lstrip("0")
    if not digits.isdecimal() or not any(map(int, digits)):
        raise ConfigError("tests: give a whole number above 0 per dimension, or seeds for the rubrics' own queries")
    if len(digits) > len(str(MAX_TESTS)) or int(digits) > MAX_TESTS:
        raise ConfigError(f"tests: more than {MAX_TESTS:,} per dimension; the paper asks 500, give fewer")
    return int(digits)


def variable(given: str) -> str | None:
    """Read the name of an environment variable, "-" for none. The ConfigError does not repeat it: it may be the key."""
    if (given := given.strip()) == NONE:
        return None
    if not _VARIABLE.fullmatch(given):
        raise ConfigError(
            "key: this is not the name of an environment variable (capital letters, digits and _). Keys never go into "
            "a sweep file: put the key into a variable or into .env, and give the variable's name, such as GATEWAY_KEY"
        )
    return given


def price_of(given: str) -> UsdPrice:
    """Read dollars per million tokens as input/output, such as 0.1/0.5; raise ConfigError for anything else."""
    found = _PRICE.fullmatch(given.strip())
    if not found:
        raise ConfigError("price: give dollars per million tokens as input/output, such as 0.1/0.5; 0/0 is free")
    try:
        return UsdPrice(input=float(found[1]), output=float(found[2]))
    except ValidationError as error:
        raise ConfigError(f"price: {causes_of(error)}") from None


def vendor_like(given: str) -> str | None:
    """Read the name of a vendor of the catalogue, in any case, "-" for none."""
    if (given := given.strip().lower()) == NONE:
        return None
    vendors = load_catalog().vendors
    if given not in vendors:
        raise ConfigError(f"like: the catalogue has no vendor {given!r}; it has {', '.join(vendors)}")
    return given
