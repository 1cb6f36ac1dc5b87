"""Requests to a vendor that may be repeated: questions, never the request that creates a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hab_ray.engine.batch.decisions import ATTEMPTS, backoff_s
from hab_ray.errors import TransientError

T = TypeVar("T")


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the vendor answers.

    Raises:
        CallError: it cannot be asked, or does not answer after `ATTEMPTS` tries.
    """
    for attempt in range(1, ATTEMPTS):
        try:
            return await ask()
        except TransientError as error:
            await asyncio.sleep(backoff_s(error, attempt))
    return await ask()
