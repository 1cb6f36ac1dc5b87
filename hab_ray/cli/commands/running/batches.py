"""`hab batches`: show or cancel a run's batches."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from hab_ray.cli.ending import console, ends_with_status, say
from hab_ray.cli.opening import batches_in_store, open_run_with_store
from hab_ray.cli.options import RunFolderArgument
from hab_ray.cli.views.terminal import print_cells
from hab_ray.engine.ledger import Batch, Harvested, Intent, Phase, Submitted
from hab_ray.errors import CallError, ConfigError, Exit
from hab_ray.executors.api_versions import as_remembered
from hab_ray.providers import connect_batch
from hab_ray.providers.access import endpoint_of
from hab_ray.storage.folder import open_folder
from hab_ray.storage.registry import Registry
from hab_ray.visible import duration, one_line, usd
from hab_ray.work import Work

MAX_STATE, MAX_MODEL = 24, 60
_MAY_BE_OPEN = Phase.IN_DOUBT, Phase.AT_VENDOR


def batches_of(work: Work) -> list[Batch]:
    """Return all batches of a run in any state, oldest first."""
    epochs = Registry(work.sweep.store).epochs(work.run_id, work.run_path)
    return sorted((b for b in batches_in_store(work) if b.epoch in epochs), key=lambda b: b.since)


def _cells(batch: Batch, now: datetime) -> Sequence[str]:
    intent, harvested = batch.intent, batch.harvested
    answered = 0 if harvested is None else harvested.replies + harvested.failures
    cost = f"~{usd(intent.nanousd).removeprefix('<')}" if harvested is None else usd(harvested.nanousd)
    state = batch.ended.word if batch.ended and harvested else str(batch.phase)
    names = one_line(batch.name), one_line(intent.model, MAX_MODEL), one_line(state, MAX_STATE)
    return *names, duration(max(0.0, (now - batch.since).total_seconds())), f"{answered}/{intent.rows}", cost


def _describe(event: object) -> str:
    match event:
        case Intent():
            return f"tag {event.tag}, {usd(event.nanousd)} reserved, at most {usd(event.most)}"
        case Submitted():
            return event.batch_id + (" (found at the vendor)" if event.adopted else "")
        case Harvested():
            rest = f"{event.unanswered} unanswered, {event.unknown_ids} with unknown ids, {event.doubled} duplicates"
            return f"{event.replies} replies, {event.failures} failures, {rest}; {usd(event.nanousd)}"
        case _:
            problem = getattr(event, "problem", None)
            return str(getattr(event, "word", "")) + (f": {problem}" if problem else "")


def _obstacle(work: Work, batch: Batch) -> str | None:
    """Return why a batch cannot be cancelled from here; None if it can."""
    if batch.phase is Phase.IN_DOUBT:
        return "it may be at the vendor or not: `hab run` finds out, and then it can be cancelled"
    if batch.phase is not Phase.AT_VENDOR:
        return f"it is not open at the vendor ({batch.phase})"
    if not batch.is_certain:
        return f"{batch.batch_id} may belong to another program"
    if batch.provider not in work.catalog.providers:
        return f"the sweep no longer has the provider {batch.provider}: put it back, or cancel {batch.batch_id} there"
    return None


async def _cancel(work: Work, batch: Batch) -> None:
    entry = as_remembered(open_folder(work.sweep.store), batch.provider, work.catalog.providers[batch.provider])
    api = connect_batch(endpoint_of(batch.provider, entry, entry.url or ""))
    try:
        await api.cancel(batch.batch_id or "")
    finally:
        await api.close()


def _find(work: Work, names: Sequence[str]) -> list[Batch]:
    batches = batches_in_store(work)
    by_name = {name: batch for batch in batches for name in (batch.name, batch.batch_id)}
    for name in names:
        if name not in by_name:
            raise ConfigError(
                f"{name}: no such batch in the store; `hab batches list {work.run_path}` lists those of the run"
            )
    return [by_name[name] for name in names]


command = typer.Typer(help="Show or cancel a run's batches at the vendors.", no_args_is_help=True)


@command.command("list")
@ends_with_status
def list_command(run: RunFolderArgument) -> Exit:
    """List a run's batches: state, age, answered rows, cost."""
    batches = batches_of(open_run_with_store(run))
    if not batches:
        say("this run has sent no batches")
        return Exit.COMPLETE
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("batch", no_wrap=True, min_width=max(len(batch.name) for batch in batches))
    table.add_column("model", no_wrap=True)
    table.add_column("state", no_wrap=True, min_width=len("state"))
    for title in ("age", "answered", "cost"):
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    for batch in batches:
        table.add_row(*_cells(batch, datetime.now(UTC)))
    print_cells(table, console)
    waiting = [b for b in batches if b.phase is not Phase.DONE]
    reserved = usd(sum(b.intent.nanousd for b in waiting))
    say(f"{len(waiting)} open: {sum(b.intent.rows for b in waiting)} rows, {reserved} reserved")
    return Exit.COMPLETE


@command.command("show")
@ends_with_status
def show_command(
    run: RunFolderArgument,
    batch: Annotated[str, typer.Argument(help="A batch's name as `list` shows it, or the vendor's id.")],
) -> Exit:
    """Show the history of one batch, also of another run in the store."""
    (found,) = _find(open_run_with_store(run), [batch])
    say(f"{found.name}: {found.intent.rows} rows for {found.intent.model}, {found.intent.bytes:,} bytes")
    for event in found.events:
        say(f"{event.at:%Y-%m-%d %H:%M:%S}  {event.kind:<10}{_describe(event)}")
    return Exit.COMPLETE


@command.command("cancel")
@ends_with_status
def cancel_command(
    run: RunFolderArgument,
    batch: Annotated[
        list[str] | None, typer.Argument(help="Names as `list` shows them. Default: all open batches of the run.")
    ] = None,
) -> Exit:
    """Ask the vendors to cancel batches. Rows finished by then are charged, and `hab run` collects them."""
    work = open_run_with_store(run)
    chosen = _find(work, batch) if batch else [b for b in batches_of(work) if b.phase in _MAY_BE_OPEN]
    if not chosen:
        say("no batch of this run is open at a vendor: there is nothing to cancel")
    status = Exit.COMPLETE
    for each in chosen:
        if obstacle := _obstacle(work, each):
            say(f"{each.name}: not cancelled, since {obstacle}", "yellow")
            status = Exit.UNANSWERED if each.phase in _MAY_BE_OPEN else status
            continue
        try:
            asyncio.run(_cancel(work, each))
            say(f"{each.name}: cancellation requested; `hab run` collects the rows that are done")
        except CallError as error:
            say(f"{each.name}: {error}", "red")
            status = Exit.UNANSWERED
    return status
