"""`hab models`: show known models and their prices."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated

import typer
from rich.table import Table

from hab_ray.catalog.base import UsdPrice
from hab_ray.catalog.models import Catalog, Limits, ModelEntry, ProviderEntry, load_catalog
from hab_ray.catalog.prices import context_tokens, priced
from hab_ray.cli.ending import console, ends_with_status, say
from hab_ray.cli.views.terminal import print_cells
from hab_ray.errors import ConfigError, Exit, HabError
from hab_ray.providers import load_vendor
from hab_ray.providers.access import endpoint_of, has_secret
from hab_ray.visible import one_line

_TIMEOUT_S = 30.0
_MAX_NAME = 80
_MAX_NEW = 12


@dataclass(frozen=True)
class Listing:
    """Names of the models that a provider lists today, or why they are unknown."""

    names: frozenset[str] = frozenset()
    problem: str | None = None


def _matching(catalog: Catalog, text: str) -> dict[str, ModelEntry]:
    wanted = text.lower()
    entries = {name: catalog.find(name) for name in catalog.models}
    return {n: e for n, e in entries.items() if any(wanted in each.lower() for each in (n, e.wire, e.provider))}


async def _list_all(catalog: Catalog, providers: set[str]) -> dict[str, Listing]:
    """Ask each provider for its models, except those that hab serves itself."""
    names = sorted(name for name in providers if not catalog.providers[name].serve)
    listings = await asyncio.gather(*(_list_models(name, catalog.providers[name]) for name in names))
    return dict(zip(names, listings, strict=True))


async def _list_models(name: str, provider: ProviderEntry) -> Listing:
    with_timeout = provider.model_copy(update={"limits": Limits(timeout_s=_TIMEOUT_S)})
    try:
        vendor = load_vendor(provider.kind)
        if vendor.list_models is None or provider.url is None:
            return Listing(problem="it has no list of models that hab can read")
        async with asyncio.timeout(_TIMEOUT_S):
            return Listing(await vendor.list_models(endpoint_of(name, with_timeout, provider.url)))
    except TimeoutError:
        return Listing(problem=f"no complete list within {_TIMEOUT_S:g} s")
    except HabError as error:
        return Listing(problem=one_line(str(error), 300))


def _table(entries: Mapping[str, ModelEntry], listing: Listing | None, today: date, whole: bool) -> Table:
    """Return a provider's models; all columns, and models that are gone, only if `whole`."""
    table = Table(box=None, pad_edge=False)
    table.add_column("model", overflow="fold")
    for title in ("online $", *(["batch $", "context"] if whole else [])):
        table.add_column(title, no_wrap=True, justify="right")
    for title in ("ends", *(["listed"] if listing else [])):
        table.add_column(title, no_wrap=True)
    for name, entry in entries.items():
        now = priced(entry, today)
        ends = now.lifecycle.ends if now.lifecycle else None  # from then on the name means another model, or none
        is_gone = ends is not None and ends <= today
        if is_gone and not whole:
            continue
        table.add_row(
            f"  {name}",
            _dollars(now.price),
            *([_dollars(now.batch.price if now.batch else None), _tokens(context_tokens(now))] if whole else []),
            f"{'gone ' * is_gone}{ends or ''}",
            *([_listed(entry, listing)] if listing else []),
            style="dim" if is_gone else "",
        )
    return table


def _dollars(price: UsdPrice | None) -> str:
    if price is None:
        return "-"
    return "free" if price.is_free else f"{price.input:g}/{price.output:g}"


def _tokens(count: int | None) -> str:
    if count is None:
        return "?"
    return f"{count / 1e6:.3g}M" if count >= 1_000_000 else f"{count // 1000}k"


def _key(provider: ProviderEntry) -> str:
    if provider.key_env is None:
        return "needs no key"
    return f"{provider.key_env} is {'set' if has_secret(provider.key_env, os.environ) else 'not set'}"


def _listed(entry: ModelEntry, listing: Listing) -> str:
    if listing.problem:
        return "?"
    return "yes" if any(entry.covers(name) for name in listing.names) else "NO"


def _new_models(catalog: Catalog, provider: str, listing: Listing, text: str) -> str:
    """Return a line with the models that a provider lists and the catalogue lacks."""
    if listing.problem:
        return f"  not asked: {listing.problem}"
    known = [entry for entry in catalog.models.values() if entry.provider == provider]
    others = (name for name in listing.names if not any(entry.covers(name) for entry in known))
    new = sorted(name for name in others if text.lower() in name.lower() or text.lower() in provider)
    shown = ", ".join(one_line(name, _MAX_NAME) for name in new[:_MAX_NEW]) or "none"
    more = f", and {len(new) - _MAX_NEW:,} more (`hab models TEXT --check` narrows the list)" if new[_MAX_NEW:] else ""
    return f"  it lists {len(listing.names):,} models; not in the catalogue: {shown}{more}"


@ends_with_status
def command(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="Show only models with this in their name, wire name or provider.")
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Ask the vendors which models exist today, at no cost.")
    ] = False,
) -> Exit:
    """Show the catalogue: provider, dollars per million tokens, last day, and whether the key is set.

    With TEXT or --check also batch prices, context and models that have ended.
    """
    catalog, today = load_catalog(), datetime.now(UTC).date()
    found = _matching(catalog, text)
    if not found:
        near = catalog.near(text)
        hint = f"did you mean {' or '.join(near)}?" if near else "`hab models` alone shows all"
        raise ConfigError(f"no model of the catalogue has {one_line(text)!r} in its name or provider; {hint}")
    by_provider: dict[str, dict[str, ModelEntry]] = {}
    for name, entry in found.items():
        by_provider.setdefault(entry.provider, {})[name] = entry
    listings = asyncio.run(_list_all(catalog, set(by_provider))) if check else {}
    for provider, entries in by_provider.items():
        say(f"{provider} ({_key(catalog.providers[provider])})", "bold")
        print_cells(_table(entries, listings.get(provider), today, bool(text) or check), console)
        if provider in listings:
            say(_new_models(catalog, provider, listings[provider], text))
    more = "" if text or check else "; `hab models TEXT` adds batch prices, context and ended models"
    say(f"$ per million tokens, input/output{more}", "dim")
    if check and all(listing.problem for listing in listings.values()):
        raise ConfigError("--check: no vendor could be asked; the lines above say why")
    return Exit.COMPLETE
