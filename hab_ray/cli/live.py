"""`hab doctor --live`: asks every model of a sweep once, for cents, and shows what vendors do otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hab_ray.catalog.addresses import checked_url
from hab_ray.catalog.models import BatchPolicy, Catalog, ProviderEntry, folder_name
from hab_ray.catalog.prices import NANO
from hab_ray.cli.ending import ask_to_spend, say, warn
from hab_ray.cli.interrupts import stop
from hab_ray.cli.machine import of_sweep, show
from hab_ray.cli.prepare import Choices, prepare
from hab_ray.doctor.bounds import bound
from hab_ray.doctor.comparison import ComparedProtocols, ProtocolDifference, Recording, compare
from hab_ray.doctor.examination import Visit
from hab_ray.doctor.questions import questions
from hab_ray.doctor.ranks import Rank
from hab_ray.doctor.recording import refuse_unwritable_file, write_exchanges
from hab_ray.doctor.reference import at_simulator
from hab_ray.doctor.visit import asked_on_record, pay
from hab_ray.errors import ConfigError, Exit
from hab_ray.executors.api_versions import under
from hab_ray.executors.serving import Endpoints
from hab_ray.location import Location
from hab_ray.planning.preflight import refuse_errors
from hab_ray.providers import load_vendor
from hab_ray.providers.google.version import DEFAULT_VERSION
from hab_ray.rehearse.staging import account
from hab_ray.storage.simulated import refuse_simulated
from hab_ray.visible import counted
from hab_ray.work import Work

_NOTES_SHOWN = 12
# A simulator's batches take seconds.
_AT_SIMULATOR = BatchPolicy(poll_s=0.2, longest_poll_s=1.0, in_doubt_s=2.0, still_s=0.2)


@dataclass(frozen=True)
class LiveOptions:
    """How vendors are asked: `yes` spends without asking, `by_batch` tries a batch of each model too.

    A batch is waited for `wait_s` seconds. `at` is the address of a simulator to ask instead of the vendors; `out` is
    the file of exchanges.
    """

    yes: bool
    by_batch: bool
    max_usd: float
    wait_s: float
    at: str | None = None
    out: Path | None = None


def examine_vendors(path: Path, choices: Choices, options: LiveOptions) -> Exit:
    """Ask, spend at most `max_usd`, show what differs from the simulator, and keep the exchanges in a file.

    Raises:
        ConfigError: the sweep cannot run, it would cost more, or nobody is there to be asked.
        StoreHeld: another driver has the store.
        Interrupted: the answer was no, or the user ended it.
    """
    now = datetime.now(UTC)
    with ExitStack() as stack:
        if options.at is not None:
            folder = Location.of(stack.enter_context(TemporaryDirectory(prefix="hab-doctor-")))
            choices = replace(choices, run=folder / "run", store=folder / "store")
        work = _prepared(path, choices, options, now)
        if options.at is None and show(of_sweep(work.sweep)) is not Exit.COMPLETE:
            say("nothing was sent: what is wrong above comes first", "red")
            return Exit.CONFIGURATION
        file = options.out or Path(f"doctor-{folder_name(work.sweep.name)}-{now:%Y%m%dT%H%M%S}.jsonl")
        refuse_unwritable_file(file)
        versions, asked_before = asyncio.run(asked_on_record(work))
        work = under(work, versions)
        visit = Visit(work, questions(work), Endpoints(work, stack).url, options.by_batch, options.wait_s)
        _agree(asyncio.run(bound(visit)), visit, options)
        say("asking the simulator, which costs nothing, then the vendors")
        reference = asyncio.run(at_simulator(work, options.by_batch, now))
        stop.check()
        found = pay(visit, options.max_usd, stop, warn)
        found = replace(found, exchanges=[*asked_before, *found.exchanges])
    write_exchanges(file, {"sweep": work.sweep.name, "at": now.isoformat(timespec="seconds")}, found.exchanges)
    for left in found.examined.left_open:
        say(f"note: {left}", "yellow")
    stop.check()
    protocols = {name: load_vendor(entry.kind).protocol for name, entry in work.catalog.providers.items()}
    compared = compare(found, reference, protocols, work.models)
    for name, version in versions.items():
        what = f"takes requests under API version {version}, and not under {DEFAULT_VERSION}; the run asks under it"
        compared.differ(name, "", [(Rank.COSMETIC, what)])
    _tell(compared, found)
    say(
        f"the exchanges are in {file}, without keys and tokens but with the sweep's prompts: attach it to a report of "
        f"a bug, or have it answered again by `hab simulate --replay {file}`"
    )
    return Exit.DIFFERENT if compared.serious else Exit.COMPLETE


def _prepared(path: Path, choices: Choices, options: LiveOptions, now: datetime) -> Work:
    work, problems = prepare(path, choices, now)
    if options.at is not None:
        return _at(work, options.at)
    refuse_errors(problems)
    refuse_simulated(work.sweep)
    return work


def _at(work: Work, url: str) -> Work:
    """The same work with every provider at a simulator. No key is read, so that none can be sent there."""
    try:
        base = checked_url(url).rstrip("/")
    except ValueError as error:
        raise ConfigError(f"--at: {error}") from None

    def moved(name: str, entry: ProviderEntry) -> ProviderEntry:
        protocol = load_vendor(entry.kind).protocol
        return entry.model_copy(
            update={
                "url": f"{base}/{account(name, protocol)}{protocol.version}",
                "key_env": None,
                "headers_env": {},
                "serve": False,
                "batches": _AT_SIMULATOR,
            }
        )

    providers = {name: moved(name, entry) for name, entry in work.catalog.providers.items()}
    return replace(work, catalog=Catalog(providers=providers, models=work.catalog.models))


def _agree(most: int, visit: Visit, options: LiveOptions) -> None:
    """Say what it costs at most, refuse more than is allowed, and ask."""
    dollars = most / NANO
    by_batch = ", and a batch of two rows of each that takes batches," if visit.by_batch else ""
    say(
        f"the doctor makes {len(visit.questions)} calls{by_batch} and spends at most ${dollars:.4f}; "
        "they are calls of its own, which the run does not use"
    )
    if dollars > options.max_usd:
        raise ConfigError(
            f"--max-usd {options.max_usd:g}: the calls may cost ${dollars:.4f}, and nothing was sent; allow as much by "
            "--max-usd, or leave models out by --subject and --judge"
        )
    if most and not options.yes and options.at is None:
        ask_to_spend("an examination")


def _tell(compared: ComparedProtocols, found: Recording) -> None:
    examined = found.examined
    _list("note: ", compared.notes, "yellow")
    _list("cosmetic: ", [one for one in compared.differences if one not in compared.serious], "yellow")
    for difference in sorted(compared.serious, key=lambda one: one.rank):
        say(f"{difference.rank.meaning}: {difference}", "red")
    count, minor = len(compared.serious), len(compared.differences) - len(compared.serious)
    told = f"{counted(count, 'difference')} from the simulator" if count else "no difference"
    told += f", and {minor} cosmetic" if minor else ""
    lost = examined.lost_nanousd
    more = f", at most ${lost / NANO:.6f} more for answers that cannot be read" if lost else ""
    paid = f"{examined.calls} calls and ${examined.cost_nanousd / NANO:.6f} paid{more}"
    say(f"{told}; {paid}")


def _list(prefix: str, found: Sequence[ProtocolDifference], style: str) -> None:
    for one in found[:_NOTES_SHOWN]:
        say(f"{prefix}{one}", style)
    if len(found) > _NOTES_SHOWN:
        say(f"{prefix}and {len(found) - _NOTES_SHOWN} more in the file", style)
