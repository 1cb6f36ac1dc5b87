"""A run's money: what may still be spent, and how much of it lanes have in hand. Integer nano-dollars.

    budget = spent + in the lanes' hands + free

A lane draws from what is free before it sends, tells what its calls cost, and gives back what it does not need.
Nothing is ever sent without money in hand for the most that it can cost, so spent never exceeds the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Draw:
    """What a lane spent and gives back since its last draw, and what it would have: `want`, or `least` of it."""

    spent: int = 0
    returned: int = 0
    least: int = 0
    want: int = 0


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a lane gets. `left` is the most that can ever be drawn again by anybody; None without a budget."""

    granted: int
    left: int | None


class Money(Protocol):
    """Whoever keeps a run's money."""

    async def draw(self, draw: Draw) -> Drawn:
        """Tell what was spent, give back, and take."""


@dataclass
class Purse:
    """The money of one run; `budget` None = as much as it takes. `spent` starts with what was spent before."""

    budget: int | None
    spent: int
    in_hand: int = 0

    def draw(self, draw: Draw) -> Drawn:
        """See Money. A lane gets at most half of what is free, so that others find something too."""
        self.spent += draw.spent
        self.in_hand -= draw.spent + draw.returned
        if self.budget is None:
            granted, left = draw.want, None
        else:
            left = max(0, self.budget - self.spent)
            free = left - self.in_hand
            granted = max(draw.least, min(draw.want, free // 2)) if 0 <= draw.least <= free else 0
        self.in_hand += granted
        return Drawn(granted, left)


class OwnPurse:
    """A purse in this process."""

    def __init__(self, purse: Purse) -> None:
        self._purse = purse

    async def draw(self, draw: Draw) -> Drawn:
        """See Money."""
        return self._purse.draw(draw)
