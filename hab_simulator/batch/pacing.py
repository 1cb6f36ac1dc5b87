"""Giving way to other requests in the middle of long work."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from time import perf_counter

_SLICE_S = 0.003


@dataclass(slots=True)
class Pacer:
    """Gives way to other requests after every slice of work."""

    _until: float = field(default_factory=lambda: perf_counter() + _SLICE_S)

    async def pause(self) -> None:
        if perf_counter() > self._until:
            await asyncio.sleep(0)
            self._until = perf_counter() + _SLICE_S
