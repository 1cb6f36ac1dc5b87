"""Reading a running simulator's meter and truth, and telling it of prompts."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

_TIMEOUT_S = 30.0


class TrueMean(BaseModel):
    """The true mean score of one subject in one dimension, over the `n` different prompts it answered."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    subject: str
    dimension: str
    n: int
    numerator: int
    denominator: int
    issues: dict[str, int]

    @property
    def mean(self) -> Fraction:
        """The mean score, 0..1."""
        return Fraction(self.numerator, self.denominator)


class Repeats(BaseModel):
    """Bodies that were billed more than once."""

    model_config = ConfigDict(frozen=True)

    bodies: int


class BatchTotals(BaseModel):
    """What was counted of batches; `cancelled` and `expired` ones brought a part of their lines."""

    model_config = ConfigDict(frozen=True)

    created: int
    failed: int
    expired: int
    cancelled: int
    lines_received: int
    lines_billed: int
    nanousd: int


class MeterReading(BaseModel):
    """What was counted of calls online, and of batches apart. Money in nano-dollars.

    `lost_after_billing` are replies charged, for `lost_nanousd`, that did not arrive whole.
    """

    model_config = ConfigDict(frozen=True)

    received: int
    billed: int
    lost_after_billing: int
    lost_nanousd: int
    nanousd: int
    billed_more_than_once: Repeats
    batch: BatchTotals

    @property
    def charged(self) -> int:
        """All that was charged."""
        return self.nanousd + self.batch.nanousd


_MEANS = TypeAdapter(tuple[TrueMean, ...])


@dataclass(frozen=True)
class SimulatorClient:
    """The controls of the simulator that listens at `url`."""

    url: str

    def truth(self) -> tuple[TrueMean, ...]:
        """The true means of everything answered so far."""
        return _MEANS.validate_json(self._exchange("/_truth"))

    def meter(self) -> MeterReading:
        """What was received and charged so far."""
        return MeterReading.model_validate_json(self._exchange("/_meter"))

    def announce(self, prompts: Mapping[str, str]) -> None:
        """Make tests known: the sha256 (hex) of each prompt, and its dimension."""
        self._exchange("/_prompts", prompts)

    def _exchange(self, path: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self.url + path, data, timeout=_TIMEOUT_S) as response:
            return bytes(response.read())
