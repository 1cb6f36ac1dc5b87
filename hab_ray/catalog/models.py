"""The catalogue: providers (accounts and endpoints) and models with their capabilities and limits.

The catalogue is data: `hab_ray/catalog/catalog.yaml` holds the shipped entries, and a sweep adds its own. What a model
accepts is declared there and never guessed from its name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from hab_ray import bounds
from hab_ray.calls import Params
from hab_ray.catalog.addresses import checked_headers, checked_url, checked_variable, is_at
from hab_ray.catalog.base import LaterPrice, Strict, UsdPrice
from hab_ray.errors import ConfigError
from hab_ray.inputs.yaml_text import parse_yaml

LIKE, SURELY_LIKE = 0.6, 0.85
_SERVED_AT_ONCE = 4
_MAX_NAME = 200
_PLAIN_NAME = re.compile(r"^[a-z0-9][a-z0-9._-]{0,63}$")


class Sampling(StrEnum):
    """Which of temperature and top_p a model takes. `IGNORED`: it takes both, and neither has any effect."""

    BOTH = "both"
    TEMPERATURE = "temperature"
    FIXED = "fixed"
    IGNORED = "ignored"


class Thinking(StrEnum):
    """Whether a model reasons before it answers."""

    NONE = "none"
    OPTIONAL = "optional"
    ALWAYS = "always"


class Purpose(StrEnum):
    """What a model is for."""

    CHAT = "chat"
    EMBEDDING = "embedding"


class Limits(Strict):
    """What an account may send. None = no known limit: the rate limiter adapts to the vendor's headers and 429s.

    `concurrent` bounds the calls in flight. `patience_s` is how long a run waits for an unreachable endpoint, or for a
    model that refuses every call (429, 503, 529), before giving it up. `enqueued_tokens` bounds the tokens in a model's
    open batches.
    """

    requests_per_minute: bounds.PerMinute | None = None
    tokens_per_minute: bounds.PerMinute | None = None
    enqueued_tokens: bounds.PerMinute | None = None
    concurrent: bounds.Concurrent = 256
    patience_s: bounds.LongSeconds = 900.0
    timeout_s: bounds.LongSeconds = 600.0


OF_ACCOUNTS = frozenset({"patience_s", "timeout_s"})
"""The limits that have no effect at a single model."""


class BatchTerms(Strict):
    """What a model costs through its vendor's batch API; an entry without these terms has no batch API.

    `discount` is the share taken off the online price where no batch price is listed.
    """

    discount: bounds.Share
    price: UsdPrice | None = None


class BatchPolicy(Strict):
    """Size limits of an account's batches, and how they are polled. Times in seconds.

    The poll interval is a tenth of the batch's age, from `poll_s` to `longest_poll_s`. After a create request without a
    clear answer, the vendor's list must lack the batch for `in_doubt_s` before the batch is submitted again. A batch
    that has not ended after `longest_s` is cancelled, and its unanswered rows go into another. If a vendor may still
    change the counters of an ended batch, its results are collected once the counters are unchanged for `still_s`.
    """

    rows: bounds.BatchRows = 50_000
    megabytes: bounds.Megabytes = 32.0
    poll_s: bounds.LongSeconds = 15.0
    longest_poll_s: bounds.LongSeconds = 300.0
    in_doubt_s: bounds.WaitSeconds = 600.0
    longest_s: bounds.LongSeconds = 108_000.0
    still_s: bounds.WaitSeconds = 60.0


class Lifecycle(Strict):
    """The day (`ends`) from which the vendor no longer serves a model under its name, and the source of that (`why`).

    If the vendor re-routes the name instead of refusing it, `answered_by` is the wire name of the model that answers
    from then on, at its own price. Replies report that name and do not count as replies of the requested model.
    """

    ends: date
    why: str
    answered_by: str | None = None


class Cutoff(Strict):
    """The last day that a model's training data is known to cover, and the source."""

    until: date
    source: Annotated[str, Field(min_length=1)]


