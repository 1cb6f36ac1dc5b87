"""A plan on one screen, in full, or as JSON values."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from hab_ray.catalog.settings import Unheeded
from hab_ray.cli.views.budget_view import batch_time, budget_sentences, print_budgets
from hab_ray.cli.views.terminal import print_cells, print_line
from hab_ray.config.sweep import Sweep, spending_limit
from hab_ray.location import Location
from hab_ray.planning import Figures, Plan
from hab_ray.planning.models import unheeded_settings
from hab_ray.planning.problems import Problem, Severity
from hab_ray.visible import counted, duration, one_line, usd
from hab_ray.work import Work

_FIGURES = ("sent", "calls", "in store", "input", "output", "online $", "at most $", "batch $", "at most $")
_ALL, _COUNTS, _DOLLARS = slice(None), slice(5), slice(5, None)
_UNLIMITED_WIDTH = 10_000
_STYLE = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


def to_json(plan: Plan, problems: list[Problem], unheeded: Mapping[Unheeded, list[str]]) -> Mapping[str, Any]:
    """Return the whole plan as JSON values; money in nano-dollars, times in seconds."""
    return {
        "total": asdict(plan.total),
        "exact": plan.exact,
        "seconds": plan.seconds,
        "online_budget": plan.online_budget,
        "batch_budget": plan.batch_budget,
        "as_sent": plan.as_sent,
        "at_vendors": plan.at_vendors,
        "of_others": plan.of_others,
        "unasked_calls": plan.unasked_calls,
        "unasked": plan.unasked,
        "online_seconds": plan.online_seconds,
        "budgets": asdict(plan.outlook),
        "lines": [asdict(line) for line in plan.lines],
        "times": [asdict(time) for time in plan.times],
        "problems": [asdict(problem) for problem in problems],
        "unheeded": [asdict(setting) | {"of": asked} for setting, asked in unheeded.items()],
    }


def print_plan(work: Work, plan: Plan, problems: list[Problem], console: Console) -> None:
    """Print the plan on one screen: cost, time, budget, a line per stage and model, and problems."""
    _print_summary(work, plan, console)
    print_cells(_short_table(plan), console)
    _print_notes(plan, problems, console)
    if unheeded := unheeded_settings(work):
        settings = counted(len(unheeded), "setting")
        print_line(f"{settings} without effect on some models; --long names them", console, "yellow")


def _print_summary(work: Work, plan: Plan, console: Console) -> None:
    for line in (*_money_and_time(work, plan), *budget_sentences(plan.outlook, is_likely(work.sweep))):
        print_line(line, console)


def _print_notes(plan: Plan, problems: list[Problem], console: Console) -> None:
    if not plan.exact:
        why = "fewer if some fail or are rejected, or lead to calls that are in the store already"
        print_line(f"~ depends on earlier replies: {why}", console)
    measured: Counter[tuple[str, str]] = Counter()
    for line in plan.lines:
        measured[line.stage, line.name] += line.measured
    if replies := measured.total():
        known = ", ".join(f"{stage} {name}" for (stage, name), count in measured.items() if count)
        rest = f" of {known}; the other rows are guesses" if plan.assumed else ""
        print_line(f"tokens are measured on {counted(replies, 'reply', 'replies')}{rest}", console)
    for problem in problems:
        print_line(str(problem), console, _STYLE[problem.severity])


def print_long_plan(work: Work, plan: Plan, problems: list[Problem], console: Console) -> None:
    """Print the plan with tokens, both prices, times per stage and other budgets."""
    _print_summary(work, plan, console)
    _print_figures(plan, console)
    _print_notes(plan, problems, console)
    for time in plan.times:
        measured = "" if time.a_call is None else f" ({time.a_call:.1f} s per call, measured)"
        text = f"{time.stage}: {duration(time.seconds)} online, {time.slowest} takes longest{measured}"
        print_line(text, console)
    print_line("times assume the catalogue's rate limits; your account's may differ", console)
    if plan.total.batchable:
        online, batch = (usd(plan.outlook.spent + budget) for budget in (plan.online_budget, plan.batch_budget))
        budgets = f"{online} with all calls online, {batch} by batch"
        print_line(f"smallest budget at which no call waits: {budgets}", console)
    print_budgets(plan.outlook, console)
    limit = spending_limit(work.sweep)
    if limit and limit.assumption:
        print_line(f"likely budget: {limit.assumption}", console)
    for setting, asked in unheeded_settings(work).items():
        what = "set and sent, but without effect" if setting.sent else "set, but not sent"
        print_line(f"{what} ({setting.why}): {setting} of {', '.join(asked)}", console)


def is_likely(sweep: Sweep) -> bool:
    """Return whether batches reserve an upper bound estimated from a sample of their rows (`reserve: likely`)."""
    limit = spending_limit(sweep)
    return bool(limit and limit.assumption)


def _money_and_time(work: Work, plan: Plan) -> Iterator[str]:
    total, sweep = plan.total, work.sweep
    by_batch = sum(line.figures.to_pay for line in plan.lines if line.by_batch)
    most = sum(_most(line.by_batch, line.figures) for line in plan.lines)
    ways = f"{by_batch:,} by batch, {total.to_pay - by_batch:,} online" if by_batch else "all online"
    money = f"{sweep.name}: usually {usd(plan.as_sent)}, at most {usd(most)} (longest replies, each asked for once)"
    if plan.as_sent != total.online:
        money += f"; all online {usd(total.online)}"
    elif total.batch < total.online:
        money += f"; by batch {usd(total.batch)}"
    yield money
    up_to = "" if plan.exact else "up to "
    yield (
        f"{up_to}{counted(total.to_pay, 'call')} to pay ({ways}; mode: {sweep.mode}), {total.reused:,} of "
        f"{total.calls:,} are in the store at {_whole(sweep.store)}"
    )
    if plan.at_vendors:
        yield (
            f"of these, calls for at most {usd(plan.at_vendors)} are in open batches at the vendors already; the run "
            "collects them and does not send them again"
        )
    if plan.of_others:
        yield (
            f"of these, {counted(plan.of_others, 'call')} {_are(plan.of_others)} in open batches of other runs of the "
            "store; this run waits for the answers, and the others pay for them"
        )
    if plan.unasked_calls:
        yield (
            f"on top of that, {counted(plan.unasked_calls, 'call')} for at most {usd(plan.unasked)} that this sweep no "
            f"longer asks for {_are(plan.unasked_calls)} in open batches at the vendors; the run "
            f"collects and pays for them too. `hab batches cancel {sweep.run_folder}` cancels what is not done yet"
        )
    yield _time(work, plan, is_likely(sweep))


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _whole(place: Location) -> str:
    return str(place.path.absolute()) if place.is_local else str(place)


def _time(work: Work, plan: Plan, likely: bool) -> str:
    if not any(line.by_batch and line.figures.to_pay for line in plan.lines):
        waits = plan.at_vendors + plan.of_others > 0
        batches = "; for the open batches usually about 1 hour, at most 1 day" if waits else ""
        return f"time: about {duration(plan.seconds)} online{_bottleneck(work, plan)}{batches}"
    by_batch = batch_time(plan.outlook, likely) or "until the budget is reached"
    online = f"; {duration(plan.online_seconds)} for what goes online" if plan.online_seconds else ""
    return f"time: {by_batch}{online}; all online about {duration(plan.seconds)}{_bottleneck(work, plan)}"


def _bottleneck(work: Work, plan: Plan) -> str:
    """Name the token limit that decides the online time: the catalogue has the limits of the lowest account tier.

    How fast this machine runs a local model is unknown.
    """
    slowest = max(plan.times, key=lambda time: time.seconds, default=None)
    if slowest and slowest.seconds and slowest.a_call is None and work.models[slowest.slowest].entry.weights:
        return f", which is a guess: {slowest.slowest} runs on this machine, and may take several times as long"
    if slowest is None or not slowest.tokens_per_minute:
        return ""
    limit = f"{slowest.tokens_per_minute:,} tokens a minute of {slowest.slowest}"
    return f", by {limit} (set `limits:` if yours are higher)"


def _most(by_batch: bool, figures: Figures) -> int:
    return figures.most_batch if by_batch else figures.most_online


def _short_table(plan: Plan) -> Table:
    """Return a table with a line per stage and model, or two if its calls go both online and by batch.

    It says how calls are sent only if not all are sent the same way.
    """
    is_mixed = len({line.by_batch for line in plan.lines}) > 1
    table = Table(box=None, pad_edge=False)
    for title in ("stage", "model"):
        table.add_column(title, overflow="fold")
    table.add_column("calls", justify="right", no_wrap=True)
    if is_mixed:
        table.add_column("sent", no_wrap=True)
    for title in ("usually", "at most"):
        table.add_column(title, justify="right", no_wrap=True)
    inexact = {(line.stage, line.name) for line in plan.lines if not line.exact}
    for (stage, name, by_batch), sums in plan.grouped(lambda n: (n.stage, n.name, n.by_batch)).items():
        about = "~" if (stage, name) in inexact else ""
        usual = sums.batch if by_batch else sums.online
        sent = ["batch" if by_batch else "online"] if is_mixed else []
        money = usd(usual), usd(_most(by_batch, sums))
        table.add_row(one_line(stage), one_line(name), f"{about}{sums.to_pay:,}", *sent, *money)
    return table


def _print_figures(plan: Plan, console: Console) -> None:
    """Print all figures in one table or, if that is too wide for the terminal, counts and dollars in two."""
    whole = _table(plan, _ALL)
    is_wide = Measurement.get(console, console.options.update(width=_UNLIMITED_WIDTH), whole).maximum > console.width
    for figures in (_COUNTS, _DOLLARS) if is_wide else (_ALL,):
        print_cells(_table(plan, figures), console)


def _table(plan: Plan, figures: slice) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("stage", "model"):
        table.add_column(title, overflow="fold")
    for title in _FIGURES[figures]:
        table.add_column(title, justify="right", no_wrap=True)
    for (stage, name, by_batch), sums in plan.grouped(lambda n: (n.stage, n.name, n.by_batch)).items():
        table.add_row(one_line(stage), one_line(name), *("batch" if by_batch else "online", *_cells(sums))[figures])
    table.add_section()
    table.add_row("total", "", *("", *_cells(plan.total))[figures], style="bold")
    return table


def _cells(figures: Figures) -> tuple[str, ...]:
    by_batch = (usd(figures.batch), usd(figures.most_batch)) if figures.batchable else ("-", "-")
    return (
        f"{figures.calls:,}",
        f"{figures.reused:,}" if figures.reused else "",
        _tokens(figures.input),
        _tokens(figures.output),
        usd(figures.online),
        usd(figures.most_online),
        *by_batch,
    )


def _tokens(count: int) -> str:
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:,.1f}{unit}"
    return str(count)
