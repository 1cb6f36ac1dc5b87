"""Accounts and their models: which keys work, what a model accepts, how it answers, what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from random import Random
from typing import Annotated

import yaml
from pydantic import AfterValidator, Field, TypeAdapter

from hab_simulator.batch.settings import BatchSettings
from hab_simulator.latency import Latency
from hab_simulator.settings import Glob, Settings, Share

_NANO_PER_MILLIONTH = 1000
_HALF = Decimal("0.5")


GROUP = "hab_simulator.vendors"
OPENAI = "openai"
_BUILT_IN = (OPENAI, "anthropic", "google", "xai")


def entry(kind: str) -> EntryPoint:
    """Where the wire protocol of this name is played: in a folder beside this file, or in another distribution.

    Raises:
        ValueError: nowhere, or in several places.
    """
    ours = [EntryPoint(kind, f"{__package__}.{kind}:VENDOR", GROUP)] if kind in _BUILT_IN else []
    found = [*ours, *(entry for entry in installed_vendors() if entry.name == kind)]
    if len(found) != 1:
        installed = sorted(entry.name for entry in installed_vendors())
        known = ", ".join(dict.fromkeys([*_BUILT_IN, *installed]))
        raise ValueError(f"there are {len(found)} installed packages that play {kind!r}; played are {known}")
    return found[0]


@cache
def installed_vendors() -> tuple[EntryPoint, ...]:
    """The vendors that other distributions play, as of the first call: reading all entry points takes 20 ms.

    A distribution whose entry points cannot be read is left out.
    """
    try:
        return tuple(entry_points(group=GROUP))
    except Exception:  # whatever one of the files holds
        entries = (entry for each in distributions() for entry in _entries(each))
        return tuple(dict.fromkeys(entry for entry in entries if entry.group == GROUP))


def _entries(installed: Distribution) -> Iterable[EntryPoint]:
    try:
        return installed.entry_points
    except Exception:  # whatever its file holds
        return ()


def _known(kind: str) -> str:
    return entry(kind).name


class SimulatedSampling(StrEnum):
    """Which of temperature and top_p a model takes; `IGNORED`: both, without any effect."""

    BOTH = "both"
    TEMPERATURE = "temperature"
    FIXED = "fixed"
    IGNORED = "ignored"


class SimulatedThinking(StrEnum):
    """Whether a model reasons before it answers."""

    NONE = "none"
    OPTIONAL = "optional"
    ALWAYS = "always"


class ByBatch(StrEnum):
    """What becomes of a model's batches: answered, refused as a whole, or cancelled once the vendor has looked in."""

    TAKEN = "taken"
    REFUSED = "refused"
    CANCELLED = "cancelled"


class Service(StrEnum):
    """What a model can be asked for."""

    CHAT = "chat"
    EMBEDDINGS = "embeddings"


class SimulatedPrice(Settings):
    """Dollars per million tokens; a cached input token costs as a fresh one if not given."""

    input: Decimal = Field(default=Decimal(0), ge=0)
    output: Decimal = Field(default=Decimal(0), ge=0)
    cached: Decimal | None = Field(default=None, ge=0)

    def nanousd(self, fresh: int, cached: int, output: int) -> int:
        """The cost of one call in nano-dollars, rounded half up once."""
        cached_price = self.input if self.cached is None else self.cached
        micro = fresh * self.input + cached * cached_price + output * self.output
        return int(micro * _NANO_PER_MILLIONTH + _HALF)

    def times(self, share: Decimal) -> SimulatedPrice:
        """This share of every price."""
        return SimulatedPrice(**{name: price * share for name, price in self.model_dump(exclude_none=True).items()})


class Lengths(StrEnum):
    """How lengths lie between two bounds: evenly, most near the lower one, or all at it but one in fifty."""

    UNIFORM = "uniform"
    LOGNORMAL = "lognormal"
    RARE = "rare"

    def drawn(self, rng: Random, low: int, high: int) -> int:
        if self is Lengths.LOGNORMAL:
            return min(high, max(low, round(2 * low * rng.lognormvariate(0, 0.8))))
        if self is Lengths.RARE:
            return high if rng.random() < 0.02 else low
        return rng.randint(low, high)