class Capabilities(Strict):
    """What a model accepts and returns. `limits`, `price` and `batch` default to the provider's.

    `alias: moving` marks a name whose weights change; its replies are kept apart by month. `reports` lists the names
    besides the wire name that the model may answer under, as file name patterns (`*`, `[0-9]`); None = any name.
    `schema_bounds`: the bounds in a JSON schema that the server supports. `list_size`: texts per embedding request.
    `efforts`: the effort levels that the vendor takes, as patterns; None = any if the model thinks, else none.
    `highest_temperature` and `most_output` (tokens including thinking; None = unknown) are the vendor's maxima.
    `cutoff`: the end of the training data; None = unknown.
    """

    purpose: Purpose = Purpose.CHAT
    sampling: Sampling = Sampling.BOTH
    thinking: Thinking = Thinking.NONE
    thinking_reserve: bounds.Reserve = 8192
    output_limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    json_schema: bool = True
    api_version: str | None = None
    alias: Literal["pinned", "moving"] = "pinned"
    schema_bounds: tuple[Literal["lists", "strings"], ...] = ()
    reports: tuple[str, ...] | None = None
    weights: str | None = None
    list_size: bounds.PerList = 256
    limits: Limits | None = None
    price: UsdPrice | None = None
    batch: BatchTerms | None = None
    lifecycle: Lifecycle | None = None
    highest_temperature: bounds.HighestTemperature = 2.0
    efforts: tuple[str, ...] | None = None
    most_output: bounds.Tokens | None = None
    cutoff: Cutoff | None = None


class ModelEntry(Capabilities):
    """One model at one provider. `wire` is the name sent to the vendor; `priced_as` comes from the provider.

    If the price is that of the price list on the day `priced_on`, `later` has the prices listed from later days on,
    the earliest first.
    """

    provider: str
    wire: str
    priced_as: str | None = None
    priced_on: date | None = Field(default=None, exclude=True)
    later: tuple[LaterPrice, ...] = Field(default=(), exclude=True)

    def wire_on(self, day: date) -> str:
        """Return the wire name of the model that answers requests for this one on a day."""
        end = self.lifecycle
        return end.answered_by if end and end.answered_by and end.ends <= day else self.wire

    def output_limit(self, visible: int) -> int:
        """Return the most tokens that an answer of `visible` tokens can be billed for: thinking comes on top."""
        return visible if self.thinking is Thinking.NONE else visible + self.thinking_reserve

    @property
    def sends_effort(self) -> bool:
        """Whether requests carry the effort that a sweep sets; some models take an effort and do not think."""
        return self.thinking is not Thinking.NONE if self.efforts is None else bool(self.efforts)

    def without_lone_effort(self) -> ModelEntry:
        """Return the model as runs of earlier versions use it: only models that think are sent an effort."""
        return self.model_copy(update={"efforts": ()}) if self.thinking is Thinking.NONE and self.efforts else self

    def takes_effort(self, effort: str) -> bool:
        return self.efforts is None or any(fnmatchcase(effort.lower(), pattern) for pattern in self.efforts)

    def covers(self, name: str) -> bool:
        """Whether a vendor's name means this model: its wire name, or that of one of its snapshots."""
        if name == self.wire or any(fnmatchcase(name, pattern) for pattern in self.reports or ()):
            return True
        return bool(re.fullmatch(re.escape(self.wire) + r"-\d{3,}[0-9a-z-]*", name))


