"""The smallest difference between two subjects that a design can show, before and after the run.

It is where a paired test by generation call has a power of 80 % at the level that Holm leaves the smallest of all
pairs, in the normal approximation. Whatever the difference, a sign-flip test of G calls has no p-value below 2 / 2^G.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

LEVEL, POWER = 0.05, 0.8
# The standard deviation of differences between two subjects' marks of one test, where none is known yet.
ASSUMED_SD = 0.35


# The smallest shift of a judge's scores worth seeing, and the deviation of two readings of one answer, if unknown.
SHIFT, ASSUMED_READING_SD = 0.02, 0.15


def sentinels(shift: float = SHIFT, sd: float = ASSUMED_READING_SD) -> int:
    """How many answers must be judged again to see that a judge's scores have shifted, in four of five cases.

    By a paired test at 5 %, in the normal approximation; `sd` is of the difference of two readings of an answer.
    """
    return round((_reach() * sd / shift) ** 2)


def shown_shift(sentinels: int, sd: float) -> float:
    """The smallest shift that so many answers show in four of five cases; the reverse of `sentinels`."""
    return _reach() * sd / sqrt(sentinels)


def _reach(pairs: int = 1) -> float:
    """How many standard errors a difference must have that a two-sided test of one of so many pairs is to show."""
    normal = NormalDist()
    return normal.inv_cdf(1 - LEVEL / (2 * pairs)) + normal.inv_cdf(POWER)


@dataclass(frozen=True)
class Design:
    """What pairs of subjects are compared over: `calls` generation calls, whose differences have the deviation `sd`."""

    subjects: int
    calls: int
    sd: float = ASSUMED_SD

    @property
    def pairs(self) -> int:
        """How many pairs of subjects there are."""
        return self.subjects * (self.subjects - 1) // 2

    @property
    def can_show_any(self) -> bool:
        """Whether the smallest p-value that there is would be small enough."""
        return self.pairs > 0 and 2.0 ** (1 - min(self.calls, 1000)) * self.pairs <= LEVEL

    @property
    def smallest(self) -> float:
        """The smallest difference of means, 0..1, that is shown in four of five runs; 1 where none can be."""
        if not self.can_show_any:
            return 1.0
        return min(1.0, _reach(self.pairs) * self.sd / sqrt(self.calls))

    def told(self, what: str, of: str = "tests") -> str:
        """In a sentence: `what` is compared over the calls, which are `of` a kind: tests, if each has its own."""
        if not self.can_show_any:
            return (
                f"{what}: with {self.calls} {of} no pair of {self.subjects} subjects can ever differ: the smallest p "
                f"is {2.0 ** (1 - self.calls):.2g}, and Holm compares it with {LEVEL / self.pairs:.2g}"
            )
        return (
            f"{what}: with {self.calls} {of} two of {self.subjects} subjects must differ by {self.smallest:.2f} to be "
            f"told apart in four of five runs (if differences between two answers have an SD of {self.sd:.2f})"
        )
