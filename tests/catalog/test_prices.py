"""Money: integers, rounded once, and never more than was reserved."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from hab_ray.calls import ChatCall, EmbedCall, Message, Params, Role, Usage
from hab_ray.catalog.prices import Price, input_bytes

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
def test_a_cost_is_the_exact_sum_rounded(
    given_price: tuple[Price, tuple[Decimal, Decimal, Decimal, Decimal]], usage: Usage
) -> None:
    price, (whole, output, cached, written) = given_price
    fresh = usage.input - usage.cached - usage.cache_written
    dollars_per_million = fresh * whole + usage.cached * cached + usage.cache_written * written + usage.output * output
    nano = Decimal(dollars_per_million) * 1000
    assert price.cost(usage) == int(nano.quantize(Decimal(1), ROUND_HALF_UP))


@given(prices(), usages(), TOKENS, TOKENS)
def test_a_reservation_is_never_less_than_the_cost(
    given_price: tuple[Price, tuple[Decimal, Decimal, Decimal, Decimal]], usage: Usage, spare_in: int, spare_out: int
) -> None:
    """A token has at least a byte, and no more come back than were asked for."""
    price, _ = given_price
    assert price.bound(usage.input + spare_in, usage.output + spare_out) >= price.cost(usage)


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