class ProviderEntry(Strict):
    """An account at a vendor, or an endpoint that speaks a vendor's protocol.

    `kind` is the vendor's name in the table of vendors. `load_sweep` checks it, not this class, so that a run can be
    read where its kind is not installed. `like` names a vendor of the catalogue whose protocol and models the endpoint
    offers: fields left out default to the vendor's, but its key is never sent to another address. `key_env` names the
    environment variable that holds the key; `headers_env` maps further header names to variables. `serve: true` makes
    `hab` start the local model server for it. `price`, `limits` and `batch` are defaults for its models. `batch: true`
    means the batch terms of the `like` vendor, `false` none; left out, the vendor's terms apply at the vendor's own
    address only. `models` overrides the catalogue's entries, by wire name or, with `like`, the catalogue's name.
    `api_version` is the vendor's API version; a model's own takes precedence. `priced_as` is the provider's name in the
    price list of genai-prices; without it a model needs a `price`. `lanes` is the number of Ray actors that call it; by
    default as many as its limits need.
    """

    like: str | None = None
    kind: str
    url: Annotated[str, AfterValidator(checked_url)] | None = None
    key_env: Annotated[str, AfterValidator(checked_variable)] | None = None
    headers_env: Annotated[Mapping[str, str], AfterValidator(checked_headers)] = {}
    serve: bool = False
    limits: Limits = Field(default=Limits(), validate_default=True)
    price: UsdPrice | None = None
    batch: BatchTerms | bool | None = None
    batches: BatchPolicy = BatchPolicy()
    api_version: str | None = Field(default=None, pattern=r"^[A-Za-z0-9.-]+$")
    priced_as: str | None = None
    lanes: bounds.Lanes | None = None
    models: Mapping[str, Capabilities] = {}

    @model_validator(mode="before")
    @classmethod
    def _kind_from_like(cls, given: Any) -> Any:
        like = given.get("like") if isinstance(given, dict) else None
        if not isinstance(like, str) or "kind" in given:
            return given
        vendor = load_catalog().gateway_to(like)
        return {**given, "kind": vendor.kind if vendor else like}

    @field_validator("limits")
    @classmethod
    def _few_at_once_if_served(cls, limits: Limits, info: ValidationInfo) -> Limits:
        """Reduce the default number of calls in flight: a local server has memory for the context of each."""
        if info.data.get("serve") and "concurrent" not in limits.model_fields_set:
            return limits.model_copy(update={"concurrent": _SERVED_AT_ONCE})
        return limits

    @model_serializer(mode="wrap")
    def _without_vendor_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write only the given fields of a `like` entry, so that a reader fills in the vendor's defaults again."""
        written: dict[str, Any] = handler(self)
        kept = self.model_fields_set if self.like else written.keys() - {"like"}
        return {name: value for name, value in written.items() if name in kept}

    @property
    def terms(self) -> BatchTerms | None:
        """The batch terms of models that have none of their own."""
        return self.batch if isinstance(self.batch, BatchTerms) else None

    def has_batches_of(self, vendor: ProviderEntry) -> bool:
        """Whether this endpoint offers the vendor's batch API: as `batch` says, else only at the vendor's address."""
        return self.is_at(vendor) if self.batch is None else bool(self.batch)

    def is_at(self, vendor: ProviderEntry) -> bool:
        """Whether requests go to the vendor's own address, the default of a `like` entry."""
        is_own = self.url is None and self.like is not None
        return is_own or (self.url or "").rstrip("/") == (vendor.url or "").rstrip("/")

    @field_serializer("models")
    def _as_given(self, models: Mapping[str, Capabilities]) -> dict[str, Any]:
        """Write only the given fields, so that a reader fills in the catalogue's again."""
        return {wire: given.model_dump(mode="json", exclude_unset=True) for wire, given in models.items()}


