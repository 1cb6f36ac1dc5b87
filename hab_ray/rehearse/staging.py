"""A sweep as it is rehearsed: the same sweep, with every provider at the simulator.

What a model takes and costs stays as the catalogue says. Changed is only what a rehearsal must not depend on:
addresses, keys (none is read, so a real one can never be sent), the account's own limits, days of retirement,
weights of local models, how a model without a JSON schema is told what to write, and ratings where the answers are
simulated: given answers keep theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from hab_ray.catalog.models import (
    BatchPolicy,
    Capabilities,
    Catalog,
    Limits,
    Model,
    ModelEntry,
    ProviderEntry,
    Thinking,
    folder_name,
)
from hab_ray.catalog.prices import priced
from hab_ray.config.sweep import Sweep
from hab_ray.providers import load_vendor
from hab_ray.providers.vendor import WireProtocol
from hab_ray.rehearse.place import RehearsalPlace
from hab_ray.resolve import resolve
from hab_ray.work import Work
from hab_simulator import vendors

SIMULATED = "simulated"
_NOWHERE = "http://simulator"
_MAX_S = 30.0
_ROOM = 8192
_SHORTEST_POLL_S = 0.2
_POLLS = 12
TURNAROUND_S = 2.0


def staged(sweep: Sweep, place: RehearsalPlace, now: datetime, turnaround_s: float = TURNAROUND_S) -> Work:
    """The work of a sweep's rehearsal, whose batches take so long; writes nothing and fetches no weights.

    The record of the run names no port, so that two rehearsals of a sweep are recorded alike: see `at`.

    Raises:
        ConfigError: the sweep cannot be resolved.
    """
    work = resolve(_staged_sweep(sweep, place, now.date(), _policy(turnaround_s)), now)
    return replace(work, models=_told_apart(work.models))


def _told_apart(models: Mapping[str, Model]) -> dict[str, Model]:
    """The models as simulated; of one that several providers have, each provider's is a model of its own."""
    wires = Counter(wire for wire, _ in {(model.entry.wire, model.entry.provider) for model in models.values()})

    def told(entry: ModelEntry) -> ModelEntry:
        own = f"{entry.wire}@{folder_name(entry.provider)}"
        return entry if wires[entry.wire] == 1 else entry.model_copy(update={"wire": own})

    return {name: replace(model, as_of=SIMULATED, entry=told(model.entry)) for name, model in models.items()}


def at(work: Work, url: str) -> Work:
    """The same work with its providers at the simulator that listens at `url`."""
    providers = {
        name: entry.model_copy(update={"url": entry.url.replace(_NOWHERE, url, 1)}) if entry.url else entry
        for name, entry in work.catalog.providers.items()
    }
    return replace(work, catalog=Catalog(providers=providers, models=work.catalog.models))


def account(name: str, protocol: WireProtocol) -> str:
    """The account that plays a provider at anybody's simulator. Providers of one vendor's own protocol share one."""
    is_shared = protocol.played_as in vendors().keys() - {"openai"}
    return protocol.played_as if is_shared else own_account(name, protocol)


def own_account(name: str, protocol: WireProtocol) -> str:
    """The account of a rehearsal's simulator that plays a provider and no other: prices may differ."""
    return name if name == protocol.played_as and name in vendors() else f"x/{folder_name(name)}"


def _staged_sweep(sweep: Sweep, place: RehearsalPlace, today: date, policy: BatchPolicy) -> Sweep:
    known = sweep.catalog.providers
    unserved = {name: entry.model_copy(update={"serve": False}) for name, entry in known.items() if entry.serve}
    entries = {name: priced(sweep.catalog.extended(unserved).find(name), today) for name in sweep.model_names()}
    providers = {
        provider: _staged_provider(
            provider, known[provider], [e for e in entries.values() if e.provider == provider], policy
        )
        for provider in dict.fromkeys(entry.provider for entry in entries.values())
    }
    return sweep.model_copy(
        update={
            "run": place.run,
            "store": place.store,
            "providers": {**sweep.providers, **providers},
            "raters": sweep.raters if sweep.responses is not None else (),
            "sentinels": 0,  # no judge of a simulator changes, and its meter cannot tell a first reading from a later
        }
    )


def _policy(turnaround_s: float) -> BatchPolicy:
    """Batches asked after often enough to be seen soon after their end, however short it takes."""
    often = max(_SHORTEST_POLL_S, turnaround_s / _POLLS)
    return BatchPolicy(
        poll_s=often,
        longest_poll_s=often,
        in_doubt_s=turnaround_s,
        longest_s=4 * turnaround_s + _MAX_S,
        still_s=often,
    )


def _staged_provider(
    name: str, provider: ProviderEntry, entries: list[ModelEntry], policy: BatchPolicy
) -> ProviderEntry:
    protocol = load_vendor(provider.kind).protocol
    return provider.model_copy(
        update={
            "url": f"{_NOWHERE}/{own_account(name, protocol)}{protocol.version}",
            "key_env": None,
            "headers_env": {},
            "serve": False,
            "limits": _unhurried(provider.limits),
            "batches": policy,
            "models": {entry.wire: _capabilities(entry, provider.serve) for entry in entries},
        }
    )


def _unhurried(limits: Limits) -> Limits:
    """No limits but concurrency, and no long waits: the simulator is on this machine."""
    return Limits(
        concurrent=limits.concurrent,
        enqueued_tokens=limits.enqueued_tokens,
        patience_s=min(limits.patience_s, _MAX_S),
        timeout_s=min(limits.timeout_s, _MAX_S),
    )


def _capabilities(entry: ModelEntry, served: bool) -> Capabilities:
    """Everything said of a model, so that the run's record says it too.

    `moving` has the record's `as_of` hold when the run is read again.
    """
    said: dict[str, Any] = {name: getattr(entry, name) for name in Capabilities.model_fields}
    said |= {
        "limits": _unhurried(entry.limits or Limits()),
        "json_schema": True,
        "alias": "moving",
        "weights": None,
        "lifecycle": None,
    }
    if served or "strings" in entry.schema_bounds:
        said |= _room_for_json()
    return Capabilities(**said)


def _room_for_json() -> dict[str, Any]:
    """In place of bounds on strings, which no vendor takes and so the simulator refuses: a reserve of tokens."""
    return {
        "schema_bounds": ("lists",),
        "thinking": Thinking.ALWAYS,
        "thinking_reserve": _ROOM,
        "output_limit_field": "max_completion_tokens",
    }
