"""Messages between an engine and the rate limiter of a provider account.

An engine sends reports on the calls that ended since the last exchange, and permit requests for waiting calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hab_ray.providers.base import RateLimits

WHOLE_PROVIDER = ""


@dataclass(frozen=True, slots=True)
class PermitRequest:
    """A request to send calls of one model; `tokens` holds what each of them counts towards the token limit."""

    model: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """Permits to send the first `count` of the requested calls, which count as in flight from now on.

    Request the rest after `wait_s` seconds: inf means once a call in flight has ended, None means never, for `reason`.
    """

    count: int
    wait_s: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Outcomes of a model's calls since the last report.

    `finished` calls are no longer in flight. `answered` counts those not refused as too fast or for lack of capacity;
    `refused` is the vendor's message if some were, `retry_after_s` the longest wait it asked for. `unreachable` is the
    error if `tries` calls could not reach the endpoint. `limits` come from the newest response headers. `stop` and
    `stop_provider` say why nothing more may be sent to the model or provider.
    """

    model: str
    finished: int = 0
    answered: int = 0
    refused: str = ""
    retry_after_s: float | None = None
    unreachable: str = ""
    tries: int = 0
    limits: RateLimits | None = None
    stop: str = ""
    stop_provider: str = ""

    @property
    def is_urgent(self) -> bool:
        """Whether the other engines on the account should know at once."""
        return bool(self.refused or self.unreachable or self.stop or self.stop_provider)

    def followed_by(self, later: Report) -> Report:
        """Return this report merged with a later one on the same model."""
        waits = [wait for wait in (self.retry_after_s, later.retry_after_s) if wait is not None]
        return Report(
            model=self.model,
            finished=self.finished + later.finished,
            answered=self.answered + later.answered,
            refused=later.refused or self.refused,
            retry_after_s=max(waits, default=None),
            unreachable=later.unreachable or self.unreachable,
            tries=self.tries + later.tries,
            limits=later.limits or self.limits,
            stop=later.stop or self.stop,
            stop_provider=later.stop_provider or self.stop_provider,
        )


@dataclass(frozen=True, slots=True)
class Outage:
    """An unreachable endpoint, or a model that refuses all calls for lack of capacity; given up in `left_s` seconds."""

    cause: str
    tries: int
    left_s: float

    def __str__(self) -> str:
        times = "1 try" if self.tries == 1 else f"{self.tries:,} tries"
        left = f"{self.left_s / 60:.0f} min" if self.left_s >= 90 else f"{self.left_s:.0f} s"
        return f"{self.cause}, {times}, giving up in {left}"


@dataclass(frozen=True, slots=True)
class LimiterReply:
    """Grants by model, and the reasons for all stops: by model, under `WHOLE_PROVIDER` for the provider."""

    grants: Mapping[str, Grant]
    stops: Mapping[str, str]
    outage: Outage | None = None


class LimiterClient(Protocol):
    """An engine's connection to the rate limiter of its provider account, in this process or another.

    Leave at least `gap_s` and at most `silence_s` seconds between two exchanges.
    """

    gap_s: float
    silence_s: float

    async def exchange(self, reports: Sequence[Report], requests: Sequence[PermitRequest]) -> LimiterReply:
        """Deliver reports and request permits."""

    async def close(self) -> None:
        """Disconnect. The caller must have reported every call in flight."""
