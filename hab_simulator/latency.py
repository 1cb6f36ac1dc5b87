"""How long a reply takes: nothing, a fixed time, or a draw from a log-normal distribution."""

from math import exp
from typing import Annotated, Literal

from pydantic import Field

from hab_simulator.settings import Settings
from hab_simulator.truth.draws import normal


class NoLatency(Settings):
    """Replies leave at once."""

    kind: Literal["none"] = "none"

    def seconds(self, seed: int, *parts: str | bytes | int) -> float:
        return 0.0


class FixedLatency(Settings):
    """Every reply takes the same time."""

    kind: Literal["fixed"] = "fixed"
    value_s: float = Field(ge=0)

    def seconds(self, seed: int, *parts: str | bytes | int) -> float:
        return self.value_s


class LognormalLatency(Settings):
    """Replies take a log-normal time of this mean, in seconds; `sigma` is the spread of its logarithm."""

    kind: Literal["lognormal"] = "lognormal"
    mean_s: float = Field(gt=0)
    sigma: float = Field(default=0.5, ge=0)

    def seconds(self, seed: int, *parts: str | bytes | int) -> float:
        """A drawn wait in seconds whose expectation is `mean_s`."""
        return self.mean_s * exp(self.sigma * normal(seed, *parts) - self.sigma**2 / 2)


Latency = Annotated[NoLatency | FixedLatency | LognormalLatency, Field(discriminator="kind")]
