"""Dollars: what a call costs, in integer nano-dollars, and what a model's tokens cost on a day.

A price is held per million tokens in nano-dollars, so that every published price (up to nine decimals of a
dollar per million) is an exact integer and a call's cost is rounded once, half up.

A model's price is the first there is of: what the sweep says, what the catalogue says, and the dated price list of
the library genai-prices. The list may price a day's hours differently: the dearest hour counts, so that a
reservation stays a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from hab_ray.calls import Call, EmbedCall, Usage, clean_text
from hab_ray.catalog.models import SURELY_LIKE, ModelEntry, UsdPrice, load_catalog
from hab_ray.errors import ConfigError

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

PER_MILLION = 1_000_000
NANO = 1_000_000_000
BYTES_PER_TOKEN = 4  # an estimate, for texts of which no tokens were counted yet
_BATCH = {"processing": "batch"}


class Mode(StrEnum):
    """How a call is sent: at once, or in a job at the vendor's batch API."""

    ONLINE = "online"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Price:
    """Nano-dollars per million tokens; `cached` and `cache_written` are prices of parts of the input."""

    input: int
    output: int
    cached: int
    cache_written: int

    @classmethod
    def usd(cls, input: float, output: float, cached: float | None = None, cache_written: float | None = None) -> Price:
        """A price from dollars per million tokens; cached parts cost as much as the input where not given."""
        whole = round(input * NANO)
        return cls(
            input=whole,
            output=round(output * NANO),
            cached=whole if cached is None else round(cached * NANO),
            cache_written=whole if cache_written is None else round(cache_written * NANO),
        )

    def cost(self, usage: Usage) -> int:
        """The cost of one call in nano-dollars, rounded half up.

        Parts that a vendor counts beyond the whole input cost what they are; nothing is taken off for them.
        """
        fresh = max(0, usage.input - usage.cached - usage.cache_written)
        total = (
            fresh * self.input
            + usage.cached * self.cached
            + usage.cache_written * self.cache_written
            + usage.output * self.output
        )
        return (total + PER_MILLION // 2) // PER_MILLION

    def bound(self, input_bytes: int, output_tokens: int) -> int:
        """The most a call can cost, in nano-dollars: a token has at least one byte."""
        dearest_input = max(self.input, self.cached, self.cache_written)
        total = input_bytes * dearest_input + output_tokens * self.output
        return -(-total // PER_MILLION)


def input_bytes(call: Call) -> int:
    """The UTF-8 bytes of all that a call says: the bound of its input tokens."""
    texts = [call.text] if isinstance(call, EmbedCall) else [call.system, *(m.text for m in call.messages)]
    schema = "" if isinstance(call, EmbedCall) else call.schema_json or ""
    return sum(len(clean_text(text).encode()) for text in [*texts, schema])


def priced(entry: ModelEntry, on: date) -> ModelEntry:
    """The entry with the prices of a day filled in, online and batch; unchanged where no price is known."""
    online = entry.price or _listed(entry, on, Mode.ONLINE)
    if online is None:
        return entry
    batch = entry.batch
    if batch and batch.price is None:
        listed = None if entry.price else _listed(entry, on, Mode.BATCH)
        batch = batch.model_copy(update={"price": listed or _less(online, batch.discount)})
    return entry.model_copy(update={"price": online, "batch": batch})


def rate(entry: ModelEntry, mode: Mode) -> Price:
    """The price of a resolved entry; the online one where the vendor's batch API is not used for the model.

    Raises:
        ConfigError: none is known.
    """
    price = entry.batch.price if entry.batch and mode is Mode.BATCH else entry.price
    if price is None:
        raise ConfigError(no_price(entry))
    return Price.usd(**price.model_dump())


def context_tokens(entry: ModelEntry) -> int | None:
    """The tokens that a model reads and writes in one call, as the price list has it; None where it does not say."""
    model = _known(entry, entry.wire)
    return None if model is None else model.context_window


def no_price(entry: ModelEntry) -> str:
    """What to say of a model without a price: its name may be misspelt, or the vendor's prices be meant."""
    return (
        f"providers.{entry.provider}.models.{entry.wire}.price: no price is known for {entry.wire}; "
        "give {input: ..., output: ...} in dollars per million tokens, or {input: 0, output: 0} if it costs nothing"
        f"{_otherwise(entry)}"
    )


def _otherwise(entry: ModelEntry) -> str:
    catalog = load_catalog()
    near = catalog.near(f"{entry.provider}/{entry.wire}", SURELY_LIKE)
    if not any(catalog.find(name).covers(entry.wire) for name in near):
        return f", or did you mean {' or '.join(near)}?" if near else ""
    vendor = catalog.providers.get(entry.provider)
    if vendor is None or vendor.priced_as is None or entry.priced_as is not None:
        return ""
    return f", or `providers.{entry.provider}.priced_as: {vendor.priced_as}` for the vendor's own"


def _less(price: UsdPrice, discount: float) -> UsdPrice:
    parts = price.model_dump(exclude_none=True)
    return UsdPrice(**{name: round(part * (1 - discount), 9) for name, part in parts.items()})


def _listed(entry: ModelEntry, on: date, mode: Mode) -> UsdPrice | None:
    """The price list's word; for a batch None where the list has no batch tier."""
    if entry.priced_as is None:
        return None
    hours = [datetime.combine(on, time(hour), UTC) for hour in range(24)]
    offers = [offer for offer in (_offer(entry, hour, mode) for hour in hours) if offer]
    return max(offers, key=lambda offer: (offer.input, offer.output), default=None)


def _known(entry: ModelEntry, wire: str) -> ModelInfo | None:
    """What the price list has of a model of the entry's provider."""
    from genai_prices import data_snapshot  # 0.4 s: only where a price is asked for

    if entry.priced_as is None:
        return None
    try:
        _, model = data_snapshot.get_snapshot().find_provider_model(wire, None, entry.priced_as, None)
    except LookupError:
        return None
    return model


def _offer(entry: ModelEntry, at: datetime, mode: Mode) -> UsdPrice | None:
    from genai_prices.types import TieredPrices

    model = _known(entry, entry.wire_on(at.date()))
    if model is None:
        return None
    online = model.get_prices(at)
    found = online if mode is Mode.ONLINE else model.get_prices(at, _BATCH)
    if mode is Mode.BATCH and found == online:
        return None

    def dollars(part: Decimal | TieredPrices | None) -> float | None:
        lowest = part.base if isinstance(part, TieredPrices) else part
        return None if lowest is None else float(lowest)

    if found.input_mtok is None:
        return None
    return UsdPrice(
        input=dollars(found.input_mtok) or 0.0,
        output=dollars(found.output_mtok) or 0.0,
        cached=dollars(found.cache_read_mtok),
        cache_written=dollars(found.cache_write_mtok),
    )
