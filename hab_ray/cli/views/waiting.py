"""What a run waits for, in words."""

from collections import Counter

from hab_ray.progress import Progress
from hab_ray.visible import counted, one_line, usd

MAX_MODELS = 3


def waits_for(progress: Progress) -> str:
    """Return what the run waits for now in a few words, "" for nothing."""
    for provider, outage in progress.outages.items():
        return one_line(f"{provider}: {outage}")
    if waiting := waiting_for_money(progress):
        return waiting.removeprefix("waits for ")
    in_flight = sum(stage.in_flight for stage in progress.stages)
    parts = [counted(in_flight, "answer")] if in_flight else []
    if progress.batches:
        parts.append(counted(len(progress.batches), "batch", "batches"))
    if chosen := choosing(progress):
        parts.append(chosen)
    return " and ".join(parts)


def choosing(progress: Progress) -> str:
    """Return what is being chosen or computed, "" for nothing."""
    parts = [f"the choice of the tests of {counted(progress.choosing, 'dimension')}"] if progress.choosing else []
    return " and ".join([*parts, *(f"the stage {one_line(stage)}" for stage in progress.computing)])


def waiting_for_money(progress: Progress) -> str | None:
    """Return how much money the run waits for and what must end first; None if it does not wait for money."""
    money = progress.money
    if money is None or progress.draining or progress.end:
        return None
    if money.waits_for <= max(0, money.budget - money.spent - money.reserved):  # it is about to be granted
        return None
    return one_line(
        f"waits for {usd(money.waits_for)}: {_what_must_end(progress)} first "
        f"({usd(money.reserved)} reserved and {usd(money.spent)} spent of {usd(money.budget)})"
    )


def _what_must_end(progress: Progress) -> str:
    """Name open batches, the models with the most first, or else calls in flight."""
    batches = Counter(batch.model for batch in progress.batches).most_common()
    if not batches:
        return "calls in flight must be answered"
    named = [f"{counted(count, 'batch', 'batches')} of {model}" for model, count in batches[:MAX_MODELS]]
    if others := sum(count for _, count in batches[MAX_MODELS:]):
        named.append(f"{counted(others, 'batch', 'batches')} of other models")
    listed = ", ".join(named[:-1]) + " and " + named[-1] if len(named) > 1 else named[0]
    return f"{listed} must end"
