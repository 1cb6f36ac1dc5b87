"""What a wire protocol has to offer for single calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hab_simulator.accounts import SimulatedAccount
from hab_simulator.asks import Ask, Refused, WireAnswer
from hab_simulator.limits import Verdict
from hab_simulator.truth.answers import Mind


class Vendor(Protocol):
    """One wire protocol: a module or an object. All functions are pure."""

    def key(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        """The key sent, or an empty text."""

    def bad_key(self, sent: str) -> WireAnswer:
        """The answer to a key that is missing or not accepted."""

    def models(self, account: SimulatedAccount) -> WireAnswer:
        """The list of models."""

    def no_json(self, path: str) -> Refused:
        """The refusal of a body that is none."""

    def check(self, path: str, headers: Mapping[str, str], account: SimulatedAccount, body: Any) -> Ask:
        """Check a request's body, sent online or in a batch. Raises Refused with the vendor's answer."""

    def reply(self, mind: Mind, ask: Ask) -> WireAnswer:
        """Answer a request that passed."""

    def limit_headers(self, verdict: Verdict) -> dict[str, str]:
        """The headers that tell what is left of the rate limits."""

    def too_fast(self, name: str, verdict: Verdict, says_retry_after: bool) -> WireAnswer:
        """The answer to a request over the rate limit."""

    def no_quota(self, name: str) -> WireAnswer:
        """The answer once the account's money or daily quota is used up."""

    def fault(self, status: int, retry_after_s: float | None) -> WireAnswer:
        """The answer that carries an injected status."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a URL leads: the account's name and protocol, and the path below the API version."""

    account: str
    vendor: Vendor
    path: str
