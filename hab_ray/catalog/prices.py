"""Prices of models on a day, and the cost of a call in integer nano-dollars.

Prices are nano-dollars per million tokens, so every published price (up to nine decimals of a dollar per million) is an
exact integer and a call's cost is rounded once, half up.

Some prices rise with the length of a request: above so many input tokens, all of its tokens cost more. A request's
bound takes the highest price that its bytes can reach.

A model's price comes from the sweep, else the catalogue, else the dated price list of the library genai-prices. Where
that list has different prices within a day, the most expensive hour counts, so that a reservation is an upper bound.
For the same reason, a call is reserved at the highest price from today until `AHEAD` later: it may be sent only then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from hab_ray.calls import Call, EmbedCall, Usage, clean_text
from hab_ray.catalog.base import Dollars, LaterPrice, PriceStep, UsdPrice
from hab_ray.catalog.models import SURELY_LIKE, Catalog, ModelEntry, load_catalog
from hab_ray.errors import ConfigError

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, TieredPrices

PER_MILLION = 1_000_000
NANO = 1_000_000_000
BYTES_PER_TOKEN = 4  # an estimate, for texts of which no tokens were counted yet
AHEAD = timedelta(days=3)  # a packed batch waits for the account's open ones, each of which ends within 30 hours
TOKENS_PER_REQUEST = 10  # roles and separators around the texts
_BATCH = {"processing": "batch"}


class Mode(StrEnum):
    """How a call is sent: online, or through the vendor's batch API."""

    ONLINE = "online"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Price:
    """Nano-dollars per million tokens. `cached` and `cache_written` price parts of the input.

    `steps` are the prices of longer requests, ascending: each with the number of input tokens above which it applies.
    """

    input: int
    output: int
    cached: int
    cache_written: int
    steps: tuple[tuple[int, Price], ...] = ()

    @classmethod
    def usd(cls, input: float, output: float, cached: float | None = None, cache_written: float | None = None) -> Price:
        """Return a price given in dollars per million tokens. Cached parts default to the input's price."""
        whole = round(input * NANO)
        return cls(
            input=whole,
            output=round(output * NANO),
            cached=whole if cached is None else round(cached * NANO),
            cache_written=whole if cache_written is None else round(cache_written * NANO),
        )

    def at(self, input_tokens: int) -> Price:
        """Return the price, without steps, of a request with this many input tokens."""
        if not self.steps:
            return self
        reached = [price for above, price in self.steps if input_tokens > above]
        return reached[-1] if reached else replace(self, steps=())

    def up_to(self, input_tokens: int) -> Price:
        """Return the highest price, part by part and without steps, of requests with at most this many input tokens."""
        if not self.steps:
            return self
        return _dearest([self, *(price for above, price in self.steps if input_tokens > above)])

    def cost(self, usage: Usage) -> int:
        """Return the cost of one call in nano-dollars, rounded half up.

        If a vendor reports more cached tokens than input tokens, the cached tokens are charged in full.
        """
        uncached = max(0, usage.input - usage.cached - usage.cache_written)
        price = self.at(uncached + usage.cached + usage.cache_written)
        total = (
            uncached * price.input
            + usage.cached * price.cached
            + usage.cache_written * price.cache_written
            + usage.output * price.output
        )
        return (total + PER_MILLION // 2) // PER_MILLION

    def bound(self, input_bytes: int, output_tokens: int) -> int:
        """Return the upper bound of a call's cost in nano-dollars; a token has at least one byte."""
        price = self.up_to(input_bytes)
        total = input_bytes * max(price.input, price.cached, price.cache_written) + output_tokens * price.output
        return -(-total // PER_MILLION)


def _dearest(prices: Sequence[Price]) -> Price:
    """Return the highest of some prices, part by part and without steps."""
    return Price(*(max(getattr(price, part) for price in prices) for part in Dollars.model_fields))


def input_bytes(call: Call) -> int:
    """Return the UTF-8 bytes of a call's texts and schema: the upper bound of its input tokens."""
    if isinstance(call, EmbedCall):
        texts = [call.text]
    else:
        texts = [call.system, *(message.text for message in call.messages), call.schema_json or ""]
    return sum(len(clean_text(text).encode()) for text in texts)


def estimated_input_tokens(input_bytes: int) -> int:
    """Return how many input tokens a request with this many bytes of text counts towards a vendor's limits."""
    return input_bytes // BYTES_PER_TOKEN + TOKENS_PER_REQUEST


def priced(entry: ModelEntry, on: date) -> ModelEntry:
    """Return the entry with the online and batch prices of a day, and the listed later ones, filled in.

    It is unchanged if no price is known.
    """
    now = _priced(entry, on)
    if entry.price or now.price is None:
        return now
    after = ((day, _priced(entry, day)) for day in sorted(_changes(entry)) if day > on)
    later = tuple(
        LaterPrice(start=day, price=then.price, batch=then.batch.price if then.batch else None)
        for day, then in after
        if then.price
    )
    return now.model_copy(update={"priced_on": on, "later": later})


def _priced(entry: ModelEntry, on: date) -> ModelEntry:
    online = entry.price or _listed(entry, on, Mode.ONLINE)
    if online is None:
        return entry
    batch = entry.batch
    if batch and batch.price is None:
        listed = None if entry.price else _listed(entry, on, Mode.BATCH)
        batch = batch.model_copy(update={"price": listed or _discounted(online, batch.discount)})
    return entry.model_copy(update={"price": online, "batch": batch})


def rate(entry: ModelEntry, mode: Mode) -> Price:
    """Return the price of an entry from `priced`; the online price if the model has no batch terms.

    Raises:
        ConfigError: no price is known.
    """
    price = entry.batch.price if entry.batch and mode is Mode.BATCH else entry.price
    if price is None:
        raise ConfigError(no_price(entry))
    return _with_steps(price)


@dataclass(frozen=True)
class DatedPrices:
    """A model's prices in one mode: the one it has been priced at, and later ones by their first day, ascending."""

    first: Price
    later: tuple[tuple[date, Price], ...] = ()

    def on(self, day: date) -> Price:
        """Return the price of a day."""
        return [self.first, *(price for start, price in self.later if start <= day)][-1]

    def reserved(self, day: date) -> Price:
        """Return the price at which to reserve a call on a day: part by part the highest until `AHEAD` later."""
        prices = [self.on(day), *(price for start, price in self.later if day < start <= day + AHEAD)]
        if len(prices) == 1:
            return prices[0]
        starts = sorted({above for price in prices for above, _ in price.steps})
        steps = tuple((above, _dearest([price.at(above + 1) for price in prices])) for above in starts)
        return replace(_dearest([price.at(0) for price in prices]), steps=steps)


def rates(entry: ModelEntry, mode: Mode) -> DatedPrices:
    """Return the prices of an entry from `priced`, by day; raise ConfigError if no price is known."""
    later = ((one.start, (one.batch if mode is Mode.BATCH else None) or one.price) for one in entry.later)
    return DatedPrices(rate(entry, mode), tuple((start, _with_steps(price)) for start, price in later))


def reserved_rate(entry: ModelEntry, mode: Mode) -> Price:
    """Return the price at which a call is reserved on the day for which the entry was priced.

    Raises:
        ConfigError: no price is known.
    """
    return rates(entry, mode).reserved(entry.priced_on or date.min)


def _with_steps(price: UsdPrice) -> Price:
    return replace(_exact(price), steps=tuple((step.above, _exact(step)) for step in price.steps))


def _exact(price: Dollars) -> Price:
    return Price.usd(price.input, price.output, price.cached, price.cache_written)


def context_tokens(entry: ModelEntry) -> int | None:
    """Return the model's context window in tokens (input and output) by the price list, or None if unknown."""
    model = _in_price_list(entry, entry.wire)
    return None if model is None else model.context_window


def no_price(entry: ModelEntry) -> str:
    """Return the message for a model without a price; it suggests similar names and the vendor's price list."""
    key, catalog = f"providers.{entry.provider}.models.{entry.wire}.price", load_catalog()
    near = catalog.near(f"{entry.provider}/{entry.wire}", SURELY_LIKE)
    if near and not any(catalog.find(name).covers(entry.wire) for name in near):
        cause = f"there is no {entry.provider}/{entry.wire}; did you mean {' or '.join(near)}?"
        return f"{cause} For a model of your own, give {key}: {{input: ..., output: ...}}"
    return (
        f"{key}: no price is known for {entry.wire}; "
        "give {input: ..., output: ...} in dollars per million tokens, or {input: 0, output: 0} if it costs nothing"
        f"{_own_prices(entry, catalog) if near else ''}"
    )


def _own_prices(entry: ModelEntry, catalog: Catalog) -> str:
    vendor = catalog.providers.get(entry.provider)
    if vendor is None or vendor.priced_as is None or entry.priced_as is not None:
        return ""
    return f", or `providers.{entry.provider}.priced_as: {vendor.priced_as}` for the vendor's own"


def _discounted(price: UsdPrice, discount: float) -> UsdPrice:
    steps = tuple(PriceStep(above=step.above, **_reduced(step, discount)) for step in price.steps)
    return UsdPrice(**_reduced(price, discount), steps=steps)


def _reduced(price: Dollars, discount: float) -> dict[str, Any]:
    parts = price.model_dump(include=set(Dollars.model_fields), exclude_none=True)
    return {name: round(part * (1 - discount), 9) for name, part in parts.items()}


def _listed(entry: ModelEntry, on: date, mode: Mode) -> UsdPrice | None:
    """Return the highest price of the day in the price list; None for a batch if the list has no batch tier."""
    if entry.priced_as is None:
        return None
    hours = [datetime.combine(on, time(hour), UTC) for hour in range(24)]
    prices = [price for price in (_price_at(entry, hour, mode) for hour in hours) if price]
    return max(prices, key=lambda price: (price.input, price.output), default=None)


def _in_price_list(entry: ModelEntry, wire: str) -> ModelInfo | None:
    from genai_prices import data_snapshot  # takes 0.4 s

    if entry.priced_as is None:
        return None
    try:
        _, model = data_snapshot.get_snapshot().find_provider_model(wire, None, entry.priced_as, None)
    except LookupError:
        return None
    return model


def _changes(entry: ModelEntry) -> set[date]:
    """Return the days from which the price list has another price for the model, or another model answers for it."""
    from genai_prices.types import StartDateConstraint

    end, wires, changes = entry.lifecycle, {entry.wire}, set[date]()
    if end and end.answered_by:
        wires.add(end.answered_by)
        changes.add(end.ends)
    for model in filter(None, (_in_price_list(entry, wire) for wire in wires)):
        prices = model.prices if isinstance(model.prices, list) else ()
        constraints = (each.constraint for each in (*prices, *(model.price_variants or ())))
        changes |= {each.start_date for each in constraints if isinstance(each, StartDateConstraint)}
    return changes


def _price_at(entry: ModelEntry, at: datetime, mode: Mode) -> UsdPrice | None:
    from genai_prices.types import TieredPrices

    model = _in_price_list(entry, entry.wire_on(at.date()))
    if model is None:
        return None
    online = model.get_prices(at)
    found = online if mode is Mode.ONLINE else model.get_prices(at, _BATCH)
    if (mode is Mode.BATCH and found == online) or found.input_mtok is None:
        return None

    parts = {
        "input": found.input_mtok,
        "output": found.output_mtok or Decimal(0),
        "cached": found.cache_read_mtok,
        "cache_written": found.cache_write_mtok,
    }
    starts = {tier.start for part in parts.values() if isinstance(part, TieredPrices) for tier in part.tiers}
    steps = tuple(PriceStep(above=start, **_dollars(parts, start + 1)) for start in sorted(starts))
    return UsdPrice(**_dollars(parts, 0), steps=steps)


def _dollars(parts: Mapping[str, Decimal | TieredPrices | None], input_tokens: int) -> dict[str, Any]:
    """Return the listed prices of a request with this many input tokens."""
    from genai_prices.types import TieredPrices

    found: dict[str, Any] = {}
    for name, part in parts.items():
        if isinstance(part, TieredPrices):
            reached = [tier.price for tier in part.tiers if input_tokens > tier.start]
            part = reached[-1] if reached else part.base
        found[name] = None if part is None else float(part)
    return found
