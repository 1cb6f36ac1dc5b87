"""`hab budget`: show what a run has spent and reserved."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from hab_ray.catalog.prices import NANO
from hab_ray.cli.commands.running.status import Status, read_status
from hab_ray.cli.ending import console, ends_with_status, say, warn
from hab_ray.cli.interrupts import stop
from hab_ray.cli.opening import open_run_with_store
from hab_ray.cli.options import RunFolderArgument
from hab_ray.cli.views.terminal import print_cells
from hab_ray.config.sweep import spending_limit
from hab_ray.engine.books import batches_of, explained, opening_balance
from hab_ray.engine.ledger import Phase
from hab_ray.errors import ConfigError, Exit
from hab_ray.storage.folder import open_folder
from hab_ray.storage.record import amend_record
from hab_ray.storage.registry import Registry
from hab_ray.sweep.session import Session, spending
from hab_ray.visible import usd
from hab_ray.work import Work

_WORDS = {
    "budget": "upper limit of the run's spending",
    "paid": "replies and failures, as the vendors bill them, or at most where they do not say",
    "unanswered": "calls without a reply, at the most they can have cost",
    "stranded": "granted before an unclean end and not accounted for: see `hab budget release`",
    "in_flight": "online calls in flight, at the most they can cost",
    "hard": "open batches, at the most they can cost",
    "by_bound": "open batches, at an upper bound estimated from a sample of their rows",
    "left": "",
}


def _parts(work: Work, status: Status) -> Mapping[str, int | None]:
    """Return the parts of a run's budget in nano-dollars, by the names of `_WORDS`.

    `in_flight` is what the running driver last reported as reserved for online calls. Without a budget, `budget` and
    `left` are None.
    """
    folder, registry = open_folder(work.sweep.store), Registry(work.sweep.store)
    found = explained(folder, registry.epochs(work.run_id, work.run_path), registry.released_up_to(work.run_id))
    reported, in_flight = status.progress.money, 0
    if status.is_driven and reported:
        # The running process accounts for everything under its own mark: none of that is stranded.
        in_flight = max(0, reported.reserved - found.hard - found.by_bound)
        paid = max(0, reported.spent - reported.stranded - found.unanswered)
        found = replace(found, stranded=reported.stranded, paid=paid)
    used = {**asdict(found), "in_flight": in_flight}
    limit = spending_limit(work.sweep)
    budget = None if limit is None else round(limit.usd * NANO)
    parts = {**used, "budget": budget, "left": None if budget is None else budget - sum(used.values())}
    return {name: parts[name] for name in _WORDS}


def _release(session: Session) -> int:
    work, earlier = session.work, session.earlier
    if unresolved := [batch.name for batch in batches_of(session.store, earlier) if batch.phase is Phase.IN_DOUBT]:
        raise ConfigError(
            f"{work.run_path}: it is not known yet whether the vendor created {', '.join(unresolved)}; "
            "give `hab run`, which finds out, then `hab budget release` again"
        )
    stranded = opening_balance(session.store, earlier, session.released_up_to, work.models).stranded
    if stranded:
        session.registry.release(work.run_id, session.lease.epoch, stranded, datetime.now(UTC))
    return stranded


command = typer.Typer(help="Show what a run has spent and reserved, or release stranded money.", no_args_is_help=True)


@command.command("show")
@ends_with_status
def show_command(
    run: RunFolderArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print nano-dollars as JSON.")] = False,
) -> Exit:
    """Show what is paid, reserved, stranded and left."""
    parts = _parts(open_run_with_store(run), read_status(run))
    if as_json:
        console.print_json(json.dumps(parts))
        return Exit.COMPLETE
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for name, nano in parts.items():
        table.add_row(name.replace("_", " "), "-" if nano is None else usd(nano), _WORDS[name])
    print_cells(table, console)
    return Exit.COMPLETE


@command.command("release")
@ends_with_status
def release_command(run: RunFolderArgument) -> Exit:
    """Count a run's stranded money as unspent.

    Stranded money was granted before an unclean end of the run and is not accounted for. Check the vendors' bills
    first: calls that were in flight at that moment may have been billed.
    """
    work = open_run_with_store(run)
    with spending(work, stop, warn) as session:
        session = session.adopt_id()
        amend_record(work.run_path, id=session.work.run_id)
        session.register_run()
        stranded = _release(session)
    spent = f"{usd(stranded)} no longer counts as spent" if stranded else "nothing is stranded"
    say(f"{work.run_path}: {spent}")
    return Exit.COMPLETE