class Catalog(Strict):
    """All providers and models of a run."""

    providers: Mapping[str, ProviderEntry]
    models: Mapping[str, ModelEntry]

    @property
    def sha256(self) -> str:
        """The hash of everything in the catalogue, for the record of a run."""
        return sha256(self.model_dump_json().encode()).hexdigest()

    def extended(self, providers: Mapping[str, ProviderEntry]) -> Catalog:
        """Return the catalogue with a sweep's own providers; one of the same name replaces the shipped one.

        Its prices and batch terms take precedence over those of the models. At an address other than the vendor's,
        models have no batch API unless it declares one.
        """
        changed = dict(self.models)
        providers = {provider: self._by_wire_names(own) for provider, own in providers.items()}
        for provider, own in providers.items():
            vendor = self.gateway_to(own.like)
            for name, model in self.models.items():
                if model.provider == provider:
                    changed[name] = _on_own_terms(model, own, self.providers[provider])
                if vendor and model.provider == own.like:
                    here = _on_own_terms(model.model_copy(update={"provider": provider}), own, vendor)
                    changed |= {f"{provider}/{known_as}": here for known_as in (name, model.wire)}
        filled = {name: _with_vendor_defaults(own, self.gateway_to(own.like)) for name, own in providers.items()}
        return Catalog(providers={**self.providers, **filled}, models=changed)

    def _by_wire_names(self, own: ProviderEntry) -> ProviderEntry:
        """Return a `like` endpoint with wire names for the catalogue names in `models`, unless it gives both."""
        wires = {name: model.wire for name, model in self.models.items() if model.provider == own.like}
        given = own.models.keys()
        named = {name: wire for name, wire in wires.items() if name in given and wire not in given}
        if not named:
            return own
        return own.model_copy(update={"models": {named.get(key, key): each for key, each in own.models.items()}})

    def gateway_to(self, like: str | None) -> ProviderEntry | None:
        """Return the vendor that an endpoint is `like`, or None if the catalogue does not have it."""
        return self.vendors.get(like) if like else None

    def is_vendors(self, url: str) -> bool:
        """Whether this address is one of the vendors' own, for a region too."""
        return any(is_at(url, urlsplit(vendor.url).hostname or "") for vendor in self.vendors.values() if vendor.url)

    @property
    def vendors(self) -> Mapping[str, ProviderEntry]:
        """The providers with a URL, which a gateway can stand in for."""
        return {name: entry for name, entry in self.providers.items() if entry.url}

    def find(self, name: str) -> ModelEntry:
        """Return the model of this name: one of the catalogue's, or `provider/wire-name` at a known provider.

        At a provider that `hab` serves itself, the wire name may be the path of a .gguf file. Raise ConfigError if the
        name is neither.
        """
        if name in self.models:
            return self._with_defaults(self.models[name])
        provider, slash, wire = name.partition("/")
        if slash and wire and provider in self.providers:
            return self._with_defaults(_at_provider(provider, self.providers[provider], wire))
        near = self.near(name)
        hint = f"did you mean {' or '.join(map(repr, near))}? It" if near else "it"
        raise ConfigError(
            f"unknown model {name!r}: {hint} is neither in the catalogue (`hab models` shows it) nor of the form "
            f"provider/model with a provider of the catalogue or the sweep ({_listed(self.providers)})"
        )

    def near(self, name: str, likeness: float = LIKE) -> list[str]:
        """Return up to three models of the catalogue with a similar name or wire name, the most similar first.

        `likeness` is the least difflib ratio, 0..1. For `provider/model` with a known provider, only its models count.
        """
        provider, slash, wire = name.partition("/")
        is_known = bool(slash) and provider in self.providers
        searched = [provider] if is_known else list(self.providers)
        wanted = (wire if is_known else name.rpartition("/")[2]).lower()[:_MAX_NAME]
        models = {n: m for n, m in self.models.items() if m.provider in searched}
        own = {wire.lower(): f"{p}/{wire}" for p in searched for wire in self.providers[p].models}
        spellings = own | {m.wire.lower(): n for n, m in models.items()} | {n.lower(): n for n in models}
        matches = difflib.get_close_matches(wanted, spellings, n=6, cutoff=likeness)
        return list(dict.fromkeys(spellings[match] for match in matches))[:3]

    def _with_defaults(self, entry: ModelEntry) -> ModelEntry:
        provider = self.providers[entry.provider]
        changed = provider.models.get(entry.wire, Capabilities())
        entry = entry.model_copy(update={name: getattr(changed, name) for name in changed.model_fields_set})
        return entry.model_copy(
            update={
                "limits": _limits(entry.limits, provider.limits),
                "price": entry.price or provider.price,
                "batch": entry.batch or provider.terms,
                "priced_as": provider.priced_as,
            }
        )


