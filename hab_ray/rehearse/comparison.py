"""The comparison of a run's scores with what the simulator says was true.

A score is a float, but it stands for a fraction whose denominator is known: points over ten times the rows. Two
different such fractions are further apart than a float is wrong, so the comparison is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hab_ray.analysis.marks import OVERALL
from hab_ray.rows import Score
from hab_ray.rubric import SCORE_START
from hab_ray.simulator import TrueMean


@dataclass(frozen=True)
class ComparedMean:
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

    def cells(self, scores: Sequence[Score], truth: Sequence[TrueMean]) -> list[ComparedMean]:
        """Every mean of a subject in a dimension beside the truth."""
        known = {(cell.subject, cell.dimension): cell for cell in truth}
        return [
            self._cell(score, known.get((self.played_as[score.subject], score.dimension)))
            for score in scores
            if score.dimension != OVERALL
        ]

    def _cell(self, score: Score, true: TrueMean | None) -> ComparedMean:
        most = SCORE_START * max(1, score.n) * self.judges
        return ComparedMean(
            subject=score.subject,
            dimension=score.dimension,
            judge=score.judge,
            mean=None if score.mean is None else Fraction(score.mean).limit_denominator(most),
            n=score.n,
            true_mean=true.mean if true else None,
            true_n=true.n * self.samples if true else 0,
        )
