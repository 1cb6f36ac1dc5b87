"""The command `hab`: its subcommands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hab_ray import __version__
from hab_ray.cli.ending import ends_with_status, errors, verbosity
from hab_ray.cli.importing import import_app
from hab_ray.cli.interrupts import stop
from hab_ray.cli.options import (
    AvailableOption,
    BatchArgument,
    ExecutorOption,
    JudgeOption,
    ModelOption,
    RehearsalOption,
    RehearsalStoreOption,
    RunFolderArgument,
    RunOption,
    StoreOption,
    SubjectOption,
    SweepArgument,
)
from hab_ray.cli.terminal import output, write_whatever_the_encoding
from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location
from hab_ray.stopping import DRAIN_S

if TYPE_CHECKING:
    from hab_ray.cli.prepare import Choices

app = typer.Typer(
    help="HumanAgencyBench as a batch-processing system: sweeps of many models, each call paid for once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
rubric_app = typer.Typer(help="The rubrics that define the dimensions.", no_args_is_help=True)
budget_app = typer.Typer(help="What a run has spent and reserved.", no_args_is_help=True)
local_app = typer.Typer(help="Open-weight models served on this machine.", no_args_is_help=True)
batches_app = typer.Typer(help="What a run has at the vendors' batch APIs.", no_args_is_help=True)
app.add_typer(rubric_app, name="rubric")
app.add_typer(batches_app, name="batches")
app.add_typer(budget_app, name="budget")
app.add_typer(local_app, name="local")
app.add_typer(import_app, name="import")

console = output()


def _show_version(wanted: bool) -> None:
    if wanted:
        console.print(f"hab_ray {__version__}", markup=False, highlight=False)
        raise typer.Exit


@app.callback()
def _before_any_command(
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show the traceback of an error too.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    verbosity.tracebacks = verbose


class LogFormat(StrEnum):
    """How `hab run` says what it does."""

    TEXT = "text"
    JSON = "json"


def _choices(
    model: Path | None,
    run: Location | None,
    store: Location | None,
    subject: list[str] | None,
    judge: list[str] | None,
    available_only: bool,
    executor: str | None,
) -> Choices:
    from hab_ray.cli.prepare import Choices

    return Choices(model, run, store, tuple(subject or ()), tuple(judge or ()), available_only, executor)


@app.command("run")
@ends_with_status
def run_command(
    sweep: SweepArgument,
    subject: SubjectOption = None,
    judge: JudgeOption = None,
    model: ModelOption = None,
    run: RunOption = None,
    store: StoreOption = None,
    available_only: AvailableOption = False,
    executor: ExecutorOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Spend what the plan says without asking.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Send calls again that failed permanently.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Send all that goes by batch, then end; run again to collect.")
    ] = False,
    new_id: Annotated[
        bool, typer.Option("--new-id", help="Make a copy of a run's folder a run of its own, which has spent nothing.")
    ] = False,
    drain: Annotated[
        float | None,
        typer.Option(
            min=0,
            help=f"Seconds that open calls get to be answered after Ctrl-C or SIGTERM: {DRAIN_S:g}, in a Ray job less "
            "if RAY_JOB_STOP_WAIT_TIME_S is less.",
            show_default=False,
        ),
    ] = None,
    names: Annotated[
        bool,
        typer.Option("--names", help="Keep the names of people in `raters:`, who are rater-1, rater-2 otherwise."),
    ] = False,
    log_format: Annotated[
        LogFormat, typer.Option(help="What is printed: text for people, or one JSON object per line.")
    ] = LogFormat.TEXT,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show Ray's own messages and tracebacks too.")
    ] = False,
) -> Exit:
    """Run a sweep as far as it goes; the same command again goes on where it ended.

    Ctrl-C or SIGTERM: nothing new is sent, open calls are waited for (--drain); a second one ends at once.

    Exit status: 0 complete, 2 configuration, 3 batches are still at the vendors, 4 budget reached, 5 rows
    unanswered because of failures, 6 store held by another driver, 7 the engine broke (a process of it died, the
    disk is full, a file is damaged) and the same command goes on, 130 interrupted.
    """
    from hab_ray.cli.job import drain_s, stop_notice
    from hab_ray.cli.run import RunOptions, run_sweep
    from hab_ray.sweep.raters import PeopleAs

    if log_format is LogFormat.JSON:
        from hab_ray.cli.json_log import log_as_json

        log_as_json(console, errors)
    if drain is None:
        drain = drain_s(os.environ)
        if notice := stop_notice(os.environ, drain):
            console.print(notice, style="yellow", soft_wrap=True)
    choices = _choices(model, run, store, subject, judge, available_only, executor)
    is_quiet = log_format is LogFormat.JSON
    people = PeopleAs.NAMES if names else PeopleAs.PSEUDONYMS
    options = RunOptions(yes, retry_failed, detach, verbose, new_id, drain, is_quiet, people)
    return run_sweep(sweep, choices, options, console, stop)


@app.command("plan")
@ends_with_status
def plan_command(
    sweep: SweepArgument,
    subject: SubjectOption = None,
    judge: JudgeOption = None,
    model: ModelOption = None,
    run: RunOption = None,
    store: StoreOption = None,
    available_only: AvailableOption = False,
    executor: ExecutorOption = None,
    by_dimension: Annotated[bool, typer.Option("--by-dimension", help="A line for each dimension too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The whole plan as JSON.")] = False,
    probe: Annotated[
        int, typer.Option(min=0, help="Send so many calls a stage, model and dimension first, to measure tokens.")
    ] = 0,
    yes: Annotated[bool, typer.Option("--yes", help="Spend what the probe costs without asking.")] = False,
) -> Exit:
    """Show what a sweep asks, costs and takes, and what stands in its way; nothing is sent but what --probe asks for.

    What a probe pays for is in the store: the run does not pay for it again.
    """
    from hab_ray.cli.plan import show_plan
    from hab_ray.cli.plan_view import PlanOptions

    choices = _choices(model, run, store, subject, judge, available_only, executor)
    return show_plan(sweep, choices, PlanOptions(by_dimension, as_json, probe, yes), console, stop)


@app.command("rehearse")
@ends_with_status
def rehearse_command(
    sweep: SweepArgument,
    run: RehearsalOption = None,
    store: RehearsalStoreOption = None,
    seed: Annotated[int, typer.Option(help="What the simulator's answers and the planted truth are drawn from.")] = 0,
    faults: Annotated[
        Path | None, typer.Option(help="A YAML file of what goes wrong, e.g. jobs/nightmare.yaml.")
    ] = None,
    latency: Annotated[float, typer.Option(min=0, help="The mean time of a reply in seconds; 0 = at once.")] = 0.0,
    turnaround: Annotated[float, typer.Option(min=0, help="The time of a batch in seconds.")] = 2.0,
    judge_error: Annotated[
        float, typer.Option(min=0, max=1, help="The share of verdicts with one letter wrong: the check must fail.")
    ] = 0.0,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show Ray's own messages too.")] = False,
) -> Exit:
    """Run a sweep against the simulator: no key, nothing paid; did the planted truth come back exactly?

    Exit status: 0 only if every answer, verdict, mean and interval is as planted, judges were shown all that they need,
    and our books agree with the simulator's meter; 1 if the sweep ended otherwise; else as `hab run`.
    """
    from hab_ray.cli.rehearse import RehearseOptions, rehearse_sweep

    options = RehearseOptions(run, store, seed, faults, latency, turnaround, judge_error, verbose)
    return rehearse_sweep(sweep, options, console, stop)


@app.command("doctor")
@ends_with_status
def doctor_command(
    sweep: Annotated[
        Path | None, typer.Argument(help="The sweep file; none = this machine and the keys it has.")
    ] = None,
    subject: SubjectOption = None,
    judge: JudgeOption = None,
    run: RunOption = None,
    store: StoreOption = None,
    available_only: AvailableOption = False,
    live: Annotated[
        bool, typer.Option("--live", help="Ask every model once, for cents, and compare with the simulator.")
    ] = False,
    batch: Annotated[
        bool, typer.Option("--batch", help="With --live: try a batch of two rows of each model too.")
    ] = False,
    max_usd: Annotated[float, typer.Option(min=0, help="With --live: the most that it may cost, in dollars.")] = 1.0,
    wait: Annotated[float, typer.Option(min=0, help="With --batch: minutes to wait for a batch.")] = 30.0,
    at: Annotated[
        str | None, typer.Option(metavar="URL", help="With --live: a `hab simulate` to ask instead of the vendors.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="With --live: the file of exchanges, instead of doctor-<name>-<time>.jsonl.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Spend what --live costs without asking.")] = False,
) -> Exit:
    """Show what is wrong on this machine and on the way to the vendors; with --live, what vendors do otherwise.

    --live books its calls in the sweep's store as a run of their own. Its file can be attached to a report of a bug: it
    holds what was said, without keys and tokens, and `hab simulate --replay` serves it.

    Exit status: 0 if nothing is wrong, 2 if something is, 8 if vendors answer so that the sweep
    will not work, costs more or may lose rows.
    """
    choices = _choices(None, run, store, subject, judge, available_only, None)
    if not live and (batch or at or out):
        raise ConfigError("hab doctor: --batch, --at and --out belong to --live; add it, or leave them out")
    if not live:
        from hab_ray.cli.doctor import examine_machine

        return examine_machine(sweep, choices, console)
    from hab_ray.cli.live import LiveOptions, examine_vendors

    if sweep is None:
        raise ConfigError("hab doctor --live: no sweep is named; give the file of one, e.g. jobs/small.yaml")
    options = LiveOptions(yes, batch, max_usd, 60 * wait, at, out)
    return examine_vendors(sweep, choices, options, console, stop)


@app.command("simulate")
@ends_with_status
def simulate_command(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 takes a free one.")] = 0,
    profile: Annotated[Path | None, typer.Option(help="A YAML or JSON file of the simulator's settings.")] = None,
    seed: Annotated[int | None, typer.Option(help="The seed, instead of the profile's.")] = None,
    speed: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds of the batches' clock in one real second.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Serve the answers in a file of `hab doctor --live` instead.")
    ] = None,
) -> Exit:
    """Serve the vendors' protocols on this machine until Ctrl-C, for trying one's own client."""
    from hab_ray.cli.simulate import replay as serve_again
    from hab_ray.cli.simulate import simulate

    if replay is not None:
        if profile is not None or seed is not None or speed is not None:
            raise ConfigError("--replay: recorded answers know no --profile, --seed or --speed; leave them out")
        return serve_again(replay, port, console)
    return simulate(profile, port, seed, console, speed)


@app.command("models")
@ends_with_status
def models_command(
    text: Annotated[str, typer.Argument(help="Only models whose name, wire name or provider holds this.")] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Ask the vendors which of them exist today; their lists cost nothing.")
    ] = False,
) -> Exit:
    """Show the catalogue: provider, dollars per million tokens, context, last day, whether the key is there."""
    from hab_ray.cli.models import show_models

    return show_models(text, check, console)


@app.command("status")
@ends_with_status
def status_command(
    run: RunFolderArgument,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON, for a program to read.")] = False,
) -> Exit:
    """Show how far a run is, from its files alone; works while another process drives it.

    The JSON has the keys of log/progress.json, `run`, and `driver` (who drives the store; null where nobody does).
    Its `end` is {"status": exit status of the last `hab run`, "meaning": ...}, null while it runs or if it was killed.
    """
    from hab_ray.cli.status import print_status, read_status, status_json

    status = read_status(run)
    if as_json:
        console.print_json(status_json(status), ensure_ascii=True)
    else:
        print_status(status, console)
    return Exit.COMPLETE


@app.command("report")
@ends_with_status
def report_command(run: RunFolderArgument) -> Exit:
    """Write a run's scores and report again from its files, and show the leaderboard."""
    from hab_ray.cli.run import report_run

    return report_run(run, console)


