"""The smallest difference between two subjects that a design can detect, before and after the run.

At that difference a paired test by generation call has a power of 80 % at the level of Holm's first step, by quantiles
of Student's t with G - 1 degrees of freedom for G calls of equal size, and fewer for others. A sign-flip test has no
p-value below 2 / 2^G, however large the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, isnan, nan, prod, sqrt

from scipy.special import stdtrit

from hab_ray.visible import counted

LEVEL, POWER = 0.05, 0.8
# The standard deviation of differences between two subjects' marks of one test, until the run has measured it.
ASSUMED_SD = 0.35
LEAST_SHOWN = 0.01  # the smallest difference that messages show
# The smallest shift of a judge's scores worth detecting; the SD of the difference of two readings, until measured.
SHIFT, ASSUMED_READING_SD = 0.02, 0.15


def sentinels(shift: float = SHIFT, sd: float = ASSUMED_READING_SD) -> int:
    """Return how many answers must be judged again to detect a shift of a judge's scores with a power of 80 %.

    By a paired test at 5 %, in the normal approximation; `sd` is that of the difference of two readings of an answer.
    """
    return round((standard_errors() * sd / shift) ** 2)


def standard_errors(level: float = LEVEL, calls: float = inf) -> float:
    """Return how many standard errors a difference needs for a two-sided test at this level to detect it."""
    return float(stdtrit(calls - 1, 1 - level / 2) + stdtrit(calls - 1, POWER))


def distinct_groups(items: int, size: int, chosen: int) -> int:
    """Return from how many groups of this size so many randomly chosen items come on average."""
    unused = prod(max(0, items - chosen - at) / (items - at) for at in range(size) if at < items)
    return min(chosen, round(ceil(items / size) * (1 - unused)))


@dataclass(frozen=True)
class Design:
    """A comparison of pairs of subjects over generation calls, whose differences have the standard deviation `sd`.

    It is nan if unknown, as that of a single call and of a mean over dimensions of which one has a single call.
    `effective` is the number of equally large calls with as much information, None for calls of equal size.
    """

    subjects: int
    calls: int
    sd: float = ASSUMED_SD
    effective: float | None = None

    @property
    def pairs(self) -> int:
        """Number of pairs of subjects."""
        return self.subjects * (self.subjects - 1) // 2

    @property
    def least_p(self) -> float:
        """The smallest possible p-value; all are multiples of it."""
        return 2.0 ** (1 - min(self.calls, 1000))

    @property
    def can_show_any(self) -> bool:
        """Whether the smallest possible p-value is small enough."""
        return self.pairs > 0 and self.least_p * self.pairs <= LEVEL

    @property
    def smallest(self) -> float:
        """The smallest difference of means (0..1) detected in four of five runs; 1 if none can be, nan if unknown."""
        if not self.can_show_any:
            return 1.0
        if isnan(self.sd):
            return nan
        level = LEVEL / self.pairs // self.least_p * self.least_p
        return min(1.0, standard_errors(level, self.effective or self.calls) * self.sd / sqrt(self.calls))

    @property
    def detectable(self) -> str:
        """The differences that can be detected, in words."""
        if not self.can_show_any:
            return "too few generation calls for any difference to be significant"
        if isnan(self.sd):
            return "what can be detected is unknown, with one generation call in a dimension"
        if not self.sd:
            return "each pair's difference is the same in every call"
        return f"differences of {max(LEAST_SHOWN, self.smallest):.2f} or more can be detected"

    @classmethod
    def together(cls, parts: Sequence[Design]) -> Design:
        """Return the design of the unweighted mean of several dimensions, whose calls are independent."""
        calls = sum(part.calls for part in parts)
        error = sqrt(sum(part.sd**2 / part.calls for part in parts)) / len(parts)
        effective = sum(part.effective or part.calls for part in parts)
        return cls(min(part.subjects for part in parts), calls, error * sqrt(calls), effective)

    def describe(self, what: str, of: str = "tests", tests: int | None = None) -> str:
        """Describe in a sentence what can be detected in `what`.

        `of` names the calls, and `tests` is the number of tests if the calls are fewer.
        """
        calls = counted(self.calls, of.removesuffix("s")) + ("" if tests is None else f" (of {tests:,} tests)")
        if not self.can_show_any:
            return (
                f"{what}: with {calls} no pair of {self.subjects} subjects can ever differ significantly: "
                f"the smallest possible p is {self.least_p:.2g}, and Holm requires "
                f"{LEVEL / self.pairs:.2g}"
            )
        pair = "the two" if self.subjects == 2 else f"two of {self.subjects}"
        return (
            f"{what}: {calls} show a difference of {max(LEAST_SHOWN, self.smallest):.2f} between {pair} "
            f"subjects in four of five runs (assuming an SD of {self.sd:.2f} of their differences)"
        )
