"""`hab doctor` without --live: checks this machine and the vendors' endpoints and prints the findings as a table."""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.table import Table

from hab_ray.catalog.models import ModelEntry, ProviderEntry, load_catalog
from hab_ray.catalog.prices import no_price, priced
from hab_ray.cli.ending import console
from hab_ray.cli.prepare import Choices, chosen_sweep, prepare
from hab_ray.cli.views.terminal import print_cells
from hab_ray.config.sweep import Sweep
from hab_ray.doctor import endpoints, machine
from hab_ray.doctor.findings import Finding, Level, ok, warn, wrong
from hab_ray.errors import ConfigError, Exit
from hab_ray.executors import api_versions
from hab_ray.location import Location
from hab_ray.planning.problems import Severity
from hab_ray.providers import load_vendor
from hab_ray.providers.access import has_secrets, variables_of
from hab_ray.stages.wiring import stages
from hab_ray.storage.folder import Folder, open_folder
from hab_ray.storage.simulated import simulators_of

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.WRONG: "red"}


def examine_machine(path: Path | None, choices: Choices) -> Exit:
    """Check and print what a sweep needs or, without one, this machine and the vendors whose keys are set."""
    if path is None:
        return print_findings(_check_machine())
    if not choices.available_only:
        return print_findings(check_sweep(chosen_sweep(path, choices)))
    work, problems = prepare(path, choices, datetime.now(UTC))
    levels = {Severity.ERROR: wrong, Severity.WARNING: warn}
    told = [levels[problem.severity]("models", problem.cause, problem.remedy) for problem in problems]
    return print_findings([*check_sweep(work.sweep), *told])


def check_sweep(sweep: Sweep) -> Iterator[Finding]:
    """Check what a sweep needs on this machine and from the vendors."""
    catalog = sweep.catalog
    entries = {name: catalog.find(name) for name in sweep.model_names()}
    names = dict.fromkeys(entry.provider for entry in entries.values())
    providers = {name: catalog.providers[name] for name in names}
    yield from (machine.python(), machine.ray())
    yield machine.room("run", sweep.run_folder)
    yield machine.room("store", sweep.store)
    yield from machine.free_store(sweep.store, sweep.run_folder)
    yield from _broken_packages({entry.kind for entry in providers.values()})
    served = [(name, entry) for name, entry in entries.items() if catalog.providers[entry.provider].serve]
    yield from machine.weights(served)
    yield from _prices(entries)
    simulators = simulators_of(sweep)  # which answer as models that they do not list
    yield from _check_vendors(providers, [entry for entry in entries.values() if entry.provider not in simulators])
    yield from _gemini_versions(providers, open_folder(sweep.store))


def _broken_packages(kinds: Iterable[str]) -> Iterator[Finding]:
    """Check whether the packages that add a sweep's kinds, or stages, can be used."""
    loading: list[Callable[[], object]] = [stages, *(partial(load_vendor, kind) for kind in sorted(kinds))]
    for load in loading:
        try:
            load()
        except ConfigError as error:
            cause, _, remedy = str(error).partition("; ")
            yield wrong("package", cause, remedy)


def _prices(entries: Mapping[str, ModelEntry]) -> Iterator[Finding]:
    today = datetime.now(UTC).date()
    for name, entry in entries.items():
        if priced(entry, today).price is None:
            cause, _, remedy = no_price(entry).partition("; ")
            yield wrong(f"price of {name}", cause, remedy)


def _gemini_versions(providers: Mapping[str, ProviderEntry], store: Folder) -> Iterator[Finding]:
    for name, entry in providers.items():
        if not api_versions.is_gemini(entry):
            continue
        if stated := api_versions.stated(entry):
            yield ok(f"{name}: API version", stated)
        elif noted := api_versions.remembered(store, name, entry):
            yield ok(f"{name}: API version", f"{noted}, detected earlier and kept in the store")
        else:
            yield ok(f"{name}: API version", "v1beta or v1, detected when a run starts")


def _check_machine() -> Iterator[Finding]:
    known = load_catalog().providers.items()
    with_key = {name: entry for name, entry in known if variables_of(entry) and has_secrets(entry, os.environ)}
    yield from (machine.python(), machine.ray())
    yield machine.room("store", Location.of("store"))
    yield from _check_vendors(with_key)


def _check_vendors(providers: Mapping[str, ProviderEntry], models: Sequence[ModelEntry] = ()) -> Iterator[Finding]:
    answers = asyncio.run(endpoints.ask_all(providers))
    yield machine.clock(datetime.now(UTC), [(one.provider, one.date) for one in answers if one.date])
    by_provider = {one.provider: one for one in answers}
    for name, entry in providers.items():
        if name in by_provider:
            yield endpoints.reachable(by_provider[name], entry)
            yield from endpoints.unlisted(by_provider[name], [model for model in models if model.provider == name])
        yield from endpoints.keys(name, entry)


def print_findings(found: Iterable[Finding]) -> Exit:
    """Print findings as a table; return the exit status they imply."""
    findings = list(found)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("", "check", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(finding.level, finding.subject, finding.seen, finding.remedy, style=_STYLES[finding.level])
    print_cells(table, console)
    return Exit.CONFIGURATION if any(f.level is Level.WRONG for f in findings) else Exit.COMPLETE