@app.command("export")
@ends_with_status
def export_command(
    run: RunFolderArgument,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="hf (a data set as published), csv (a ' stands before what a spreadsheet would take for a formula; "
            "csv-raw: none does), json, or inspect (logs for `inspect view`).",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The new folder to write to.")],
    licence: Annotated[str, typer.Option(help="What the card states, such as mit or cc-by-4.0.")] = "unknown",
    i_may_share: Annotated[
        bool, typer.Option("--i-may-share", help="Include what comes from elsewhere without a known licence.")
    ] = False,
) -> Exit:
    """Write a run's tests, responses, verdicts and scores in a format that others read, with a card.

    Imported queries, given answers and imported wording of rubrics are left out where no licence of theirs is known.
    """
    from hab_ray.cli.exchange import export_run
    from hab_ray.exchange import everything, licensed

    return export_run(run, form, out, licence, everything if i_may_share else licensed, console)


@batches_app.command("list")
@ends_with_status
def batches_list_command(run: RunFolderArgument) -> Exit:
    """Show a run's batches: where each stands, how old it is, its rows and dollars."""
    from hab_ray.cli.batches import list_batches

    return list_batches(run, console)


@batches_app.command("show")
@ends_with_status
def batches_show_command(run: RunFolderArgument, batch: BatchArgument) -> Exit:
    """Show what has happened to one batch."""
    from hab_ray.cli.batches import show_batch

    return show_batch(run, batch, console)


