"""What a wire protocol has to offer, and where each lives in the URL space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hab_ray.simulator import anthropic, google, openai, xai
from hab_ray.simulator.accounts import Kind, SimulatedAccount, vendors
from hab_ray.simulator.answers import Mind
from hab_ray.simulator.asks import Ask, WireAnswer
from hab_ray.simulator.limits import Verdict


class Vendor(Protocol):
    """One wire protocol. All functions are pure."""

    def key(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        """The key sent, or an empty text."""

    def bad_key(self, sent: str) -> WireAnswer:
        """The answer to a key that is missing or not accepted."""

    def models(self, account: SimulatedAccount) -> WireAnswer:
        """The list of models."""

    def read(self, path: str, headers: Mapping[str, str], account: SimulatedAccount, raw: bytes) -> Ask:
        """Check a request. Raises Refused with the vendor's answer."""

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


PROTOCOLS: Mapping[Kind, Vendor] = {
    Kind.OPENAI: openai,
    Kind.ANTHROPIC: anthropic,
    Kind.GOOGLE: google,
    Kind.XAI: xai,
}


@dataclass(frozen=True, slots=True)
class Route:
    """Where a URL leads: the account's name and kind, and the path below the API version."""

    account: str
    kind: Kind
    path: str

    @property
    def vendor(self) -> Vendor:
        """The account's protocol."""
        return PROTOCOLS[self.kind]


def route(path: str, kind_of: Callable[[str], Kind]) -> Route | None:
    """The route of a URL path: /openai/v1, /v1, /anthropic/v1, /google/{v1,v1beta}, /xai/v1, /x/<name>/v1.

    An account under /x/<name> has the paths of its kind. Gemini's uploads (/google/upload/{v1,v1beta}) and downloads
    (/google/download/...) keep that word in the path.
    """
    match path.strip("/").split("/"):
        case ["v1", *_] as versioned:
            account = "openai"
        case ["x", name, *versioned]:
            account = f"x/{name}"
        case [account, *versioned] if account in vendors():
            pass
        case _:
            return None
    kind = kind_of(account)
    below = _below_version(kind, versioned)
    return None if below is None else Route(account, kind, "/".join(below))


def _below_version(kind: Kind, parts: list[str]) -> list[str] | None:
    versions = ("v1", "v1beta") if kind is Kind.GOOGLE else ("v1",)
    match parts:
        case [version, *rest] if version in versions:
            return rest
        case ["upload" | "download" as way, version, *rest] if kind is Kind.GOOGLE and version in versions:
            return [way, *rest]
        case _:
            return None
