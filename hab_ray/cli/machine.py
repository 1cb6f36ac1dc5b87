"""What `hab doctor` finds on this machine and on the way to the vendors, as a table."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table

from hab_ray.catalog.models import ProviderEntry, load_catalog
from hab_ray.cli.ending import console
from hab_ray.cli.prepare import Choices, sweep_of
from hab_ray.cli.views.terminal import print_cells
from hab_ray.config.sweep import Sweep
from hab_ray.doctor import endpoints, machine
from hab_ray.doctor.findings import Finding, Level, ok
from hab_ray.errors import Exit
from hab_ray.executors import api_versions
from hab_ray.location import Location
from hab_ray.providers.access import has_secret, variables_of
from hab_ray.storage.folder import Folder, open_folder

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.WRONG: "red"}


def examine_machine(path: Path | None, choices: Choices) -> Exit:
    """Show what a sweep needs, or without one what this machine has for the vendors whose keys are set.

    Raises:
        ConfigError: the sweep file cannot be read.
    """
    return show(_of_machine() if path is None else of_sweep(sweep_of(path, choices)))


def of_sweep(sweep: Sweep) -> Iterator[Finding]:
    """What a sweep needs of this machine and of the vendors."""
    catalog = sweep.catalog
    entries = {name: catalog.find(name) for name in sweep.model_names()}
    names = dict.fromkeys(entry.provider for entry in entries.values())
    providers = {name: catalog.providers[name] for name in names}
    yield from (machine.python(), machine.ray())
    yield machine.room("run", sweep.run_folder)
    yield machine.room("store", sweep.store)
    served = [(name, entry) for name, entry in entries.items() if catalog.providers[entry.provider].serve]
    yield from machine.weights(served)
    yield from _of_vendors(providers)
    yield from _versions(providers, open_folder(sweep.store))


def _versions(providers: Mapping[str, ProviderEntry], store: Folder) -> Iterator[Finding]:
    """Under which API version Gemini endpoints are asked, and who says so."""
    for name, entry in providers.items():
        if not api_versions.is_gemini(entry):
            continue
        if stated := api_versions.stated(entry):
            yield ok(f"{name}: API version", stated)
        elif noted := api_versions.remembered(store, name, entry):
            yield ok(f"{name}: API version", f"{noted}, as the endpoint has answered (in the store)")
        else:
            yield ok(f"{name}: API version", "v1beta or v1, asked once when a run starts")


def _of_machine() -> Iterator[Finding]:
    providers = load_catalog().providers
    with_key = {
        name: entry
        for name, entry in providers.items()
        if variables_of(entry) and all(has_secret(variable, os.environ) for variable in variables_of(entry))
    }
    yield from (machine.python(), machine.ray())
    yield machine.room("store", Location.of("store"))
    yield from _of_vendors(with_key)


def _of_vendors(providers: Mapping[str, ProviderEntry]) -> Iterator[Finding]:
    answers = asyncio.run(endpoints.ask_all(providers))
    yield machine.clock(datetime.now(UTC), [(one.provider, one.date) for one in answers if one.date])
    by_provider = {one.provider: one for one in answers}
    for name, entry in providers.items():
        if name in by_provider:
            yield endpoints.reachable(by_provider[name])
        yield from endpoints.keys(name, entry)


def show(found: Iterable[Finding]) -> Exit:
    """Print findings as a table; the exit status that they lead to."""
    findings = list(found)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("", "what", "seen", "what to do"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(finding.level, finding.subject, finding.seen, finding.remedy, style=_STYLES[finding.level])
    print_cells(table, console)
    return Exit.CONFIGURATION if any(f.level is Level.WRONG for f in findings) else Exit.COMPLETE
