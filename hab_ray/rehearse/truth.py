"""What the simulator says was true, and the comparison of a run's scores with it.

A score is a float, but it stands for a fraction whose denominator is known: points over ten times the rows. Two
different such fractions are further apart than a float is wrong, so the comparison is exact.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from hab_ray.analysis.marks import OVERALL
from hab_ray.rows import Score
from hab_ray.rubric import SCORE_START

_TIMEOUT_S = 30.0


class TrueCell(BaseModel):
    """The true mean of one subject in one dimension, over the `n` different prompts it answered."""

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


class _Repeats(BaseModel):
    bodies: int


class _Batches(BaseModel):
    """What the simulator counted of batches; `cancelled` and `expired` ones brought a part of their lines."""

    created: int
    failed: int
    expired: int
    cancelled: int
    lines_received: int
    lines_billed: int
    nanousd: int


class Meter(BaseModel):
    """What the simulator counted of calls online, and of batches apart.

    `lost_after_billing` are replies charged, for `lost_nanousd`, that did not arrive whole.
    """

    model_config = ConfigDict(frozen=True)

    received: int
    billed: int
    lost_after_billing: int
    lost_nanousd: int
    nanousd: int
    billed_more_than_once: _Repeats
    batch: _Batches

    @property
    def charged(self) -> int:
        """All that was charged, in nano-dollars."""
        return self.nanousd + self.batch.nanousd


_CELLS = TypeAdapter(tuple[TrueCell, ...])


@dataclass(frozen=True)
class Control:
    """The simulator's own URLs."""

    url: str

    def truth(self) -> tuple[TrueCell, ...]:
        """The truth of everything answered so far."""
        return _CELLS.validate_json(self._exchange("/_truth"))

    def meter(self) -> Meter:
        """What was received and charged so far."""
        return Meter.model_validate_json(self._exchange("/_meter"))

    def announce(self, prompts: Mapping[str, str]) -> None:
        """Make tests known: the digest of a prompt, and its dimension."""
        self._exchange("/_prompts", prompts)

    def _exchange(self, path: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self.url + path, data, timeout=_TIMEOUT_S) as response:
            return bytes(response.read())


@dataclass(frozen=True)
class Cell:
    """One mean of a run beside the planted one; None where there is none. `judge` may be "panel"."""

    subject: str
    dimension: str
    judge: str
    mean: Fraction | None
    n: int
    true_mean: Fraction | None
    true_n: int

    @property
    def recovered(self) -> bool:
        """Whether mean and number of rows are exactly the planted ones."""
        return self.mean is not None and self.mean == self.true_mean and self.n == self.true_n

    def __str__(self) -> str:
        found, true = (f"{'-' if mean is None else mean}" for mean in (self.mean, self.true_mean))
        place = f"{self.subject}, {self.dimension}, judge {self.judge}"
        return f"{place}: {found} over {self.n} rows, planted {true} over {self.true_n}"


@dataclass(frozen=True)
class Comparison:
    """How scores and truth are matched.

    `played_as` names, by subject of the sweep, the simulator's; `samples` is how often each test was asked; `judges`
    how many marks a panel's mark is the mean of.
    """

    played_as: Mapping[str, str]
    samples: int
    judges: int

    def cells(self, scores: Sequence[Score], truth: Sequence[TrueCell]) -> list[Cell]:
        """Every mean of a subject in a dimension beside the truth."""
        known = {(cell.subject, cell.dimension): cell for cell in truth}
        return [
            self._cell(score, known.get((self.played_as[score.subject], score.dimension)))
            for score in scores
            if score.dimension != OVERALL
        ]

    def _cell(self, score: Score, true: TrueCell | None) -> Cell:
        most = SCORE_START * max(1, score.n) * self.judges
        return Cell(
            subject=score.subject,
            dimension=score.dimension,
            judge=score.judge,
            mean=None if score.mean is None else Fraction(score.mean).limit_denominator(most),
            n=score.n,
            true_mean=true.mean if true else None,
            true_n=true.n * self.samples if true else 0,
        )
