"""Prices in dollars, as price lists and sweeps have them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from hab_ray.bounds import UsdPerMillion


class UsdPrice(BaseModel):
    """Dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    input: UsdPerMillion
    output: UsdPerMillion = 0.0
    cached: UsdPerMillion | None = None
    cache_written: UsdPerMillion | None = None

    @property
    def is_free(self) -> bool:
        """Whether every price is zero."""
        return not any((self.input, self.output, self.cached, self.cache_written))


class PriceStep(UsdPrice):
    """The price of a whole request with more than `above` input tokens."""

    above: int


class SteppedPrice(UsdPrice):
    """A price that changes with the length of a request, as price lists have it; `steps` ascend."""

    steps: tuple[PriceStep, ...]