@batches_app.command("cancel")
@ends_with_status
def batches_cancel_command(
    run: RunFolderArgument,
    batch: Annotated[list[str] | None, typer.Argument(help="Names as `list` shows them; none = all open ones.")] = None,
) -> Exit:
    """Ask the vendors to end batches; what is done by then is paid for, and `hab run` collects it."""
    from hab_ray.cli.batches import cancel_batches

    return cancel_batches(run, batch or [], console)


@budget_app.command("show")
@ends_with_status
def budget_show_command(
    run: RunFolderArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print nano-dollars as JSON.")] = False,
) -> Exit:
    """Say where every dollar of a run's budget is: paid, reserved, stranded, left."""
    from hab_ray.cli.budget import show_budget

    return show_budget(run, as_json, console)


@budget_app.command("release")
@ends_with_status
def budget_release_command(run: RunFolderArgument) -> Exit:
    """Count as not spent what was granted before unclean ends of a run and is not accounted for.

    Look at the vendors' bills first: calls that were in flight at such an end may have been billed.
    """
    from hab_ray.cli.budget import release_stranded

    return release_stranded(run, console)


@rubric_app.command("check")
@ends_with_status
def rubric_check_command(
    folder: Annotated[Path | None, typer.Argument(help="A folder of rubrics; none = the built-in ones.")] = None,
) -> Exit:
    """Say what is wrong where in a folder of rubrics."""
    from hab_ray.cli.rubrics import check_rubrics

    return check_rubrics(folder, console)


