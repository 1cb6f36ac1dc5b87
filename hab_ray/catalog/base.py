"""What the catalogue and sweeps are made of: strict models, and prices in dollars."""

from datetime import date
from itertools import pairwise

from pydantic import BaseModel, ConfigDict, Field, field_validator

from hab_ray.bounds import PromptTokens, UsdPerMillion


class Strict(BaseModel):
    """A frozen model that refuses unknown keys. Its errors do not repeat the refused value, which may be a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Dollars(Strict):
    """Dollars per million tokens."""

    input: UsdPerMillion
    output: UsdPerMillion = 0.0
    cached: UsdPerMillion | None = None
    cache_written: UsdPerMillion | None = None


class PriceStep(Dollars):
    """The price of a whole request with more than `above` input tokens."""

    above: PromptTokens


class UsdPrice(Dollars):
    """Dollars per million tokens. `steps` are the prices of longer requests, the shortest first."""

    steps: tuple[PriceStep, ...] = Field(default=(), exclude_if=lambda steps: not steps)

    @field_validator("steps")
    @classmethod
    def _ascend(cls, steps: tuple[PriceStep, ...]) -> tuple[PriceStep, ...]:
        if any(one.above >= following.above for one, following in pairwise(steps)):
            raise ValueError("each step must begin above the one before; sort them by `above`")
        return steps

    @property
    def is_free(self) -> bool:
        prices = (self, *self.steps)
        return not any(each.input or each.output or each.cached or each.cache_written for each in prices)


class LaterPrice(Strict):
    """What a model costs from the day `start` on, online and by batch; None if it has no batch terms."""

    start: date
    price: UsdPrice
    batch: UsdPrice | None = None
