"""The words in which a lane asks for permits and tells what became of its calls.

One exchange carries both ways: reports on what ended since the last one, and questions for the calls at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hab_ray.providers.base import RateLimits

WHOLE_PROVIDER = ""


@dataclass(frozen=True, slots=True)
class PermitRequest:
    """May these calls of a model be sent? One number a call: its tokens as rate limits count them."""

    model: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave to send the first `count` of the calls asked for; they count as in flight from now on.

    `wait_s` says when to ask for the rest: inf when a call in flight has to end first, None never, for `reason`.
    """

    count: int
    wait_s: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a model's calls since the last report.

    `finished` are no longer in flight, `answered` of them got something else than "too fast". `refused` says that
    some were, with the longest wait the vendor named. `limits` are the newest headers, `stop` and
    `stop_provider` why nothing more may be sent.
    """

    model: str
    finished: int = 0
    answered: int = 0
    refused: bool = False
    retry_after_s: float | None = None
    unreachable: str = ""
    limits: RateLimits | None = None
    stop: str = ""
    stop_provider: str = ""

    @property
    def is_urgent(self) -> bool:
        """Whether other lanes should know at once."""
        return bool(self.refused or self.unreachable or self.stop or self.stop_provider)


@dataclass(frozen=True, slots=True)
class LimiterReply:
    """The leases by model, and all that is stopped, why: by model, `WHOLE_PROVIDER` for everything."""

    grants: Mapping[str, Grant]
    stops: Mapping[str, str]


class LimiterClient(Protocol):
    """Whoever keeps a provider's limits: in this process, or for the whole cluster.

    `gap_s` is the shortest time between two exchanges, `silence_s` the longest a lane may go without one.
    """

    gap_s: float
    silence_s: float

    async def exchange(self, reports: Sequence[Report], asks: Sequence[PermitRequest]) -> LimiterReply:
        """Tell, and ask."""

    async def close(self) -> None:
        """PermitRequest no more; everything in flight was reported."""
