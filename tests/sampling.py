"""Which places of a kill campaign a session goes through: all of them in `make bench`, else a sample by a seed."""

import os
from collections.abc import Iterable, Sequence
from random import Random
from zlib import crc32

EVERY_KILL = os.environ.get("HAB_KILLS") == "all"
SEED = int(os.environ.get("HAB_KILL_SEED", "0"))
SAMPLE = "every place of the kill campaigns" if EVERY_KILL else f"a sample of kills: HAB_KILL_SEED={SEED}"


def one_side_of_each(points: Sequence[str], campaign: str) -> list[str]:
    """Of every kind of point, before or after it."""
    if EVERY_KILL:
        return list(points)
    random = Random(f"{SEED} {campaign}")
    kinds: dict[str, list[str]] = {}
    for point in points:
        kinds.setdefault(point.partition(" ")[2], []).append(point)
    return [random.choice(sides) for sides in kinds.values()]


def dealt(points: Sequence[str], campaign: str, campaigns: Sequence[str]) -> list[str]:
    """One side of each kind of vendor call, and this campaign's share of the puts, which are alike in all campaigns."""

    def is_ours(point: str) -> bool:
        kind = point.partition(" ")[2]
        owner = campaigns[crc32(f"{SEED} {kind}".encode()) % len(campaigns)]
        return owner == campaign or not kind.startswith(("put", "move"))

    chosen = one_side_of_each(points, campaign)
    return chosen if EVERY_KILL else [point for point in chosen if is_ours(point)]


def some(places: Iterable[str], count: int, campaign: str) -> list[str]:
    """So many of the places, in their order."""
    named = list(places)
    if EVERY_KILL:
        return named
    return sorted(Random(f"{SEED} {campaign}").sample(named, count), key=named.index)