def _limits(own: Limits | None, accounts: Limits) -> Limits:
    """Return a model's limits: its own as far as it has some, else its account's."""
    given = own.model_fields_set - OF_ACCOUNTS if own else ()
    return accounts.model_copy(update={name: getattr(own, name) for name in given})


def _at_provider(name: str, provider: ProviderEntry, wire: str) -> ModelEntry:
    given = provider.models.get(wire, Capabilities())
    if provider.serve and wire.endswith(".gguf"):
        stem = wire.rpartition("/")[2].removesuffix(".gguf")
        served = given.model_copy(update={"weights": wire, "schema_bounds": ("lists", "strings")})
        return ModelEntry(provider=name, wire=stem, **served.model_dump())
    return ModelEntry(provider=name, wire=wire, **given.model_dump())


def _on_own_terms(model: ModelEntry, own: ProviderEntry, vendor: ProviderEntry) -> ModelEntry:
    """Return a vendor's model with the price and batch terms of the sweep's provider `own`."""
    given = own.models.get(model.wire, Capabilities())
    price, batch = given.price or own.price, given.batch or own.terms
    if batch is None and model.batch and own.has_batches_of(vendor):
        batch = model.batch.model_copy(update={"price": None}) if price else model.batch
    return model.model_copy(update={"price": price or model.price, "batch": batch})


def _with_vendor_defaults(own: ProviderEntry, vendor: ProviderEntry | None) -> ProviderEntry:
    if vendor is None:
        return own
    inherited = {"priced_as", "limits", "batches", "api_version"}
    if own.is_at(vendor):
        inherited |= {"key_env", "headers_env"}
    defaults: dict[str, Any] = {name: getattr(vendor, name) for name in inherited - own.model_fields_set}
    defaults["url"] = own.url or vendor.url
    if own.terms is None and own.has_batches_of(vendor):
        defaults["batch"] = vendor.batch or True
    return own.model_copy(update=defaults)


def _listed(names: Mapping[str, Any]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:12]) + (", ..." if len(shown) > 12 else "")


@cache
def load_catalog() -> Catalog:
    """Return the catalogue that ships with this version."""
    text = resources.files("hab_ray").joinpath("catalog", "catalog.yaml").read_text(encoding="utf-8")
    return Catalog.model_validate(parse_yaml(text))


IF_SUBSTITUTED = (
    "if both are the same model, list the first name in its `reports` (providers.<name>.models); to use another "
    "model's answers, set `accept_substitutes: true`. The same command pays for none of them again"
)


@dataclass(frozen=True)
class Model:
    """A model of a run: its catalogue name, its entry, and the month that pins a moving name (see ChatCall)."""

    name: str
    entry: ModelEntry
    as_of: str | None = None

    def is_itself(self, reported: str) -> bool:
        """Whether a reply that reports this model name counts as the model's own.

        Some gateways report no name, or put vendors before it, as in `openrouter/openai/gpt-6`.
        """
        if self.entry.reports is None or not reported or f"/{reported}".endswith(f"/{self.entry.wire}"):
            return True
        return any(fnmatchcase(reported, pattern) for pattern in self.entry.reports)

    def substitute(self, reported: str) -> str | None:
        """Return which model answered in place of this one if a reply reports this name; None if it is its own."""
        return None if self.is_itself(reported) else f"answered by {reported}, asked {self.entry.wire}"


def accepted(entry: ModelEntry, wanted: Params) -> Params:
    """Return the settings to send to this model: those that its vendor refuses are left out."""
    temperature = wanted.temperature if entry.sampling is not Sampling.FIXED else None
    top_p = wanted.top_p if entry.sampling in (Sampling.BOTH, Sampling.IGNORED) else None
    effort = wanted.effort if entry.sends_effort else None
    return Params(wanted.max_tokens, temperature, top_p, effort)


def folder_name(name: str) -> str:
    """Return a folder name for `name`: itself if it is plain, else a slug and eight digits of its hash."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    slug = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:50] or "x"
    return f"{slug}-{sha256(name.encode()).hexdigest()[:8]}"
