"""Stages a sweep for rehearsal: the same sweep, with every provider at the simulator.

A model's capabilities and prices stay as in the catalogue. Only what a rehearsal must not depend on is changed:
addresses, keys (none is read, so a real one can never be sent), account limits, retirement dates, weights of local
models, and how a model without JSON schemas is asked for JSON. Ratings are kept for given answers and for a rehearsal
whose answers raters have got in sheets.
"""

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
from hab_ray.location import Location
from hab_ray.providers import load_vendor
from hab_ray.providers.vendor import WireProtocol
from hab_ray.resolve import resolve
from hab_ray.storage.folder import open_folder
from hab_ray.storage.run import SHEETS
from hab_ray.work import Work
from hab_simulator import vendors

SIMULATED = "simulated"
_NOWHERE = "http://simulator"
_MAX_S = 30.0
_JSON_RESERVE = 8192
_MIN_POLL_S = 0.2
_POLLS = 12
TURNAROUND_S = 2.0


def staged(
    sweep: Sweep, run: Location, now: datetime, store: Location | None = None, turnaround_s: float = TURNAROUND_S
) -> Work:
    """Return the work of a sweep's rehearsal, with batches that take `turnaround_s`; write and download nothing.

    By default, the store is in the run's folder.

    The run's record contains no port, so that two rehearsals of a sweep have equal records; see `at`. Raise ConfigError
    if the sweep cannot be resolved.
    """
    placed = sweep.model_copy(update={"run": run, "store": store or run / "store"})
    work = resolve(_staged_sweep(placed, now.date(), _policy(turnaround_s)), now)
    return replace(work, models=_simulated(work.models))


def _simulated(models: Mapping[str, Model]) -> dict[str, Model]:
    """Return the simulated models; a model of several providers gets a different wire name at each."""
    wires = Counter(wire for wire, _ in {(model.entry.wire, model.entry.provider) for model in models.values()})

    def distinct(entry: ModelEntry) -> ModelEntry:
        wire = f"{entry.wire}@{folder_name(entry.provider)}"
        return entry if wires[entry.wire] == 1 else entry.model_copy(update={"wire": wire})

    return {name: replace(model, as_of=SIMULATED, entry=distinct(model.entry)) for name, model in models.items()}


def at(work: Work, url: str) -> Work:
    """Return the work with its providers at the simulator that listens at `url`."""
    providers = {
        name: entry.model_copy(update={"url": entry.url.replace(_NOWHERE, url, 1)}) if entry.url else entry
        for name, entry in work.catalog.providers.items()
    }
    return replace(work, catalog=Catalog(providers=providers, models=work.catalog.models))


def account(name: str, protocol: WireProtocol) -> str:
    """Return a provider's account at a general simulator, where providers with a vendor's own protocol share one."""
    is_shared = protocol.played_as in vendors().keys() - {"openai"}
    return protocol.played_as if is_shared else own_account(name, protocol)


def own_account(name: str, protocol: WireProtocol) -> str:
    """Return a provider's separate account at a rehearsal's simulator, as prices may differ between providers."""
    return name if name == protocol.played_as and name in vendors() else f"x/{folder_name(name)}"


def _staged_sweep(sweep: Sweep, today: date, policy: BatchPolicy) -> Sweep:
    known = sweep.catalog.providers
    unserved = {name: entry.model_copy(update={"serve": False}) for name, entry in known.items() if entry.serve}
    entries = {name: priced(sweep.catalog.extended(unserved).find(name), today) for name in sweep.model_names()}
    providers = {
        provider: _staged_provider(
            provider, known[provider], [e for e in entries.values() if e.provider == provider], policy
        )
        for provider in dict.fromkeys(entry.provider for entry in entries.values())
    }
    has_ratings = sweep.responses is not None or bool(open_folder(sweep.run_folder).list(SHEETS))
    return sweep.model_copy(
        update={
            "providers": {**sweep.providers, **providers},
            "raters": sweep.raters if has_ratings else (),
            "sentinels": 0,  # simulated judges never change, and the meter cannot tell a repeated reading from a first
        }
    )


def _policy(turnaround_s: float) -> BatchPolicy:
    """Return a policy that polls often enough to notice the end of even short batches soon."""
    poll_s = max(_MIN_POLL_S, turnaround_s / _POLLS)
    return BatchPolicy(
        poll_s=poll_s,
        longest_poll_s=poll_s,
        in_doubt_s=turnaround_s,
        longest_s=4 * turnaround_s + _MAX_S,
        still_s=poll_s,
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
    """Keep only the limits of concurrency and queued tokens, and shorten waits: the simulator is a local process."""
    return Limits(
        concurrent=limits.concurrent,
        enqueued_tokens=limits.enqueued_tokens,
        patience_s=min(limits.patience_s, _MAX_S),
        timeout_s=min(limits.timeout_s, _MAX_S),
    )


def _capabilities(entry: ModelEntry, served: bool) -> Capabilities:
    """Return all capabilities of a model, so that the run's record is complete.

    With the alias `moving`, reading the run again takes `as_of` from the record.
    """
    values: dict[str, Any] = {name: getattr(entry, name) for name in Capabilities.model_fields}
    values |= {
        "limits": _unhurried(entry.limits or Limits()),
        "json_schema": True,
        "alias": "moving",
        "weights": None,
        "lifecycle": None,
    }
    if served or "strings" in entry.schema_bounds:
        values |= {  # a token reserve instead of bounds on strings, which the simulator refuses as vendors do
            "schema_bounds": ("lists",),
            "thinking": Thinking.ALWAYS,
            "thinking_reserve": _JSON_RESERVE,
            "output_limit_field": "max_completion_tokens",
        }
    return Capabilities(**values)