@rubric_app.command("new")
@ends_with_status
def rubric_new_command(
    name: Annotated[str, typer.Argument(metavar="ID", help="The dimension's id, e.g. admit_mistakes.")],
    folder: Annotated[Path, typer.Option(help="Where the file goes; made where it is missing.")] = Path("my_rubrics"),
) -> Exit:
    """Write the file of a new dimension, each field explained; `hab rubric check` names what is to be filled in."""
    from hab_ray.cli.rubrics import new_rubric

    return new_rubric(name, folder, console)


@local_app.command("pull")
@ends_with_status
def local_pull_command(
    name: Annotated[str, typer.Argument(help="A known name, hf:<owner>/<repo>/<file>.gguf, or a .gguf file.")],
) -> Exit:
    """Fetch the weights of a local model once, check them, and keep them in the user's cache."""
    from hab_ray.cli.rubrics import pull_weights

    return pull_weights(name, console)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the console script. SIGTERM ends a run as Ctrl-C does: what was paid for is kept.

    Whatever is written is this user's alone.
    Arrow's own allocator keeps 40 MB that nobody uses, so the system's is taken.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    os.umask(0o077)
    write_whatever_the_encoding()
    stop.listen()
    try:
        app(arguments)
    except SystemExit as end:
        if isinstance(end.code, int):
            _say_last_line(end.code)
            _flush()
            if stop.requested:
                os._exit(end.code)  # Ray's threads, cut off while it starts, were seen to crash in Python's clearing up
            stop.finish(end.code)
        raise


def _say_last_line(status: int) -> None:
    """In a Ray job: whatever was said before, the last line says how it ended."""
    from hab_ray.cli.job import is_ray_job, last_line

    if is_ray_job(os.environ):
        _flush()
        console.print(last_line(status), soft_wrap=True)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