class SimulatedModel(Settings):
    """One model, or every model whose name fits a pattern.

    `efforts` are the levels of effort that it takes, in lower case; left out, all that its vendor knows.
    `thinking_tokens` and `answer_sentences` are ranges of seeded draws, which lie in them as `lengths` says. `vector`
    is the native width of an embedding. Limits are a minute's. `refused`, `empty`, `cut` and `cached` are shares of
    the requests: a refusal in the vendor's shape, no text at all, a stop half-way, a prompt prefix read from the cache.
    `reports_as` is the name in the reply, for the share `reports_as_share` of them. `batch_price` is that of a
    batch's lines, `batch_queue_tokens` the most input tokens that open batches may hold together; `by_batch` says
    whether it can be asked by batch.
    """

    serves: frozenset[Service] = frozenset(Service)
    retired: bool = False
    sampling: SimulatedSampling = SimulatedSampling.BOTH
    thinking: SimulatedThinking = SimulatedThinking.NONE
    efforts: tuple[str, ...] | None = None
    thinking_tokens: tuple[int, int] = (64, 1024)
    context_tokens: int = Field(default=1_000_000, gt=0)
    output_tokens: int = Field(default=128_000, gt=0)
    answer_sentences: tuple[int, int] = (3, 8)
    lengths: Lengths = Lengths.UNIFORM
    vector: int = Field(default=1536, gt=0)
    price: SimulatedPrice = SimulatedPrice()
    batch_price: SimulatedPrice | None = None
    batch_queue_tokens: int | None = Field(default=None, gt=0)
    by_batch: ByBatch = ByBatch.TAKEN
    latency: Latency | None = None
    requests_per_minute: int | None = Field(default=None, gt=0)
    tokens_per_minute: int | None = Field(default=None, gt=0)
    refused: Share = 0.0
    empty: Share = 0.0
    cut: Share = 0.0
    cached: Share = 0.0
    reports_as: str | None = None
    reports_as_share: Share = 1.0

    def takes_effort(self, level: str | None) -> bool:
        """Whether a request may ask for this level of effort, None where it asks for none."""
        return level is None or self.efforts is None or level.lower() in self.efforts


class SimulatedAccount(Settings):
    """A customer's account at a vendor.

    `kind`: its protocol, for an account under /x/<name> (OpenAI's if not given); a vendor's own has the vendor's.
    `keys`: those accepted (none listed: any that is not empty). `models`: name or shell pattern to model,
    an exact name first, then the first pattern that fits; a name that fits none is unknown (404).
    `quota_calls`: so many billed calls, then the quota is exhausted. `says_retry_after`: whether a
    rate-limit answer tells how long to wait. `batch` goes before the profile's. `batch_queue_rows` and
    `batch_jobs` are the most requests and the most batches that may be open together; an account without `batch_api`
    answers every request about files and batches as unknown.
    """

    kind: Annotated[str, AfterValidator(_known)] | None = None
    keys: frozenset[str] = frozenset()
    models: dict[Glob, SimulatedModel] = Field(default_factory=lambda: {"*": SimulatedModel()})
    quota_calls: int | None = Field(default=None, ge=0)
    says_retry_after: bool = True
    batch: BatchSettings | None = None
    batch_queue_rows: int | None = Field(default=None, gt=0)
    batch_jobs: int | None = Field(default=None, gt=0)
    batch_api: bool = True

    def model(self, name: str) -> SimulatedModel | None:
        """The model of this name, or None where the account has none."""
        fitting = (spec for pattern, spec in self.models.items() if fnmatchcase(name, pattern))
        return self.models.get(name) or next(fitting, None)

    def at_batch_prices(self, share: Decimal) -> SimulatedAccount:
        """The same with each model's batch price, or this share of its price online."""
        models = {
            name: model.model_copy(update={"price": model.batch_price or model.price.times(share)})
            for name, model in self.models.items()
        }
        return self.model_copy(update={"models": models})

    def listed(self) -> dict[str, SimulatedModel]:
        """The models that have a plain name."""
        return {name: model for name, model in self.models.items() if not set("*?[") & set(name)}


@cache
def vendors() -> Mapping[str, SimulatedAccount]:
    """The real vendors' accounts as shipped in vendors.yaml."""
    text = resources.files(__package__).joinpath("vendors.yaml").read_text("utf-8")
    return TypeAdapter(dict[str, SimulatedAccount]).validate_python(yaml.safe_load(text))
