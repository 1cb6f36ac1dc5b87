"""The shipped catalogue's prices against vendors' published ones, what a sweep may say of them, and exact costs."""

from dataclasses import replace
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from hab_ray.calls import ChatCall, EmbedCall, Message, Params, Role, Usage
from hab_ray.catalog.base import UsdPrice
from hab_ray.catalog.models import BatchTerms, Capabilities, Model, ModelEntry, ProviderEntry, load_catalog
from hab_ray.catalog.prices import DatedPrices, Mode, Price, input_bytes, priced, rate, rates, reserved_rate
from hab_ray.errors import ConfigError

TODAY = date(2026, 11, 21)
FREE = Price(0, 0, 0, 0)


def price_of(entry: ModelEntry, on: date, mode: Mode) -> Price:
    return rate(priced(entry, on), mode)


# Dollars per million tokens as published in November 2026: input, cached, output, and input and output by batch.
PUBLISHED: dict[str, tuple[float, float, float, float, float]] = {
    "gpt-6-astra": (10, 1, 50, 5, 25),
    "gpt-6.2-astra": (8, 8, 40, 4, 20),  # what is cached costs less, how much is in no list yet
    "gpt-6.2-sol": (2, 2, 10, 1, 5),
    "gpt-6.1-sol": (2, 0.10, 10, 1, 5),
    "gpt-6-sol": (2, 0.20, 10, 1, 5),
    "gpt-6.1-terra": (1, 0.05, 5, 0.5, 2.5),
    "gpt-6-luna": (0.10, 0.01, 0.50, 0.05, 0.25),
    "gpt-5.6-sol": (4, 0.4, 20, 2, 10),
    "gpt-5.6-terra": (2, 0.2, 12, 1, 6),
    "gpt-5.6-luna": (0.2, 0.02, 1.2, 0.1, 0.6),
    "gpt-5.5": (5, 0.5, 30, 2.5, 15),
    "gpt-5.4": (2.5, 0.25, 15, 1.25, 7.5),
    "gpt-5.4-mini": (0.75, 0.075, 4.5, 0.375, 2.25),
    "gpt-4.1": (2, 0.5, 8, 1, 4),
    "gpt-4.1-mini": (0.4, 0.1, 1.6, 0.2, 0.8),
    "gpt-4o": (2.5, 1.25, 10, 1.25, 5),
    "o3-2025-04-16": (2, 0.5, 8, 1, 4),
    "claude-fable-5-2": (8, 0.20, 40, 4, 20),
    "claude-opus-5-5": (4, 0.20, 20, 2, 10),
    "claude-sonnet-5-5": (2, 0.10, 10, 1, 5),
    "claude-haiku-5-5": (0.10, 0.01, 0.50, 0.05, 0.25),
    "claude-opus-5": (5, 0.5, 25, 2.5, 12.5),
    "claude-opus-4-8": (5, 0.5, 25, 2.5, 12.5),
    "claude-sonnet-5": (2, 0.2, 10, 1, 5),
    "claude-sonnet-4-6": (3, 0.3, 15, 1.5, 7.5),
    "claude-haiku-4-5": (1, 0.1, 5, 0.5, 2.5),
    "gemini-4-argon": (2, 0.1, 10, 1, 5),
    "gemini-3.8-flash": (0.75, 0.075, 3.75, 0.375, 1.875),
    "gemini-3.7-flash": (0.75, 0.075, 3.75, 0.375, 1.875),
    "gemini-3.5-flash": (0.75, 0.075, 3.75, 0.375, 1.875),  # answered by gemini-3.6-flash, at its price
    "gemini-3.5-flash-lite": (0.3, 0.03, 2.5, 0.15, 1.25),
    "gemini-3.1-flash-lite": (0.25, 0.025, 1.5, 0.125, 0.75),
    "gemini-3.1-pro-preview": (2, 0.2, 12, 1, 6),
    "gemini-2.5-pro": (1.25, 0.125, 10, 0.625, 5),
    "gemini-2.5-flash": (0.3, 0.03, 2.5, 0.15, 1.25),
    "grok-4.7": (2, 0.5, 6, 2, 6),  # no batches: the online price stands for both
    "grok-4.20-reasoning": (1.25, 0.2, 2.5, 1.0, 2.0),
    "grok-4.20-non-reasoning": (1.25, 0.2, 2.5, 1.0, 2.0),
    "grok-4.3": (1.25, 0.2, 2.5, 1.0, 2.0),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_current_model_costs_what_its_vendor_publishes(name: str) -> None:
    entry = load_catalog().find(name)
    online, batch = price_of(entry, TODAY, Mode.ONLINE), price_of(entry, TODAY, Mode.BATCH)
    nano = tuple(round(dollars * 1e9) for dollars in PUBLISHED[name])
    assert (online.input, online.cached, online.output, batch.input, batch.output) == nano


def test_every_model_of_the_catalogue_has_a_price_and_no_batch_is_dearer() -> None:
    catalog = load_catalog()
    for name in catalog.models:
        online, batch = (price_of(catalog.find(name), TODAY, mode) for mode in Mode)
        for part in ("input", "output", "cached"):
            assert getattr(batch, part) <= max(getattr(online, part), batch.input), name
        assert (online == FREE) == (catalog.models[name].provider == "local"), name


@pytest.mark.parametrize("name", ["gpt-4.1", "gpt-4o", "o3-2025-04-16"])
def test_cached_input_is_not_cheaper_within_a_batch_before_gpt_5(name: str) -> None:
    batch = price_of(load_catalog().find(name), TODAY, Mode.BATCH)
    assert batch.cached == batch.input


def test_a_price_is_that_of_the_day() -> None:
    flash = load_catalog().find("gemini-3.8-flash")
    prices = [price_of(flash, date(2026, 12, 31), Mode.ONLINE), price_of(flash, date(2027, 1, 1), Mode.ONLINE)]
    assert [p.input for p in prices] == [750_000_000, 1_500_000_000]


@pytest.mark.parametrize(
    ("name", "before", "after", "day"),
    [
        ("gemini-4-argon", 2.0, 4.0, date(2026, 12, 1)),
        ("gemini-2.5-pro", 1.25, 0.75, date(2026, 12, 1)),  # gemini-3.8-flash answers
        ("gemini-2.5-flash", 0.3, 0.3, date(2026, 12, 1)),
        ("gemini-3.5-flash", 1.5, 0.75, date(2026, 10, 8)),
    ],
)
def test_a_name_costs_what_the_model_costs_that_answers(name: str, before: float, after: float, day: date) -> None:
    entry = load_catalog().find(name)
    prices = [priced(entry, on).price for on in (day - timedelta(days=1), day)]
    assert [price and price.input for price in prices] == [before, after]


@pytest.mark.parametrize(("mode", "before", "after"), [(Mode.ONLINE, 2, 4), (Mode.BATCH, 1, 2)])
def test_a_listed_rise_is_booked_on_its_day_and_reserved_before(mode: Mode, before: int, after: int) -> None:
    rise = date(2026, 12, 1)
    entry = priced(load_catalog().find("gemini-4-argon"), TODAY)
    prices, days = rates(entry, mode), [rise - timedelta(days=ahead) for ahead in (4, 3, 1, 0)]
    assert [prices.on(day).input // 10**9 for day in days] == [before, before, before, after]
    assert [prices.reserved(day).input // 10**9 for day in days] == [before, after, after, after]
    assert rate(entry, mode).input == before * 10**9 == reserved_rate(entry, mode).input
    assert reserved_rate(priced(load_catalog().find("gemini-4-argon"), days[1]), mode).input == after * 10**9


def test_a_fall_in_price_is_neither_reserved_nor_booked_before_its_day() -> None:
    entry, fall = priced(load_catalog().find("gemini-2.5-pro"), TODAY), date(2026, 12, 1)
    days = (fall - timedelta(days=1), fall)
    prices = rates(entry, Mode.ONLINE)
    both = ([price(day).output // 10**7 for day in days] for price in (prices.on, prices.reserved))
    assert list(both) == [[1000, 375], [1000, 375]]  # from then on gemini-3.8-flash answers


def test_of_a_price_that_rises_in_part_each_part_is_reserved_at_its_highest() -> None:
    long = replace(Price.usd(4, 8), steps=((1000, Price.usd(8, 9)),))
    prices, day = DatedPrices(Price.usd(5, 7), ((TODAY, long),)), TODAY - timedelta(days=1)
    assert prices.reserved(day) == replace(Price.usd(5, 8), steps=((1000, Price.usd(8, 9)),))
    assert (prices.on(day), prices.reserved(TODAY)) == (Price.usd(5, 7), long)


def test_the_sweeps_own_price_never_changes() -> None:
    own = load_catalog().find("gemini-4-argon").model_copy(update={"price": UsdPrice(input=3, output=3)})
    assert not priced(own, TODAY).later


def test_where_hours_differ_the_dearest_counts() -> None:
    entry = ModelEntry(provider="deepseek", wire="deepseek-v4-pro", priced_as="deepseek")
    assert price_of(entry, TODAY, Mode.ONLINE).input == 1_320_000_000  # 0.66 outside two windows of the day


def test_a_long_request_costs_what_the_list_asks_for_its_length() -> None:
    haiku = price_of(load_catalog().find("claude-haiku-5-5"), TODAY, Mode.BATCH)
    assert haiku.cost(Usage(100_000, output=10)) == 100_000 * 50 + 10 * 250
    assert haiku.cost(Usage(100_001, cached=50_000, output=10)) == 50_001 * 250 + 50_000 * 25 + 10 * 1250
    assert haiku.bound(100_000, 10) == haiku.cost(Usage(100_000, cache_written=100_000, output=10))
    assert haiku.bound(100_001, 10) == haiku.cost(Usage(100_001, cache_written=100_001, output=10))


def test_a_discount_reaches_every_step() -> None:
    listed = price_of(load_catalog().find("grok-4.7"), TODAY, Mode.ONLINE)
    entry = load_catalog().find("grok-4.7").model_copy(update={"batch": BatchTerms(discount=0.2)})
    batch = price_of(entry, TODAY, Mode.BATCH)
    for tokens in (199_999, 200_000):
        assert batch.cost(Usage(tokens, output=100)) * 10 == listed.cost(Usage(tokens, output=100)) * 8
    assert listed.at(200_000).input == 2 * listed.at(199_999).input


def test_every_catalogue_price_bounds_what_it_books() -> None:
    catalog = load_catalog()
    for name in catalog.models:
        for price in (price_of(catalog.find(name), TODAY, mode) for mode in Mode):
            for tokens in (1, 100_000, 100_001, 200_000, 272_001, 2_000_000):
                for sent in (tokens, 3 * tokens):
                    usage = Usage(tokens, cache_written=tokens, output=50)
                    assert price.cost(usage) <= price.bound(sent, 50), name


def test_what_the_catalogue_or_the_sweep_says_goes_before_the_list() -> None:
    entry = ModelEntry(
        provider="openai", wire="gpt-4.1", priced_as="openai", price=UsdPrice(input=7, output=9, cached=1)
    )
    terms = BatchTerms(discount=0.25)
    assert price_of(entry, TODAY, Mode.ONLINE) == Price.usd(7, 9, 1)
    assert price_of(entry, TODAY, Mode.BATCH) == Price.usd(7, 9, 1)
    assert price_of(entry.model_copy(update={"batch": terms}), TODAY, Mode.BATCH) == Price.usd(5.25, 6.75, 0.75)
    own = BatchTerms(discount=0.25, price=UsdPrice(input=1, output=2))
    assert price_of(entry.model_copy(update={"batch": own}), TODAY, Mode.BATCH) == Price.usd(1, 2)


def test_a_sweeps_provider_changes_what_the_catalogue_says_of_a_model() -> None:
    openai = ProviderEntry(
        kind="openai",
        url="https://gateway.example/v1",
        priced_as="openai",
        models={"gpt-4.1": Capabilities(price=UsdPrice(input=3, output=4))},
    )
    catalog = load_catalog().extended({"openai": openai})
    changed, other = catalog.find("gpt-4.1"), catalog.find("gpt-4.1-mini")
    assert price_of(changed, TODAY, Mode.ONLINE) == Price.usd(3, 4)
    assert changed.output_limit_field == "max_completion_tokens"
    assert price_of(other, TODAY, Mode.ONLINE).input == 400_000_000


VENDOR = "https://api.openai.com/v1"
GATEWAY = "https://gateway.example/v1"
ZERO = UsdPrice(input=0, output=0)


def at_openai(**own: Any) -> ModelEntry:
    """gpt-4.1, of which the catalogue has batch terms, at a provider of the sweep that is called openai."""
    said = {"kind": "openai", "url": VENDOR, "priced_as": "openai", **own}
    return load_catalog().extended({"openai": ProviderEntry.model_validate(said)}).find("gpt-4.1")


@pytest.mark.parametrize("own", [{"price": ZERO}, {"models": {"gpt-4.1": {"price": ZERO}}}])
@pytest.mark.parametrize("address", [{}, {"url": GATEWAY, "batch": {"discount": 0.5}}])
def test_what_a_sweep_calls_free_costs_nothing_by_batch_either(own: dict[str, Any], address: dict[str, Any]) -> None:
    entry = at_openai(**own, **address)
    assert entry.batch is not None
    assert price_of(entry, TODAY, Mode.ONLINE) == price_of(entry, TODAY, Mode.BATCH) == FREE


@pytest.mark.parametrize(
    ("own", "by_batch"),
    [
        ({}, (1, 4)),
        ({"price": {"input": 10, "output": 20}}, (5, 10)),
        ({"models": {"gpt-4.1": {"price": {"input": 10, "output": 20}}}}, (5, 10)),
        ({"models": {"gpt-4.1": {"price": {"input": 10, "output": 20}}}, "batch": {"discount": 0.2}}, (8, 16)),
        ({"batch": {"discount": 0.2, "price": {"input": 3, "output": 4}}}, (3, 4)),
        ({"models": {"gpt-4.1": {"batch": {"discount": 0.2, "price": {"input": 3, "output": 4}}}}}, (3, 4)),
    ],
)
def test_a_sweeps_word_on_batches_goes_before_the_catalogues(own: dict[str, Any], by_batch: tuple[int, int]) -> None:
    batch = price_of(at_openai(**own), TODAY, Mode.BATCH)
    assert (batch.input, batch.output) == tuple(dollars * 10**9 for dollars in by_batch)


def test_another_address_has_a_batch_api_only_where_the_sweep_says_so() -> None:
    assert at_openai(url=VENDOR).batch and at_openai(url=GATEWAY).batch is None
    assert at_openai(url=GATEWAY, batch={"discount": 0.5}).batch
    assert at_openai(url=GATEWAY, models={"gpt-4.1": {"batch": {"discount": 0.5}}}).batch


def test_a_known_model_without_a_price_is_not_said_to_be_misspelt() -> None:
    with pytest.raises(ConfigError) as told:
        rate(priced(at_openai(url=GATEWAY, priced_as=None), TODAY), Mode.ONLINE)
    assert "did you mean" not in str(told.value)
    assert "providers.openai.models.gpt-4.1.price: no price is known" in str(told.value)
    assert "`providers.openai.priced_as: openai`" in str(told.value)


def test_a_model_without_a_price_is_named_with_the_remedy() -> None:
    catalog = load_catalog().extended({"house": ProviderEntry(kind="openai", url="http://localhost/v1")})
    entry = catalog.find("house/vicuna")
    assert priced(entry, TODAY) == entry
    with pytest.raises(ConfigError, match=r"providers\.house\.models\.vicuna\.price: .*\{input: 0, output: 0\}"):
        rate(entry, Mode.ONLINE)
    free = entry.model_copy(update={"price": UsdPrice(input=0, output=0)})
    assert rate(free, Mode.ONLINE) == FREE


def test_a_misspelt_model_of_a_gateway_is_told_what_it_is_near_to() -> None:
    catalog = load_catalog().extended({"gateway": ProviderEntry(kind="openai", url="http://localhost/v1")})
    with pytest.raises(ConfigError) as told:
        rate(catalog.find("gateway/gpt-6-lunaa"), Mode.ONLINE)
    assert str(told.value) == (
        "there is no gateway/gpt-6-lunaa; did you mean gpt-6-luna or gpt-5.6-luna? For a model of your own, give "
        "providers.gateway.models.gpt-6-lunaa.price: {input: ..., output: ...}"
    )


def test_an_unlisted_name_gets_no_price_by_likeness() -> None:
    assert priced(load_catalog().find("openai/gpt-6-nano"), TODAY).price is None


@pytest.mark.parametrize(
    ("name", "reported", "itself"),
    [
        ("gemini-3.8-flash", "gemini-3.8-flash", True),
        ("gemini-3.8-flash", "gemini-3.8-flash-002", True),
        ("gemini-3.8-flash", "gemini-3.8-flash-lite", False),
        ("gemini-2.5-pro", "gemini-3.8-flash", False),
        ("gpt-6-sol", "gpt-6-sol-2026-09-01", True),
        ("gpt-6-sol", "gpt-6-luna", False),
        ("gpt-4o", "gpt-4o-2024-11-20", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("o3-2025-04-16", "o3-2025-04-16", True),
        ("mistral-small-2603", "mistral-small-latest", True),
        ("mistral-small-2603", "mistral-small-2609", False),
        ("mistral-medium-3.5", "mistral-medium-2604", True),
        ("mistral-medium-3.5", "mistral-medium-2508", False),
        ("mistral-large-4", "mistral-large-2512", False),
        ("text-embedding-3-small", "text-embedding-3-small", True),
        ("gemini-embedding-001", "", True),
    ],
)
def test_a_model_is_known_by_the_names_it_may_report(name: str, reported: str, itself: bool) -> None:
    assert Model(name, load_catalog().find(name)).is_itself(reported) is itself


def test_only_what_follows_a_models_whole_name_is_left_open() -> None:
    models = load_catalog().models
    patterns = [(entry.wire, pattern) for entry in models.values() for pattern in entry.reports or () if "*" in pattern]
    assert len(patterns) > 20 and [pattern for wire, pattern in patterns if not pattern.startswith(wire)] == []


def test_a_wrong_price_is_told_once_and_steps_are_sorted() -> None:
    with pytest.raises(ValidationError) as told:
        ProviderEntry.model_validate({"kind": "openai", "price": {"input": -1}})
    assert [error["loc"] for error in told.value.errors()] == [("price", "input")]
    steps = [{"above": above, "input": 2} for above in (200_000, 100_000)]
    with pytest.raises(ValidationError, match="sort them by `above`"):
        UsdPrice.model_validate({"input": 1, "steps": steps})
    with pytest.raises(ValidationError):
        UsdPrice.model_validate({"input": 1, "steps": [{"above": -1, "input": 2}]})
    assert UsdPrice(input=1).model_dump(exclude_none=True) == {"input": 1, "output": 0}


TOKENS = st.integers(0, 2_000_000)
DOLLARS = st.decimals(0, 1000, places=9, allow_nan=False)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    fresh, cached, written = draw(TOKENS), draw(TOKENS), draw(TOKENS)
    return Usage(fresh + cached + written, cached, written, draw(TOKENS), 0)


@st.composite
def prices(draw: st.DrawFn) -> tuple[Price, tuple[Decimal, Decimal, Decimal, Decimal]]:
    """A price as held, and in dollars: input, output, cached, cache_written. No vendor asks more for a hit."""
    whole, output, cached, written = (draw(DOLLARS) for _ in range(4))
    assume(cached <= whole)
    return Price.usd(float(whole), float(output), float(cached), float(written)), (whole, output, cached, written)


def test_a_call_by_hand() -> None:
    price = Price.usd(input=2.5, output=10.0, cached=1.25)
    assert price.cost(Usage(input=1000, cached=400, output=200)) == 600 * 2500 + 400 * 1250 + 200 * 10_000
    assert price.cost(Usage(input=1000, cached=400, output=200, reasoning=150)) == 4_000_000
    assert Price.usd(3.0, 15.0, 0.3, 3.75).cost(Usage(1000, 200, 300, 10)) == 1_500_000 + 60_000 + 1_125_000 + 150_000


def test_parts_without_a_price_of_their_own_cost_as_much_as_the_input() -> None:
    price = Price.usd(2.0, 8.0)
    assert price.cost(Usage(100, 40, 30, 0)) == price.cost(Usage(100)) == 200_000


@given(prices(), usages())
def test_costs_are_exact(given_price: tuple[Price, tuple[Decimal, Decimal, Decimal, Decimal]], usage: Usage) -> None:
    price, (whole, output, cached, written) = given_price
    fresh = usage.input - usage.cached - usage.cache_written
    dollars_per_million = fresh * whole + usage.cached * cached + usage.cache_written * written + usage.output * output
    nano = Decimal(dollars_per_million) * 1000
    assert price.cost(usage) == int(nano.quantize(Decimal(1), ROUND_HALF_UP))


@given(prices(), prices(), st.integers(0, 2_000_000), usages(), TOKENS, TOKENS)
def test_a_reservation_is_never_less_than_the_cost_where_prices_change_with_length(
    low: tuple[Price, Any], high: tuple[Price, Any], above: int, usage: Usage, spare_in: int, spare_out: int
) -> None:
    price = replace(low[0], steps=((above, high[0]),))
    assert price.cost(usage) == (high if usage.input > above else low)[0].cost(usage)
    assert price.bound(usage.input + spare_in, usage.output + spare_out) >= price.cost(usage)


def test_a_reservation_is_no_more_than_it_must_be() -> None:
    price = Price.usd(2.5, 10.0)
    assert price.bound(1000, 200) == price.cost(Usage(1000, output=200)) == 4_500_000
    assert Fraction(price.bound(1, 0)) == Fraction(2500)
    assert Price.usd(0.0001, 0.0).bound(1, 0) == 1


def test_what_is_free_costs_nothing() -> None:
    free = Price(0, 0, 0, 0)
    assert free.cost(Usage(10**9, 5, 5, 10**9)) == free.bound(10**9, 10**9) == 0


def test_the_bytes_of_a_call_are_those_of_all_it_says() -> None:
    messages = (Message(Role.USER, "Zürich"), Message(Role.ASSISTANT, "\U0001f41d"))
    call = ChatCall("p", "m", None, "ab", messages, Params(10), schema_json="{}")
    assert input_bytes(call) == 2 + 7 + 4 + 2
    assert input_bytes(EmbedCall("p", "m", None, "é\ud800")) == 2 + 3
