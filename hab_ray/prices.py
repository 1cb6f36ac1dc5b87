"""Dollars: what a call costs, in integer nano-dollars.

A price is held per million tokens in nano-dollars, so that every published price (up to nine decimals of a
dollar per million) is an exact integer and a call's cost is rounded once, half up.
"""

from __future__ import annotations

from dataclasses import dataclass

from hab_ray.calls import Usage

PER_MILLION = 1_000_000
NANO = 1_000_000_000


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
        """The cost of one call in nano-dollars, rounded half up."""
        fresh = usage.input - usage.cached - usage.cache_written
        total = (
            fresh * self.input
            + usage.cached * self.cached
            + usage.cache_written * self.cache_written
            + usage.output * self.output
        )
        return (total + PER_MILLION // 2) // PER_MILLION

    def bound(self, input_bytes: int, output_tokens: int) -> int:
        """The most a call can cost, in nano-dollars: a token has at least one byte."""
        dearest_input = max(self.input, self.cache_written)
        total = input_bytes * dearest_input + output_tokens * self.output
        return -(-total // PER_MILLION)


FREE = Price(0, 0, 0, 0)
