"""`hab doctor --live`: calls every model of a sweep once and shows how vendors differ from the simulator."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hab_ray.catalog.addresses import checked_url
from hab_ray.catalog.models import BatchPolicy, Catalog, ProviderEntry, folder_name
from hab_ray.catalog.prices import NANO
from hab_ray.cli.ending import ask_to_spend, say, warn
from hab_ray.cli.interrupts import stop
from hab_ray.cli.machine import check_sweep, print_findings
from hab_ray.cli.options import LiveOptions
from hab_ray.cli.prepare import Choices, prepare
from hab_ray.doctor.comparison import ComparedProtocols, ProtocolDifference, compare
from hab_ray.doctor.examination import Examined, Visit
from hab_ray.doctor.questions import questions
from hab_ray.doctor.ranks import Rank
from hab_ray.doctor.reference import at_simulator
from hab_ray.doctor.tap import refuse_unwritable_file, write_exchanges
from hab_ray.doctor.visit import detect_api_versions, run_live_check, upper_bound
from hab_ray.errors import ConfigError, Exit
from hab_ray.executors.api_versions import under
from hab_ray.executors.serving import Endpoints
from hab_ray.location import Location
from hab_ray.planning.problems import refuse_errors
from hab_ray.providers import load_vendor
from hab_ray.providers.google import DEFAULT_VERSION
from hab_ray.rehearse.staging import account
from hab_ray.visible import counted, usd
from hab_ray.work import Work

_NOTES_SHOWN = 12
# A simulator completes batches within seconds.
_AT_SIMULATOR = BatchPolicy(poll_s=0.2, longest_poll_s=1.0, in_doubt_s=2.0, still_s=0.2)


def examine_vendors(path: Path, choices: Choices, options: LiveOptions) -> Exit:
    """Call every model, spend at most `max_usd`, show the differences from the simulator, and record all exchanges.

    Raises:
        ConfigError: the sweep cannot run, would cost more than `max_usd`, or there is no terminal to ask on.
        StoreHeld: another driver holds the store.
        Interrupted: the user answered no or stopped the check.
    """
    now = datetime.now(UTC)
    with ExitStack() as stack:
        if options.at is not None:
            folder = Location.of(stack.enter_context(TemporaryDirectory(prefix="hab-doctor-")))
            choices = replace(choices, run=folder / "run", store=folder / "store")
        work = _prepare(path, choices, options, now)
        if options.at is None and print_findings(check_sweep(work.sweep)) is not Exit.COMPLETE:
            say("nothing was sent: fix the problems above first", "red")
            return Exit.CONFIGURATION
        file = options.out or Path(f"doctor-{folder_name(work.sweep.name)}-{now:%Y%m%dT%H%M%S}.jsonl")
        refuse_unwritable_file(file)
        versions, version_exchanges = asyncio.run(detect_api_versions(work))
        work = under(work, versions)
        visit = Visit(work, questions(work), Endpoints(work, stack).url, options.batch, 60 * options.wait)
        _confirm_cost(asyncio.run(upper_bound(visit)), visit, options)
        say("asking the simulator, which costs nothing, then the vendors")
        reference = asyncio.run(at_simulator(work, options.batch, now))
        stop.check()
        found = run_live_check(visit, options.max_usd, stop, warn)
        found.exchanges[:0] = version_exchanges
    write_exchanges(file, {"sweep": work.sweep.name, "at": now.isoformat(timespec="seconds")}, found.exchanges)
    for left in found.left_open:
        say(f"note: {left}", "yellow")
    stop.check()
    protocols = {name: load_vendor(entry.kind).protocol for name, entry in work.catalog.providers.items()}
    compared = compare(found, reference, protocols, work.models)
    for name, version in versions.items():
        what = f"accepts API version {version} and not {DEFAULT_VERSION}; runs use {version}"
        compared.differ(name, "", [(Rank.COSMETIC, what)])
    _print_result(compared, found)
    say(
        f"the exchanges are in {file}, without keys and tokens but with the sweep's prompts: attach it to a bug report "
        f"or replay it by `hab simulate --replay {file}`"
    )
    return Exit.DIFFERENT if compared.serious else Exit.COMPLETE


def _prepare(path: Path, choices: Choices, options: LiveOptions, now: datetime) -> Work:
    work, problems = prepare(path, choices, now)
    if options.at is not None:
        return _redirected(work, options.at)
    refuse_errors(problems)
    return work


def _redirected(work: Work, url: str) -> Work:
    """Return the work with every provider at a simulator and no key, so that none can be sent there."""
    try:
        base = checked_url(url).rstrip("/")
    except ValueError as error:
        raise ConfigError(f"--at: {error}") from None

    def redirected(name: str, entry: ProviderEntry) -> ProviderEntry:
        protocol = load_vendor(entry.kind).protocol
        address = f"{base}/{account(name, protocol)}{protocol.version}"
        without_keys: dict[str, object] = {"key_env": None, "headers_env": {}}
        return entry.model_copy(update=without_keys | {"url": address, "serve": False, "batches": _AT_SIMULATOR})

    providers = {name: redirected(name, entry) for name, entry in work.catalog.providers.items()}
    return replace(work, catalog=Catalog(providers=providers, models=work.catalog.models))


def _confirm_cost(nanousd: int, visit: Visit, options: LiveOptions) -> None:
    by_batch = ", and a batch of two rows to each model with batches," if visit.by_batch else ""
    say(
        f"the doctor makes {len(visit.questions)} calls{by_batch} and spends at most {usd(nanousd)}; "
        "these are its own calls, which the run does not reuse"
    )
    if nanousd / NANO > options.max_usd:
        raise ConfigError(
            f"--max-usd {options.max_usd:g}: the calls may cost {usd(nanousd)}, and nothing was sent; raise --max-usd, "
            "or choose fewer models by --subject and --judge"
        )
    if nanousd and not options.yes and options.at is None:
        ask_to_spend("a live check")


def _print_result(compared: ComparedProtocols, examined: Examined) -> None:
    cosmetic = [one for one in compared.differences if one not in compared.serious]
    _print_some("note: ", compared.notes)
    _print_some("cosmetic: ", cosmetic)
    for difference in sorted(compared.serious, key=lambda one: one.rank):
        say(f"{difference.rank.meaning}: {difference}", "red")
    count, lost = len(compared.serious), examined.lost_nanousd
    result = f"{counted(count, 'difference')} from the simulator" if count else "no difference"
    result += f", and {len(cosmetic)} cosmetic" if cosmetic else ""
    more = f", at most {usd(lost)} more for answers that cannot be read" if lost else ""
    say(f"{result}; {examined.calls} calls and {usd(examined.cost_nanousd)} paid{more}")


def _print_some(prefix: str, found: Sequence[ProtocolDifference]) -> None:
    for one in found[:_NOTES_SHOWN]:
        say(f"{prefix}{one}", "yellow")
    if len(found) > _NOTES_SHOWN:
        say(f"{prefix}and {len(found) - _NOTES_SHOWN} more in the file", "yellow")
