"""What to say of a run whose next calls wait for money."""

from __future__ import annotations

from collections import Counter

from hab_ray.prices import NANO
from hab_ray.progress import Progress
from hab_ray.visible import one_line

MOST_MODELS = 3


def waiting_for_money(progress: Progress) -> str | None:
    """How much the run waits for, and what must end first; None while it waits for no money.

    Where so much is free by now it is about to be granted.
    """
    money = progress.money
    if money is None or progress.draining or progress.end:
        return None
    if money.waits_for <= max(0, money.budget - money.spent - money.reserved):
        return None
    return one_line(
        f"waits for {_usd(money.waits_for)}: {_first(progress)} first "
        f"({_usd(money.reserved)} reserved and {_usd(money.spent)} spent of {_usd(money.budget)})"
    )


def _first(progress: Progress) -> str:
    """What must end: the batches, those models first that have the most."""
    batches = Counter(batch.model for batch in progress.batches).most_common()
    if not batches:
        return "calls in flight must be answered"
    named = [f"{_batches(count)} of {model}" for model, count in batches[:MOST_MODELS]]
    others = sum(count for _, count in batches[MOST_MODELS:])
    if others:
        named.append(f"{_batches(others)} of other models")
    listed = ", ".join(named[:-1]) + " and " + named[-1] if len(named) > 1 else named[0]
    return f"{listed} must end"


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count} batches"


def _usd(nano: int) -> str:
    return f"${nano / NANO:,.2f}" if nano >= NANO // 10 else f"${nano / NANO:.4f}"
